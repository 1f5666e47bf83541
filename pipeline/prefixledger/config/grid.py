"""Grids of scenarios: one for every combination of capacities, lifetimes, routings and numbers of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from prefixledger.config.pricing import PREFILL_TOKENS, Pricing
from prefixledger.config.registry import RESIDENCES, ROUTINGS
from prefixledger.config.scenario import dump, parse_scenario
from prefixledger.config.toml_file import near_hint
from prefixledger.config.units import parse_capacity, parse_duration_us
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prefixledger.config.models import Pool
    from prefixledger.config.scenario import Scenario

AS_LOGGED = "as-logged"
AXES = ("capacity", "ttl", "residence", "rates", "routing", "replicas")
"""In the order in which a grid is run through; the last changes fastest."""

_OF_PROVIDERS = frozenset({"ttl", "rates"})
"""What can be chosen of a cache that a provider runs."""

MOST_CELLS = 1_000


@dataclass(frozen=True, slots=True)
class Grid:
    """Values to try; an axis without any stays as the scenario has it.

    Attributes:
        capacity: Capacities of one replica.
        ttl: Lifetimes.
        residence: How long requests hold their blocks.
        rates: Names of models whose prices are paid, or ``by-model``.
        routing: Names of routings.
        replicas: Numbers of replicas.
    """

    capacity: tuple[str, ...] = ()
    ttl: tuple[str, ...] = ()
    residence: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    routing: tuple[str, ...] = ()
    replicas: tuple[int, ...] = ()


def read_grid(**axes: str | Sequence[str | int] | None) -> Grid:
    """Read and check the values of every axis.

    Args:
        axes: By name of the axis a comma list, or a sequence; None leaves the axis out.

    Raises:
        UsageError: A value cannot be used, there is none at all, or there are too many cells.
    """
    read: dict[str, tuple[Any, ...]] = {
        name: tuple(dict.fromkeys(_READERS[name](value) for value in _spelled_out(name, axes.get(name))))
        for name in AXES
    }
    cells = 1
    for values in read.values():
        cells *= max(1, len(values))
    if not any(read.values()):
        raise UsageError(
            "nothing is to be changed",
            hint="give at least one of --capacity, --ttl, --residence, --rates, --routing, --replicas and --growth",
        )
    if cells > MOST_CELLS:
        raise UsageError(
            f"the grid has {cells:,} cells, and each is a replay",
            hint=f"at most {MOST_CELLS:,}: give fewer values",
        )
    return Grid(**read)


MOST_GROWTH = 10.0


def read_growth(given: str | Sequence[str | float] | None) -> tuple[float, ...]:
    """Read factors by which the traffic grows; 1, which is the log itself, is left out.

    Raises:
        UsageError: One is no factor from 1 to 10.
    """
    found = []
    for text in _listed("growth", given):
        try:
            factor = float(text)
        except ValueError:
            factor = 0.0
        if not 1 <= factor <= MOST_GROWTH:
            raise UsageError(
                f"{text!r} is no factor of growth",
                hint=f"write --growth 1.5,2: times the sessions of the log, from 1 to {MOST_GROWTH:g}",
            )
        found.append(factor)
    return tuple(factor for factor in dict.fromkeys(found) if factor != 1)


def cells(baseline: Scenario, grid: Grid, logged: Mapping[int, int]) -> tuple[Scenario, ...]:
    """Return a scenario for every combination that means something, each once.

    A provider's cache has no capacity, routing or replicas to choose: only its lifetime changes. Where the log chooses
    the replica there is no number of them to choose, so that such combinations are one.

    Args:
        baseline: What is changed.
        grid: The values.
        logged: Index of each pool that the log asks, to the replicas that it has in the baseline.

    Raises:
        UsageError: A combination is refused, or an axis changes nothing in any pool.
    """
    made: list[Scenario] = []
    # An axis that is left out is one value: None, which keeps what the scenario says.
    for values in product(*((getattr(grid, name) or (None,)) for name in AXES)):
        asked = {name: value for name, value in zip(AXES, values, strict=True) if value is not None}
        pools = tuple(
            _changed(pool, asked, logged[index]) if index in logged else pool
            for index, pool in enumerate(baseline.pool)
        )
        cell = baseline.model_copy(update={"pool": pools})
        if cell not in made:
            _check(cell, asked)
            made.append(cell)
    engines = [index for index in logged if not baseline.pool[index].hosted]
    _check_axes(grid, made, engines)
    return tuple(made)


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
    part = {"capacity": pool.cache, "ttl": pool.cache, "residence": pool.in_flight}.get(name, pool.fleet)
    found: str | int | None = getattr(part, name)
    return found


def _listed(name: str, given: str | Sequence[str | float] | None) -> list[str]:
    if given is None:
        return []
    values = [str(value).strip() for value in (given.split(",") if isinstance(given, str) else given)]
    if not all(values):
        raise UsageError(
            f"--{name} has an empty value", hint=f"write --{name} A,B with a comma between values"
        )
    return values


def _spelled_out(name: str, given: str | Sequence[str | int] | None) -> list[str]:
    """Return the values of an axis; ``all`` routings are those that place requests themselves."""
    values = _listed(name, given)
    return [r for r in ROUTINGS if r != AS_LOGGED] if name == "routing" and values == ["all"] else values


def share_of(capacity: str) -> float | None:
    """Return the hit rate that a capacity is to be found for, ``90%``; None where it is a size."""
    number = capacity.removesuffix("%")
    if number == capacity:
        return None
    if not number.replace(".", "", 1).isdecimal() or not 0 < float(number) < 100:  # noqa: PLR2004
        raise UsageError(
            f"{capacity!r} is no hit rate", hint="write --capacity 90% for the smallest that hits 90 %"
        )
    return float(number) / 100


def _capacity(text: str) -> str:
    if share_of(text) is not None:
        return text
    whole = f"{text} blocks" if text.isdecimal() else text
    parse_capacity(whole)
    return whole


def _ttl(text: str) -> str:
    parse_duration_us(text)
    return text


def _routing(text: str) -> str:
    if text not in ROUTINGS:
        raise UsageError(
            f"there is no routing {text!r}", hint=near_hint(text, ROUTINGS, "routings that exist")
        )
    return text


def _residence(text: str) -> str:
    if text not in RESIDENCES:
        raise UsageError(
            f"there is no residence {text!r}", hint=near_hint(text, RESIDENCES, "residences that exist")
        )
    return text


def _replicas(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is no number of replicas", hint="write --replicas 4,8")
    return int(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "capacity": _capacity,
    "ttl": _ttl,
    "residence": _residence,
    "rates": str,
    "routing": _routing,
    "replicas": _replicas,
}


def _changed(pool: Pool, asked: Mapping[str, Any], logged: int) -> Pool:
    cache = {"ttl": asked["ttl"]} if "ttl" in asked else {}
    if "rates" in asked:
        pricing = (pool.pricing or Pricing()).model_copy(update={"rates": asked["rates"]})
        pool = pool.model_copy(update={"pricing": pricing})
    if "residence" in asked and not pool.hosted:
        in_flight = pool.in_flight.model_copy(update={"residence": asked["residence"]})
        pool = pool.model_copy(update={"in_flight": in_flight})
    if pool.hosted:
        if cache:
            cache["mark_ttls"] = "all"
        return pool.model_copy(update={"cache": pool.cache.model_copy(update=cache)})
    if "capacity" in asked:
        cache["capacity"] = asked["capacity"]
    routing = asked.get("routing", pool.fleet.routing)
    replicas = None if routing == AS_LOGGED else asked.get("replicas", pool.fleet.replicas or logged)
    fleet = pool.fleet.model_copy(update={"routing": routing, "replicas": replicas})
    # Options are those of one router; another gets its own, with its defaults.
    fleet = fleet.model_copy(update={"router": fleet.options})
    return pool.model_copy(update={"cache": pool.cache.model_copy(update=cache), "fleet": fleet})


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
    unused = [name for name in AXES if name not in _OF_PROVIDERS and getattr(grid, name) and not engines]
    if unused:
        raise UsageError(
            f"--{unused[0]} changes nothing: a provider runs every cache that the log asks",
            hint="only --ttl and --rates can be chosen there",
        )
    routed = any(cell.pool[index].fleet.routing != AS_LOGGED for cell in made for index in engines)
    if grid.replicas and not routed:
        raise UsageError(
            "--replicas changes nothing: the log names the replica of each request",
            hint="choose a routing that places requests itself: --routing prefix-hash",
        )
