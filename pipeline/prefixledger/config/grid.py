"""Grids of scenarios: one for every combination of what can be chosen about caches, fleets and the keys of prompts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from prefixledger.config.events import in_order
from prefixledger.config.grid_values import (
    AS_LOGGED,
    NONE,
    read_growth,
    read_sample,
    read_values,
    share_of,
    tier_named,
    tier_under,
)
from prefixledger.config.made_fleet_events import renamed
from prefixledger.config.pricing import PREFILL_TOKENS, Pricing
from prefixledger.config.scenario import dump, parse_scenario
from prefixledger.config.units import parse_capacity
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.config.events import Event
    from prefixledger.config.models import Pool
    from prefixledger.config.scenario import Scenario

__all__ = [
    "AS_LOGGED", "AXES", "KEY_AXES", "MOST_CELLS", "Asked", "Grid", "Keys", "as_logged", "axes_of", "cells", "read_grid",
    "read_growth", "read_sample", "share_of", "told", "with_capacity",
]  # fmt: skip

KEY_AXES = ("block_size", "salt", "layout")
"""What changes keys: every combination of these is a log of its own."""
AXES = ("capacity", "ttl", "residence", "running", "tier", "rates", "routing", "replicas")
"""Of scenarios, in the order in which a grid is run through; the last changes fastest, those of keys slowest."""

_OF_PROVIDERS = frozenset({"ttl", "rates"})
"""What can be chosen of a cache that a provider runs."""

MOST_CELLS = 1_000
_AMOUNT = re.compile(r'(?<="capacity":")[1-9]\d*(?= blocks")')
_OPTIONS = {"block_size": "--block-sizes"}


@dataclass(frozen=True, slots=True)
class Grid:
    """Values to try; an axis without any stays as the scenario has it.

    Attributes:
        block_size: Tokens per block.
        salt: Who shares a cache salt.
        layout: Where in a prompt stands what changes from call to call.
        capacity: Capacities of one replica.
        ttl: Lifetimes.
        residence: How long requests hold their blocks.
        running: Requests that may run on a replica at a time, or ``none`` for as many as fit.
        tier: Lower tiers, ``[KIND:]SIZE[:SCOPE]`` or ``none``.
        rates: Names of models whose prices are paid, or ``by-model``.
        routing: Names of routings.
        replicas: Numbers of replicas, or ``+1``, ``-1`` … for more and fewer than today's.
    """

    block_size: tuple[int, ...] = ()
    salt: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    capacity: tuple[str, ...] = ()
    ttl: tuple[str, ...] = ()
    residence: tuple[str, ...] = ()
    running: tuple[int | str, ...] = ()
    tier: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    routing: tuple[str, ...] = ()
    replicas: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keys:
    """What the keys of prompts are made of.

    Attributes:
        block_size: Tokens per block; None as the log has them.
        salt: One of ``grid_values.SALTS``.
        layout: One of ``grid_values.LAYOUTS``.
    """

    block_size: int | None = None
    salt: str = AS_LOGGED
    layout: str = AS_LOGGED


@dataclass(frozen=True, slots=True)
class Asked:
    """One combination.

    Attributes:
        scenario: What is replayed.
        keys: On which log.
        share: The part of the prompt tokens that is to hit, for which the capacity of the scenario is to be found; None
            where it was given.
    """

    scenario: Scenario
    keys: Keys = Keys()
    share: float | None = None

    @property
    def open(self) -> bool:
        """Whether the capacity is yet to be found."""
        sizes = {pool.cache.capacity for pool in self.scenario.pool if not pool.hosted}
        return self.share is not None and sizes == {"unlimited"}


def read_grid(**axes: str | Sequence[str | int] | None) -> Grid:
    """Read and check the values of every axis.

    Args:
        axes: By name of the axis a comma list, or a sequence; None leaves the axis out.

    Raises:
        UsageError: A value cannot be used, there is none at all, or there are too many cells.
    """
    names = (*KEY_AXES, *AXES)
    read = {name: read_values(name, axes.get(name)) for name in names}
    cells = 1
    for values in read.values():
        cells *= max(1, len(values))
    if not any(read.values()):
        options = ", ".join(f"--{name}" for name in AXES)
        raise UsageError(
            "nothing is to be changed",
            hint=f"give at least one of {options}, --block-sizes, --salt, --layout and --growth",
        )
    if cells > MOST_CELLS:
        raise UsageError(
            f"the grid has {cells:,} cells, and each is a replay",
            hint=f"at most {MOST_CELLS:,}: give fewer values",
        )
    return Grid(**read)


def cells(
    baseline: Scenario, grid: Grid, logged: Mapping[int, Sequence[str]], block_size: int
) -> tuple[Asked, ...]:
    """Return every combination that means something, each once.

    A provider's cache has no capacity, routing or replicas to choose: only its lifetime changes. Where the log chooses
    the replica there is no number of them to choose, so that such combinations are one.

    Args:
        baseline: What is changed.
        grid: The values.
        logged: Index of each pool that the log asks, to the names of the replicas that it has in the baseline.
        block_size: Tokens per block of the log, by which capacities in blocks are tokens where other blocks are tried.

    Raises:
        UsageError: A combination is refused, or an axis changes nothing in any pool.
    """
    made: dict[tuple[str, Keys, float | None], Asked] = {}
    checked: set[str] = set()
    names = (*KEY_AXES, *AXES)
    # An axis that is left out is one value: None, which keeps what the scenario says.
    for values in product(*((getattr(grid, name) or (None,)) for name in names)):
        asked = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        keys = Keys(**{name: asked[name] for name in KEY_AXES if name in asked})
        share = share_of(asked.get("capacity", ""))
        if share is not None:
            asked["capacity"] = "unlimited"
        pools = tuple(
            _changed(pool, asked, len(logged[index])) if index in logged else pool
            for index, pool in enumerate(baseline.pool)
        )
        if keys.block_size is not None and keys.block_size != block_size:
            pools = tuple(_in_blocks_of(pool, keys.block_size, block_size) for pool in pools)
        events = _events(baseline, pools, logged)
        cell = Asked(baseline.model_copy(update={"pool": pools, "event": events}), keys, share)
        which = (cell.scenario.model_dump_json(), keys, share)
        if which in made:
            continue
        made[which] = cell
        # Files are read for 8 ms, and the size of a capacity is not what a rule goes by: 100 of them are checked once.
        if (shape := _AMOUNT.sub("", which[0])) not in checked:
            _check(cell.scenario, asked)
            checked.add(shape)
    engines = [index for index in logged if not baseline.pool[index].hosted]
    _check_axes(grid, [one.scenario for one in made.values()], engines)
    return tuple(made.values())


def axes_of(scenario: Scenario, pools: Sequence[int]) -> dict[str, str | int | None]:
    """Return the value of each axis in the pools that the log asks; where they differ, all values with ``/`` between.

    Args:
        scenario: A cell, or the baseline.
        pools: Indexes of those pools.
    """
    found: dict[str, str | int | None] = {}
    for name in AXES:
        # A provider lets nobody choose the rest, so its pools have no value on the other axes.
        chosen = [i for i in pools if name in _OF_PROVIDERS or not scenario.pool[i].hosted] or pools
        values = list(dict.fromkeys(_value(scenario, scenario.pool[index], name) for index in chosen))
        found[name] = (
            values[0]
            if len(values) == 1
            else " / ".join("-" if v is None else str(v) for v in values) or None
        )
    return found


def _value(scenario: Scenario, pool: Pool, name: str) -> str | int | None:
    if name == "rates":
        pricing = scenario.pricing_of(pool)
        if pricing.rates is None:
            return "GPU hours"
        if isinstance(pricing.rates, str):
            return pricing.rates
        own = pricing.rates
        return own.currency if own.currency == PREFILL_TOKENS else f"{own.base} {own.currency}"
    if name == "tier":
        return tier_named(pool.tier)
    if name == "running":
        return pool.in_flight.max_running
    part = {"capacity": pool.cache, "ttl": pool.cache, "residence": pool.in_flight}.get(name, pool.fleet)
    found: str | int | None = getattr(part, name)
    return found


def _changed(pool: Pool, asked: Mapping[str, Any], logged: int) -> Pool:
    cache = {"ttl": asked["ttl"]} if "ttl" in asked else {}
    if "rates" in asked:
        pricing = (pool.pricing or Pricing()).model_copy(update={"rates": asked["rates"]})
        pool = pool.model_copy(update={"pricing": pricing})
    in_flight = {"residence": asked["residence"]} if "residence" in asked else {}
    if "running" in asked:
        in_flight["max_running"] = None if asked["running"] == NONE else asked["running"]
    if in_flight and not pool.hosted:
        pool = pool.model_copy(update={"in_flight": pool.in_flight.model_copy(update=in_flight)})
    if "tier" in asked and not pool.hosted:
        pool = pool.model_copy(update={"tier": tier_under(asked["tier"], pool.cache.profile)})
    if pool.hosted:
        if cache:
            cache["mark_ttls"] = "all"
        return pool.model_copy(update={"cache": pool.cache.model_copy(update=cache)})
    if "capacity" in asked:
        cache["capacity"] = asked["capacity"]
    routing = asked.get("routing", pool.fleet.routing)
    replicas = None if routing == AS_LOGGED else _replicas(pool, asked.get("replicas"), logged)
    fleet = pool.fleet.model_copy(update={"routing": routing, "replicas": replicas})
    # Options are those of one router; another gets its own, with its defaults.
    fleet = fleet.model_copy(update={"router": fleet.options})
    return pool.model_copy(update={"cache": pool.cache.model_copy(update=cache), "fleet": fleet})


def _events(
    baseline: Scenario, pools: Sequence[Pool], logged: Mapping[int, Sequence[str]]
) -> tuple[Event, ...]:
    """Return the events of a cell: those that name replicas of the log, for the made ones that stand in their place."""
    events = baseline.event
    for index, names in logged.items():
        was, now = baseline.pool[index].fleet, pools[index].fleet
        if was.routing == AS_LOGGED and now.routing != AS_LOGGED:
            events = tuple(
                one for event in events for one in renamed(event, pools[index].name, names, now.replicas)
            )
    return in_order(events)


def _replicas(pool: Pool, asked: int | str | None, logged: int) -> int:
    """Return a number of replicas, which may be asked for as so many more or fewer than today's."""
    today = pool.fleet.replicas or logged
    if asked is None or isinstance(asked, int):
        return today if asked is None else asked
    if today + int(asked) < 1:
        raise UsageError(
            f"pool {pool.name!r} has {today} replicas, and {asked} leaves none", hint="take fewer away"
        )
    return today + int(asked)


def as_logged(keys: Keys) -> Keys:
    """Return keys with blocks as the log has them."""
    return replace(keys, block_size=None)


def with_capacity(asked: Asked, capacity: str) -> Asked:
    """Return a combination with the capacity that was found for it; a provider's cache has none."""
    pools = tuple(
        pool
        if pool.hosted
        else pool.model_copy(update={"cache": pool.cache.model_copy(update={"capacity": capacity})})
        for pool in asked.scenario.pool
    )
    return replace(asked, scenario=asked.scenario.model_copy(update={"pool": pools}))


def _in_blocks_of(pool: Pool, wanted: int, block_size: int) -> Pool:
    """State what is in blocks of the log in tokens: blocks of another size are not to be more memory, or less."""
    if pool.cache.profile == "sglang":
        pool = pool.model_copy(update={"cache": pool.cache.model_copy(update={"page_size": wanted})})
    for part in ("cache", "tier"):
        held = getattr(pool, part)
        if held is None or pool.hosted or getattr(held, "times", None) is not None:
            continue
        size = parse_capacity(held.capacity)
        if size.amount is not None and size.unit == "blocks":
            tokens = {"capacity": f"{size.amount * block_size} tokens"}
            pool = pool.model_copy(update={part: held.model_copy(update=tokens)})
    return pool


def _check(cell: Scenario, asked: Mapping[str, Any]) -> None:
    """Hold a copy to the rules of files, which copies pass by."""
    try:
        parse_scenario(dump(cell))
    except UsageError as error:
        raise UsageError(f"{told(asked)}: {error.message}", hint=error.hint) from error


def told(axes: Mapping[str, Any]) -> str:
    """Name a cell by the values of its axes."""
    return ", ".join(f"{name} {value}" for name, value in axes.items() if value is not None)


def _check_axes(grid: Grid, made: Sequence[Scenario], engines: Sequence[int]) -> None:
    of_engines = [name for name in ("block_size", *AXES) if name not in _OF_PROVIDERS]
    unused = [name for name in of_engines if getattr(grid, name) and not engines]
    if unused:
        raise UsageError(
            f"{_OPTIONS.get(unused[0], f'--{unused[0]}')} changes nothing: a provider runs every cache that the log asks",
            hint="only --ttl and --rates can be chosen there",
        )
    routed = any(cell.pool[index].fleet.routing != AS_LOGGED for cell in made for index in engines)
    if grid.replicas and not routed:
        raise UsageError(
            "--replicas changes nothing: the log names the replica of each request",
            hint="choose a routing that places requests itself: --routing prefix-hash",
        )
