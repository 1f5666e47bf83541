"""The parts of a scenario: pools with their cache, fleet, running requests and prices; events; a name and a seed."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from prefixledger.config.engine_versions import frees_in_line
from prefixledger.config.events import Event, in_order
from prefixledger.config.in_flight import InFlight
from prefixledger.config.kv_size import blocks_in, bytes_per_token
from prefixledger.config.match import Match  # noqa: TC001  # pydantic looks it up
from prefixledger.config.pricing import ENGINE_RATES, Pricing
from prefixledger.config.registry import PROFILES, ROUTINGS
from prefixledger.config.routers import RouterOptions, router_options
from prefixledger.config.tiers import Tier  # noqa: TC001  # pydantic looks it up
from prefixledger.config.toml_file import Part, checked, must_exist, near_hint, refusal
from prefixledger.config.units import FROM_LOG, Capacity, parse_capacity, parse_duration_us
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_NAME = "as-is"


def _duration(value: str) -> str:
    checked(parse_duration_us, value)
    return value


def _capacity(value: str) -> str:
    checked(parse_capacity, value)
    return value


def _version(value: str) -> str:
    checked(frees_in_line, value)
    return value


def _one_of(names: tuple[str, ...] | dict[str, Any], what: str) -> BeforeValidator:
    return BeforeValidator(lambda value: must_exist(str(value), names, what))


Duration = Annotated[str, AfterValidator(_duration)]


Marks = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    BeforeValidator(lambda v: (v,) if isinstance(v, int) else v),
    Field(strict=False, max_length=3),
]
"""A provider takes 4 marks at most, and the end of the prompt is one of them."""


class Cache(Part):
    """One replica's cache: its rules, its size, its time to live."""

    profile: Annotated[str, _one_of(PROFILES, "profile")] = "vllm"
    version: Annotated[str, AfterValidator(_version)] | None = None
    page_size: Annotated[int, Field(ge=1)] | None = None
    capacity: Annotated[str, AfterValidator(_capacity)] = "unlimited"
    ttl: Duration = "none"
    mark_ttls: Literal["as-sent", "all", "long-heads", "off"] | None = None
    minimum_tokens: Annotated[int, Field(ge=1)] | None = None
    marks: Marks | None = None
    overflow_rpm: Annotated[int, Field(ge=0)] | None = None
    keep_alive: Annotated[Duration, Field(pattern="[1-9]")] | None = None
    keep_alive_calls: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _lifetime(cls, data: Any) -> Any:
        profile = PROFILES.get(str(data.get("profile"))) if isinstance(data, dict) else None
        if profile is None or not profile.hosted:
            return data
        # Whoever chooses a lifetime wants all entries to have it; else each mark has the one that it was sent with.
        return {"ttl": profile.ttls[0], "mark_ttls": "all" if "ttl" in data else "as-sent", **data}

    @property
    def as_sent(self) -> bool:
        """Whether each mark of a hosted cache has the lifetime that it was sent with."""
        return self.mark_ttls == "as-sent"

    @property
    def head_ttl_us(self) -> int | None:
        """Microseconds that the marks of a prompt before its last one live, where they live longer than that; else None."""
        return parse_duration_us(PROFILES[self.profile].ttls[1]) if self.mark_ttls == "long-heads" else None

    @property
    def ttl_us(self) -> int | None:
        """Microseconds that a block lives after its last use; None is for ever."""
        return parse_duration_us(self.ttl)

    @property
    def size(self) -> Capacity:
        """The capacity of one replica, in the unit it was stated in."""
        return parse_capacity(self.capacity)

    @property
    def unhashed_in_line(self) -> bool:
        """Whether freed blocks without a hash wait behind all other free blocks; not without a version."""
        return self.version is not None and frees_in_line(self.version)

    @model_validator(mode="after")
    def _versioned(self) -> Cache:
        if self.version is not None and self.profile != "vllm":
            raise refusal(
                f"profile {self.profile!r} has no versions",
                'leave version out: it chooses between the rules of profile "vllm"',
                at=("version",),
            )
        if self.page_size is not None and self.profile != "sglang":
            raise refusal(
                f"profile {self.profile!r} has no pages",
                'leave page_size out: it is the --page-size of profile "sglang"; blocks of others are those of the log',
                at=("page_size",),
            )
        return self

    @model_validator(mode="after")
    def _hosted(self) -> Cache:
        checked(lambda _: self.check_hosted(), "")
        return self

    def check_hosted(self) -> None:
        """Check what a provider lets nobody choose, also where these parts were changed after they were read.

        Raises:
            UsageError: A hosted cache is given a capacity or another lifetime than can be had, or another cache
                what only hosted ones have.
        """
        profile = PROFILES[self.profile]
        if not profile.hosted:
            for name in (
                "minimum_tokens",
                "marks",
                "mark_ttls",
                "overflow_rpm",
                "keep_alive",
                "keep_alive_calls",
            ):
                if getattr(self, name) is not None:
                    raise UsageError(
                        f"{name} does not go with profile {self.profile!r}",
                        hint="only hosted caches have a shortest prefix, marks, overflow and calls that keep alive",
                    )
            return
        if self.size.amount is not None or self.size.unit == FROM_LOG:
            raise UsageError(
                f"profile {self.profile!r} has no capacity",
                hint="the provider decides how much it keeps: leave it out",
            )
        if not profile.any_ttl and self.ttl_us not in [parse_duration_us(ttl) for ttl in profile.ttls]:
            raise UsageError(
                f"profile {self.profile!r} has no ttl {self.ttl!r}",
                hint=f"lifetimes that exist: {', '.join(profile.ttls)}",
            )
        if self.mark_ttls == "long-heads" and len(profile.ttls) == 1:
            raise UsageError(
                f"profile {self.profile!r} has one lifetime",
                hint='leave mark_ttls out: "long-heads" is for caches that sell a longer one',
            )
        if self.mark_ttls in ("as-sent", "long-heads") and self.ttl_us != parse_duration_us(profile.ttls[0]):
            raise UsageError(
                f"mark_ttls = {json.dumps(self.mark_ttls)} does not go with ttl {self.ttl!r}",
                hint='a lifetime that is chosen is that of all marks: mark_ttls = "all"',
            )


class Fleet(Part):
    """The replicas of a pool and how a request finds its own."""

    routing: Annotated[str, _one_of(ROUTINGS, "routing")] = "as-logged"
    replicas: Annotated[int, Field(ge=1)] | None = None
    replica_grace: Duration = "10m"
    prefix_tokens: Annotated[int, Field(ge=1)] = 256
    router: Annotated[SerializeAsAny[RouterOptions], Field(validate_default=True)] = RouterOptions()

    @field_validator("router", mode="before")
    @classmethod
    def _options(cls, given: Any, info: ValidationInfo) -> Any:
        # Without a routing that exists there is nothing to say about its options.
        return router_options(info.data["routing"], given) if "routing" in info.data else RouterOptions()

    @property
    def options(self) -> RouterOptions:
        """What the routing was told, also where a copy of these parts was given another routing."""
        return router_options(self.routing, self.router)

    @property
    def replica_grace_us(self) -> int | None:
        """Microseconds that a replica lives on after its last logged request; None is to the end of the log."""
        return parse_duration_us(self.replica_grace)


class ModelShape(Part):
    """What the KV bytes of a token follow from; see ``kv_size``."""

    layers: Annotated[int, Field(ge=1)]
    kv_heads: Annotated[int, Field(ge=1)] | None = None
    head_dim: Annotated[int, Field(ge=1)] | None = None
    head_dim_v: Annotated[int, Field(ge=1)] | None = None
    kv_lora_rank: Annotated[int, Field(ge=1)] | None = None
    qk_rope_head_dim: Annotated[int, Field(ge=0)] | None = None
    dtype: str | Annotated[float, Field(gt=0, allow_inf_nan=False)] = "bfloat16"
    tp: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _complete(self) -> ModelShape:
        if self.kv_lora_rank is not None and (self.kv_heads or self.head_dim or self.head_dim_v):
            raise refusal(
                "kv_heads and head_dim do not go with kv_lora_rank",
                "multi-head latent attention keeps one latent vector for all heads: leave them out",
            )
        checked(lambda _: bytes_per_token(self), "")
        return self


class Pool(Part):
    """The replicas that share a cache configuration."""

    name: Annotated[str, Field(min_length=1)] | None = None
    match: Match | None = None
    cache: Cache = Cache()
    fleet: Fleet = Fleet()
    in_flight: InFlight = InFlight()
    model: ModelShape | None = None
    tier: Tier | None = None
    pricing: Pricing | None = None

    @property
    def hosted(self) -> bool:
        """Whether a provider runs this cache."""
        return PROFILES[self.cache.profile].hosted

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Say whether a row (column name to value) is taken by this pool, if no earlier one took it."""
        return self.match is None or self.match.matches(row)

    def capacity_blocks(self, block_size: int) -> int | None:
        """Return the usable blocks of one replica; None is unlimited.

        Args:
            block_size: Tokens per block.

        Raises:
            UsageError: Not even one block fits.
        """
        blocks = self._blocks(self.cache.size, block_size)
        if blocks is not None and blocks < 1:
            raise UsageError(
                f"pool {self.name!r}: capacity {self.cache.capacity!r} holds no block of {block_size} tokens",
                hint=f"give at least {block_size} tokens, or 1 block",
            )
        return blocks

    def tier_blocks(self, block_size: int) -> int | None:
        """Return the blocks that the lower tier holds, of one replica or of the fleet; None is unlimited."""
        assert self.tier is not None
        if self.tier.times is None:
            return self._blocks(self.tier.size, block_size)
        above = self.capacity_blocks(block_size)
        return None if above is None else int(above * self.tier.times)

    def _blocks(self, size: Capacity, block_size: int) -> int | None:
        if size.unit == FROM_LOG:
            raise UsageError(
                f"pool {self.name!r}: capacity 'from-log' is not known before a log is read",
                hint="replay it with a log that prints its capacity, or give it in numbers",
            )
        if size.amount is None:
            return None
        if size.unit == "bytes":
            assert self.model is not None
            return blocks_in(size.amount, self.model, block_size, per_gpu=size.per_gpu)
        return size.amount // (block_size if size.unit == "tokens" else 1)

    @model_validator(mode="after")
    def _chunked(self) -> Pool:
        if self.in_flight.chunked_prefill_tokens is not None and self.cache.profile != "sglang":
            raise refusal(
                f"profile {self.cache.profile!r} shows a prompt when it is admitted, not in chunks",
                'leave chunked_prefill_tokens out, or replay profile "sglang"',
                at=("in_flight", "chunked_prefill_tokens"),
            )
        return self

    @model_validator(mode="after")
    def _tiered(self) -> Pool:
        if self.tier is not None:
            # Written past the frozen model: a validator may complete what it validates.
            object.__setattr__(self, "tier", self.tier.under(self.cache.profile))
        return self

    @model_validator(mode="after")
    def _sized(self) -> Pool:
        for key, part in (("cache", self.cache), ("tier", self.tier)):
            if part is not None and part.size.unit == "bytes" and self.model is None:
                raise refusal(
                    f"capacity {part.capacity!r} needs the shape of the model",
                    "add [pool.model] with layers, kv_heads, head_dim and dtype, or give blocks or tokens",
                    at=(key, "capacity"),
                )
        return self


class Scenario(Part):
    """Pools, events and prices under one name; the first pool that matches a row takes it."""

    name: str = DEFAULT_NAME
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    seeds: Annotated[int, Field(ge=1, le=100)] = 5
    pool: Annotated[tuple[Pool, ...], Field(strict=False)] = (Pool(),)
    event: Annotated[tuple[Event, ...], Field(strict=False)] = ()
    pricing: Pricing = Pricing()

    def pool_of(self, row: Mapping[str, Any]) -> int | None:
        """Return the index of the pool that takes a row (column name to value), or None."""
        return next((index for index, pool in enumerate(self.pool) if pool.matches(row)), None)

    def pricing_of(self, pool: Pool) -> Pricing:
        """Return the prices of one pool: its own, else the general ones, else the default of its profile."""
        given = (pool.pricing or Pricing()).over(self.pricing)
        by_gpu = given.gpu_hour is not None and given.prefill_tokens_per_s is not None
        if given.rates is not None or (by_gpu and not pool.hosted):
            return given
        billed = pool.hosted or not PROFILES[pool.cache.profile].replayed
        return given.model_copy(update={"rates": "by-model" if billed else ENGINE_RATES})

    def with_replica_grace(self, grace: str) -> Scenario:
        """Return this scenario with another ``replica_grace`` in every pool.

        Raises:
            UsageError: It is not a duration.
        """
        parse_duration_us(grace)
        pools = tuple(
            pool.model_copy(update={"fleet": pool.fleet.model_copy(update={"replica_grace": grace})})
            for pool in self.pool
        )
        return self.model_copy(update={"pool": pools})

    def check_events(self, events: tuple[Event, ...]) -> None:
        """Check events of a file against the pools of this scenario.

        Raises:
            UsageError: An event names a pool that does not exist.
        """
        _check_pools(events, [pool.name or "" for pool in self.pool])

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("name"), str):
            name = data["name"]
            if not name or name.startswith(".") or any(c in name for c in "/\\\0") or len(name) > 100:  # noqa: PLR2004
                raise refusal(
                    f"{name!r} cannot name a scenario",
                    "it also names a folder: no slash, no dot in front, 1 to 100 letters",
                )
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        if not self.pool:
            raise refusal("there is no pool", "leave pool out for one pool that takes every row")
        names = [pool.name or f"pool-{number}" for number, pool in enumerate(self.pool, start=1)]
        if len(set(names)) < len(names):
            raise refusal("two pools have the same name", f"names: {', '.join(names)}")
        pools = tuple(
            pool.model_copy(update={"name": name}) for pool, name in zip(self.pool, names, strict=True)
        )
        checked(lambda _: _check_pools(self.event, names), "")
        # Written past the frozen model: a validator may complete what it validates.
        object.__setattr__(self, "pool", pools)
        object.__setattr__(self, "event", in_order(self.event))
        return self


def _check_pools(events: tuple[Event, ...], names: list[str]) -> None:
    for event in events:
        if event.pool is not None and not any(fnmatchcase(name, event.pool) for name in names):
            raise UsageError(
                f"event {event.kind!r}: there is no pool {event.pool!r}",
                hint=near_hint(event.pool, names, "pools that exist"),
            )
