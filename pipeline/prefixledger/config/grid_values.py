"""Reads the values of the axes of a grid, as they stand on a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from prefixledger.config.registry import RESIDENCES, ROUTINGS
from prefixledger.config.tiers import SCOPES, TIER_KINDS, Tier
from prefixledger.config.toml_file import near_hint
from prefixledger.config.units import parse_capacity, parse_duration_us
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AS_LOGGED = "as-logged"
NONE = "none"
SALTS = (AS_LOGGED, "off", "on")
"""``off``: one salt for all; ``on``: one for every tenant."""
LAYOUTS = (AS_LOGGED, "volatile-last")
"""``volatile-last``: what changes from call to call stands behind all else."""
MOST_GROWTH = 10.0


def read_values(name: str, given: str | Sequence[str | int] | None) -> tuple[Any, ...]:
    """Read the values of one axis, each once, in the order given; ``all`` routings are those that place requests themselves.

    Args:
        name: Of the axis.
        given: A comma list, or a sequence; None leaves the axis out.

    Raises:
        UsageError: A value cannot be used.
    """
    values = _listed(name, given)
    if name == "routing" and values == ["all"]:
        values = [routing for routing in ROUTINGS if routing != AS_LOGGED]
    return tuple(dict.fromkeys(_READERS[name](value) for value in values))


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


def read_sample(given: str | None) -> float | None:
    """Read the share of a log that is replayed, ``10%``; None is all of it.

    Raises:
        UsageError: It is no share.
    """
    if given is None:
        return None
    number = given.strip().removesuffix("%")
    known = given.strip().endswith("%") and number.replace(".", "", 1).isdecimal()
    if not known or not 0 < float(number) < 100:  # noqa: PLR2004
        raise UsageError(f"{given!r} is no share of a log", hint="write --sample 10%")
    return float(number) / 100


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


def tier_under(text: str, profile: str) -> Tier | None:
    """Return the lower tier that ``[KIND:]SIZE[:SCOPE]`` asks for under a profile; None for ``none``.

    Raises:
        UsageError: The profile has no such tier, or its parts contradict each other.
    """
    if text == NONE:
        return None
    parts = text.split(":")
    kind = parts.pop(0) if parts[0] in TIER_KINDS else ""
    scope = parts.pop() if parts and parts[-1] in SCOPES else "replica"
    if len(parts) > 1:
        raise UsageError(
            f"{text!r} is no lower tier",
            hint=f"write --tier none,2x,512GiB,lmcache:512GiB:fleet; kinds: {', '.join(TIER_KINDS)}; scopes: {', '.join(SCOPES)}",
        )
    named = {"kind": kind, "capacity": "".join(parts), "scope": "" if scope == "replica" else scope}
    given: dict[str, Any] = {name: value for name, value in named.items() if value}
    try:
        return Tier(**given).under(profile)
    except PydanticCustomError as error:
        context = error.context or {}
        raise UsageError(str(context["message"]), hint=str(context["hint"])) from None


def tier_named(tier: Tier | None) -> str | None:
    """Return a lower tier as ``tier_under`` reads it."""
    if tier is None:
        return None
    return f"{tier.kind}:{tier.capacity}{':fleet' if tier.shared else ''}"


def _listed(name: str, given: str | Sequence[str | float] | None) -> list[str]:
    if given is None:
        return []
    values = [str(value).strip() for value in (given.split(",") if isinstance(given, str) else given)]
    if not all(values):
        raise UsageError(
            f"--{name.replace('_', '-')} has an empty value",
            hint=f"write --{name.replace('_', '-')} A,B with a comma between values",
        )
    return values


def _capacity(text: str) -> str:
    if share_of(text) is not None:
        return text
    whole = f"{text} blocks" if text.isdecimal() else text
    parse_capacity(whole)
    return whole


def _ttl(text: str) -> str:
    parse_duration_us(text)
    return text


def _tier(text: str) -> str:
    words = text.split(":")
    if text != NONE and not (len(words) == 1 and words[0] in TIER_KINDS):
        size = words[1] if words[0] in TIER_KINDS else words[0]
        if not size.endswith("x"):
            parse_capacity(size)
    return text


def _one_of(names: Sequence[str], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise UsageError(
                f"there is no {what} {text!r}", hint=near_hint(text, names, f"{what}s that exist")
            )
        return text

    return read


def _count(what: str, example: str, *, none: bool = False) -> Callable[[str], Any]:
    def read(text: str) -> int | str:
        if none and text == NONE:
            return NONE
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{text!r} is no {what}", hint=f"write {example}")
        return int(text)

    return read


def _replicas(text: str) -> int | str:
    if text[:1] in ("+", "-") and text[1:].isdecimal() and int(text[1:]):
        return f"{int(text):+d}"
    count: int = _count("number of replicas", "--replicas 4,8, or +1,-1 for more and fewer than today")(text)
    return count


_READERS: dict[str, Callable[[str], Any]] = {
    "block_size": _count("block size", "--block-sizes 16,64: tokens"),
    "salt": _one_of(SALTS, "salt policy"),
    "layout": _one_of(LAYOUTS, "layout"),
    "capacity": _capacity,
    "ttl": _ttl,
    "residence": _one_of(RESIDENCES, "residence"),
    "running": _count("number of running requests", "--running 64,256,none", none=True),
    "tier": _tier,
    "rates": str,
    "routing": _one_of(tuple(ROUTINGS), "routing"),
    "replicas": _replicas,
}
