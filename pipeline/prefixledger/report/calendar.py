"""An index over kept reports: a calendar of days and a line for each report, made of their JSON twins."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefixledger.report.books import AVOIDABLE, rate
from prefixledger.report.glossary import cause_name
from prefixledger.report.icicle import STRONGEST
from prefixledger.report.numbers import percent, points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SAME = 0.0005
_DAYS = 7


@dataclass(frozen=True, slots=True)
class Kept:
    """A report that was kept.

    Attributes:
        link: Where its page is, from the index.
        twin: Its JSON twin.
    """

    link: str
    twin: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the calendar.

    Attributes:
        date: ISO date in UTC.
        hit_rate: Of the lookups that arrived in it.
        prompt_tokens: Their tokens.
        link: Report that holds it.
        strength: How strong its colour is, 0 to 100.
    """

    date: str
    hit_rate: float
    prompt_tokens: int
    link: str
    strength: int


@dataclass(frozen=True, slots=True)
class Line:
    """One report.

    Attributes:
        link: Where its page is.
        begin: First moment of its window.
        end: First moment after it.
        key: What makes it the same report when the index is made again.
        requests: Lookups.
        hit_rate: Token hit rate; None without tokens.
        change: Against the line before, formatted; empty where there is none.
        better: Whether that is good; None where it is neither.
        ideal: What was within reach.
        loss: Largest cause that a change could remove, formatted.
        rejected: Rejected records.
        reopened: That lookups came late to it; empty where none did.
    """

    link: str
    begin: str
    end: str
    key: str
    requests: int
    hit_rate: float | None
    change: str
    better: bool | None
    ideal: float | None
    loss: str
    rejected: int
    reopened: str


@dataclass(frozen=True, slots=True)
class Calendar:
    """The index.

    Attributes:
        weeks: (ISO week, its days from Monday on, None where no report holds one), in order.
        lines: Reports in order of time.
    """

    weeks: tuple[tuple[str, tuple[Day | None, ...]], ...]
    lines: tuple[Line, ...]


def calendar(kept: Sequence[Kept], listed: Mapping[str, int]) -> Calendar:
    """Make an index.

    Args:
        kept: The reports.
        listed: Lookups of each report when it was listed first, by key: more now came late.
    """
    ordered = sorted(kept, key=lambda k: (str(k.twin["window"]["from"]), str(k.twin["window"]["to"]), k.link))
    lines: list[Line] = []
    for one in ordered:
        lines.append(_line(one, lines[-1] if lines else None, listed))
    return Calendar(_weeks(ordered), tuple(lines))


def first_listed(found: Calendar, listed: Mapping[str, int]) -> dict[str, int]:
    """Return the lookups of each report when it was listed first, for the index that is made next."""
    return {line.key: listed.get(line.key, line.requests) for line in found.lines}


def _line(one: Kept, before: Line | None, listed: Mapping[str, int]) -> Line:
    twin, window = one.twin, one.twin["window"]
    totals, missed = twin["totals"], twin["misses"]["by_cause"]
    hit_rate = totals["token_hit_rate"]
    change, better = "", None
    if before is not None and before.hit_rate is not None and hit_rate is not None:
        moved = hit_rate - before.hit_rate
        change = "as before" if abs(moved) < _SAME else f"{'+' if moved > 0 else '−'}{points(moved)}"  # noqa: RUF001
        better = None if abs(moved) < _SAME else moved > 0
    worst = max(AVOIDABLE, key=lambda cause: missed.get(cause, 0))
    share = rate(missed.get(worst, 0), totals["prompt_tokens"])
    key = f"{window['from']}/{window['to']}/{one.link}"
    first = listed.get(key, totals["requests"])
    return Line(
        link=one.link,
        begin=_minute(window["from"]),
        end=_minute(window["to"]),
        key=key,
        requests=totals["requests"],
        hit_rate=hit_rate,
        change=change,
        better=better,
        ideal=totals["ideal_hit_rate"],
        loss=f"{cause_name(worst)}, {percent(share)}" if share else "",
        rejected=sum(source["rejected"] for source in twin["inputs"]),
        reopened=""
        if first == totals["requests"]
        else f"opened again: {totals['requests']:,} lookups, {first:,} when it was listed first",
    )


def _weeks(kept: Sequence[Kept]) -> tuple[tuple[str, tuple[Day | None, ...]], ...]:
    """Return the days of all reports by ISO week; of a day in two reports the one with more tokens of it."""
    days: dict[dt.date, Day] = {}
    for one in kept:
        if one.twin["window"]["relative"]:
            continue  # such days are none of the calendar
        for date, (asked, hit) in _by_day(one.twin).items():
            known = days.get(date)
            if known is None or asked > known.prompt_tokens:
                days[date] = Day(
                    date.isoformat(),
                    hit / asked,
                    asked,
                    one.link,
                    round(100 * STRONGEST * (hit / asked) ** 2),
                )
    weeks: dict[str, list[Day | None]] = {}
    for date in sorted(days):
        year, week, day = date.isocalendar()
        row = weeks.setdefault(f"{year}-W{week:02d}", [None] * _DAYS)
        row[day - 1] = days[date]
    return tuple((name, tuple(row)) for name, row in weeks.items())


def _by_day(twin: Mapping[str, Any]) -> dict[dt.date, tuple[int, int]]:
    found: dict[dt.date, tuple[int, int]] = {}
    for one in twin["timeline"]["slices"]:
        if one["prompt_tokens"]:
            date = dt.datetime.fromisoformat(one["at"]).date()
            asked, hit = found.get(date, (0, 0))
            found[date] = (asked + one["prompt_tokens"], hit + one["hit_tokens"])
    return found


def _minute(at: str | None) -> str:
    return (at or "").replace("T", " ")[:16]
