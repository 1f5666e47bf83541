"""Two reports side by side: what moved, by how much, whether that is good, and whether chance moves as much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import amount, compact, multiplier, percent, points, whole
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FEWEST_DAYS = 7
"""Of fewer days nothing can be drawn that says anything."""

_DRAWS = 1_000
_SEED = 0
_TAIL = 0.025
_SAME = 0.0005
_GROUPS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Moved:
    """One figure in both reports.

    Attributes:
        name: What it is.
        before: In the first, formatted.
        after: In the second.
        change: With its sign, formatted; empty where one is not known.
        better: Whether that is good; None where it is neither, or has not moved.
        cause: The cause that it is of; empty for others.
    """

    name: str
    before: str
    after: str
    change: str
    better: bool | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class GroupMoved:
    """What the lookups with one value of one field add to the change of the hit rate.

    Attributes:
        field: tenant, model and so on.
        value: Its value.
        before: Its hit rate in the first report; None where it was not there.
        after: In the second.
        points: Its part of the change, as a share; the parts of all values of a field sum to the change.
    """

    field: str
    value: str
    before: float | None
    after: float | None
    points: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Two reports.

    Attributes:
        sentence: The answer.
        notes: What is not alike about them, one sentence each.
        figures: Rates, cost and size.
        causes: Missed tokens by cause, as shares of the prompt tokens.
        groups: Where the change is, the largest part of each field first.
        change: Of the token hit rate, as a share; None where one is not known.
        low: Lower end of its interval that 95 of 100 such logs would give; None with too few days.
        high: Upper end.
    """

    sentence: str
    notes: tuple[str, ...]
    figures: tuple[Moved, ...]
    causes: tuple[Moved, ...]
    groups: tuple[GroupMoved, ...]
    change: float | None
    low: float | None
    high: float | None

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the change is more than chance moves from day to day; None where that cannot be told."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def comparison(before: Mapping[str, Any], after: Mapping[str, Any]) -> Compared:
    """Compare two JSON twins; rates are over all lookups of each.

    Args:
        before: The first report.
        after: The second.
    """
    was, now = (one["totals"]["token_hit_rate"] for one in (before, after))
    change = None if was is None or now is None else now - was
    interval = _interval(before, after)
    causes = tuple(moved for cause in CAUSES if (moved := _of_cause(cause, before, after)) is not None)
    return Compared(
        sentence=_sentence(was, now, interval, before, after),
        notes=_notes(before, after),
        figures=_figures(before, after),
        causes=causes,
        groups=_groups(before, after),
        change=change,
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
    )


def _sentence(
    was: float | None,
    now: float | None,
    interval: tuple[float, float] | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> str:
    if was is None or now is None:
        return "One of the two holds no prompt token, so there is nothing to compare."
    if abs(now - was) < _SAME:
        return f"The token hit rate is the same in both, {percent(now)}."
    text = f"The token hit rate went {'up' if now > was else 'down'} from {percent(was)} to {percent(now)}, by {points(now - was)}"
    if interval is not None:
        noise = "which chance alone would do" if interval[0] <= 0 <= interval[1] else "which is beyond chance"
        text += f", {noise}"
    shares = {cause: _share(after, cause) - _share(before, cause) for cause in CAUSES}
    # What drives a rise is the cause that lost most, and the other way round.
    driver = (
        min(shares, key=lambda c: (shares[c], c)) if now > was else max(shares, key=lambda c: (shares[c], c))
    )
    if abs(shares[driver]) < _SAME:
        return f"{text}."
    return f"{text}; most of it is {cause_name(driver)}, {points(shares[driver])} {'less' if shares[driver] < 0 else 'more'}."


def _notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Say where the two are not of a kind."""
    found = []
    bases = [sorted(one["totals"]["by_basis"]) for one in (before, after)]
    if bases[0] != bases[1]:
        found.append(
            f"The first rests on {' and '.join(bases[0]) or 'no'} lookups, the second on {' and '.join(bases[1]) or 'no'} ones: part of "
            "the change may be that."
        )
    asked = [one["totals"]["prompt_tokens"] for one in (before, after)]
    if asked[0] == asked[1] and before["window"]["from"] == after["window"]["from"]:
        found.append(
            "Both ask the same number of tokens from the same moment on: the same traffic under two settings."
        )
    setups = [one["setup"] for one in (before, after)]
    found += [
        f"The {name} differs: {setups[0][name]} in the first, {setups[1][name]} in the second."
        for name in ("capacity", "ttl", "routing")
        if setups[0][name] != setups[1][name]
    ]
    return tuple(found)


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Moved, ...]:
    totals = before["totals"], after["totals"]
    found = [
        _rate(name, totals[0][key], totals[1][key])
        for name, key in (
            ("Token hit rate", "token_hit_rate"),
            ("Request hit rate", "request_hit_rate"),
            ("Within reach", "ideal_hit_rate"),
        )
    ]
    found.append(_size("Prompt tokens", *(t["prompt_tokens"] for t in totals)))
    found.append(_size("Lookups", *(t["requests"] for t in totals)))
    costs = [{c["currency"]: c for c in one["costs"]} for one in (before, after)]
    shared = [currency for currency in costs[0] if currency in costs[1]]
    found += [_multiplier(currency, *(c[currency]["multiplier"] for c in costs)) for currency in shared]
    return tuple(found)


def _rate(name: str, was: float | None, now: float | None) -> Moved:
    if was is None or now is None:
        return Moved(name, percent(was), percent(now), "")
    same = abs(now - was) < _SAME
    return Moved(name, percent(was), percent(now), _signed(now - was), None if same else now > was)


def _size(name: str, was: int, now: int) -> Moved:
    change = f"{(now - was) / was * 100:+.1f} %".replace("-", "\N{MINUS SIGN}") if was and was != now else ""
    return Moved(
        name,
        compact(was) if was >= 10**6 else whole(was),
        compact(now) if now >= 10**6 else whole(now),
        change,
    )


def _multiplier(currency: str, was: float | None, now: float | None) -> Moved:
    name = f"Cost multiplier, {currency}"
    if was is None or now is None:
        return Moved(name, multiplier(was), multiplier(now), "")
    same = multiplier(was) == multiplier(now)
    change = f"{now - was:+.2f}".replace("-", "\N{MINUS SIGN}")
    return Moved(name, multiplier(was), multiplier(now), change, None if same else now < was)


def _of_cause(cause: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Moved | None:
    tokens = [one["misses"]["by_cause"].get(cause, 0) for one in (before, after)]
    if not any(tokens):
        return None
    was, now = _share(before, cause), _share(after, cause)
    # New text and the rules of a cache are nobody's fault: less of them is no success either.
    blameless = cause in {"cold", "uncacheable"} or abs(now - was) < _SAME
    return Moved(
        cause_name(cause),
        f"{percent(was)}, {amount(tokens[0])} tokens",
        f"{percent(now)}, {amount(tokens[1])} tokens",
        _signed(now - was),
        None if blameless else now < was,
        cause,
    )


def _groups(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[GroupMoved, ...]:
    """Return, for every field that both have, the values that move the hit rate most."""
    found: list[GroupMoved] = []
    fields = [{b["field"]: b["values"] for b in one["breakdowns"]} for one in (before, after)]
    cut = {b["field"] for one in (before, after) for b in one["breakdowns"] if b["left_out"]}
    asked = [max(1, one["totals"]["prompt_tokens"]) for one in (before, after)]
    for field in fields[0]:
        if field not in fields[1]:
            continue
        was, now = ({v["value"]: v for v in one[field]} for one in fields)
        rows = []
        # A value that one of them does not list may only be too small there: it has not come or gone.
        for value in sorted({*was} & {*now} if field in cut else {*was, *now}):
            parts = [_missed(one.get(value)) / whole_ for one, whole_ in zip((was, now), asked, strict=True)]
            rows.append(
                GroupMoved(
                    field, value, _hit_rate(was.get(value)), _hit_rate(now.get(value)), parts[0] - parts[1]
                )
            )
        rows.sort(key=lambda row: (-abs(row.points), row.value))
        found += [row for row in rows[:_GROUPS_SHOWN] if abs(row.points) >= _SAME]
    return tuple(found)


def _interval(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[float, float] | None:
    """Draw days again with replacement; of the same traffic the same days in both, else each its own."""
    days = [_days(one) for one in (before, after)]
    if min(len(one) for one in days) < FEWEST_DAYS:
        return None
    random = np.random.default_rng(_SEED)
    paired = list(days[0]) == list(days[1]) and all(days[0][d][0] == days[1][d][0] for d in days[0])
    drawn: list[NDArray[np.float64]] = []
    chosen: NDArray[np.int64] | None = None
    for one in days:
        values = np.array(list(one.values()), dtype=np.float64)
        if chosen is None or not paired:
            chosen = random.integers(0, len(values), size=(_DRAWS, len(values)))
        asked, hit = values[chosen, 0].sum(axis=1), values[chosen, 1].sum(axis=1)
        drawn.append(hit / np.maximum(asked, 1))
    low, high = np.quantile(drawn[1] - drawn[0], [_TAIL, 1 - _TAIL]).tolist()
    return low, high


def _days(twin: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return tokens asked and hit by day, in order of time."""
    found: dict[str, tuple[int, int]] = {}
    for one in twin["timeline"]["slices"]:
        if one["prompt_tokens"]:
            asked, hit = found.get(one["at"][:10], (0, 0))
            found[one["at"][:10]] = (asked + one["prompt_tokens"], hit + one["hit_tokens"])
    return found


def _share(twin: Mapping[str, Any], cause: str) -> float:
    asked = twin["totals"]["prompt_tokens"]
    return twin["misses"]["by_cause"].get(cause, 0) / asked if asked else 0.0


def _missed(value: Mapping[str, Any] | None) -> int:
    return 0 if value is None else int(value["prompt_tokens"] - value["hit_tokens"])


def _hit_rate(value: Mapping[str, Any] | None) -> float | None:
    if value is None or not value["prompt_tokens"]:
        return None
    return float(value["hit_tokens"] / value["prompt_tokens"])


def _signed(change: float) -> str:
    sign = "+" if change > 0 else "\N{MINUS SIGN}" if change < 0 else ""
    return f"{sign}{points(change)}"
