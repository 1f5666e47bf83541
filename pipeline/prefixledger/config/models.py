"""The parts of a scenario: pools with their cache, fleet, running requests and prices; events; a name and a seed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from prefixledger.config.events import Event, in_order
from prefixledger.config.kv_size import blocks_in, bytes_per_token
from prefixledger.config.pricing import ENGINE_RATES, Pricing
from prefixledger.config.registry import OUTPUTS, PROFILES, RESIDENCES, ROUTINGS
from prefixledger.config.toml_file import Part, checked, must_exist, near_hint, refusal
from prefixledger.config.units import Capacity, parse_capacity, parse_duration_us
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


def _one_of(names: tuple[str, ...] | dict[str, Any], what: str) -> BeforeValidator:
    return BeforeValidator(lambda value: must_exist(str(value), names, what))


Duration = Annotated[str, AfterValidator(_duration)]
Globs = Annotated[
    tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v), Field(strict=False)
]


class Match(Part):
    """Which rows a pool takes: every field given must match one of its globs; null matches no glob."""

    provider: Globs | None = None
    model: Globs | None = None
    release: Globs | None = None
    client: Globs | None = None
    tenant: Globs | None = None
    replica: Globs | None = None
    adapter: Globs | None = None
    cache_salt: Globs | None = None
    service_tier: Globs | None = None
    namespace: Globs | None = None
    source_file: Globs | None = None

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields that are given, with their globs."""
        return {name: globs for name, globs in self if globs is not None}

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Say whether a row (column name to value) belongs here."""
        return all(_fits(row.get(name), globs) for name, globs in self.fields.items())


class Cache(Part):
    """One replica's cache: its rules, its size, its time to live."""

    profile: Annotated[str, _one_of(PROFILES, "profile")] = "vllm"
    capacity: Annotated[str, AfterValidator(_capacity)] = "unlimited"
    ttl: Duration = "none"

    @property
    def ttl_us(self) -> int | None:
        """Microseconds that a block lives after its last use; None is for ever."""
        return parse_duration_us(self.ttl)

    @property
    def size(self) -> Capacity:
        """The capacity of one replica, in the unit it was stated in."""
        return parse_capacity(self.capacity)


class Fleet(Part):
    """The replicas of a pool and how a request finds its own."""

    routing: Annotated[str, _one_of(ROUTINGS, "routing")] = "as-logged"
    replicas: Annotated[int, Field(ge=1)] | None = None
    replica_grace: Duration = "10m"
    prefix_tokens: Annotated[int, Field(ge=1)] = 256

    @property
    def replica_grace_us(self) -> int | None:
        """Microseconds that a replica lives on after its last logged request; None is to the end of the log."""
        return parse_duration_us(self.replica_grace)


class InFlight(Part):
    """How long a request holds its blocks, and what its output adds."""

    residence: Annotated[str, _one_of(RESIDENCES, "residence")] = "auto"
    output: Annotated[str, _one_of(OUTPUTS, "output mode")] = "auto"
    prefill_ms_per_token: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    decode_ms_per_token: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    hits_shorten_prefill: bool = True

    @model_validator(mode="after")
    def _estimable(self) -> InFlight:
        rates = (self.prefill_ms_per_token, self.decode_ms_per_token)
        if (self.residence == "estimated" or any(r is not None for r in rates)) and None in rates:
            raise refusal(
                "an estimated residence needs prefill_ms_per_token and decode_ms_per_token",
                "give both; 0 says that one of them takes no time",
            )
        return self


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
        size = self.cache.size
        if size.amount is None:
            return None
        if size.unit == "bytes":
            assert self.model is not None
            blocks = blocks_in(size.amount, self.model, block_size, per_gpu=size.per_gpu)
        else:
            blocks = size.amount // (block_size if size.unit == "tokens" else 1)
        if blocks < 1:
            raise UsageError(f"capacity {self.cache.capacity!r} holds no block of {block_size} tokens")
        return blocks

    @model_validator(mode="after")
    def _sized(self) -> Pool:
        if self.cache.size.unit == "bytes" and self.model is None:
            raise refusal(
                f"capacity {self.cache.capacity!r} needs the shape of the model",
                "add [pool.model] with layers, kv_heads, head_dim and dtype, or give blocks or tokens",
                at=("cache", "capacity"),
            )
        return self


class Scenario(Part):
    """Pools, events and prices under one name; the first pool that matches a row takes it."""

    name: str = DEFAULT_NAME
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
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
        return given.model_copy(update={"rates": "by-model" if pool.hosted else ENGINE_RATES})

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


def _fits(value: object, globs: tuple[str, ...]) -> bool:
    return value is not None and any(fnmatchcase(str(value), glob) for glob in globs)


def _check_pools(events: tuple[Event, ...], names: list[str]) -> None:
    for event in events:
        if event.pool is not None and not any(fnmatchcase(name, event.pool) for name in names):
            raise UsageError(
                f"event {event.kind!r}: there is no pool {event.pool!r}",
                hint=near_hint(event.pool, names, "pools that exist"),
            )
