"""Where and when the tokens of one cause were lost, if they were lost in one place or at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.numbers import located, span

if TYPE_CHECKING:
    from prefixledger.report.parts import Breakdown, Bucket, Group, Timeline
    from prefixledger.report.view import ReportView

MAJORITY = 0.5
"""Share of a cause that must lie in one place before the place is named."""

NEARLY_ALL = 0.9
_ALL = 0.995

_BEYOND_ITS_SHARE = 1.5
"""A place that loses in proportion to what it asks is not where the loss is."""

_BEYOND_ITS_TIME = 1.2
"""The same for a stretch of time, which need not be ahead by as much: it is short already."""

SHORT = 0.25
"""Share of the window that a stretch may fill and still be called a time."""

_FEWEST_BUCKETS = 8
_WORTH_A_LOOK = 0.01
_FALLEN = 0.7
"""A burst of new text counts from 1 % of the tokens, and if hits fell under 70 % of their usual rate meanwhile."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The shortest stretch of time that holds most tokens of a cause.

    Attributes:
        from_us: Start.
        to_us: End, exclusive.
        share: Share of the cause's tokens inside.
    """

    from_us: int
    to_us: int
    share: float


def stretch(timeline: Timeline, cause: str) -> Stretch | None:
    """Return the shortest run of slices with 90 %, else with half, of a cause; None where it is spread out.

    A run is widened to the whole burst that it lies in, so that it begins and ends where the burst does.

    Args:
        timeline: Slices of equal width.
        cause: Cause to look for.
    """
    tokens = [b.misses.get(cause, 0) for b in timeline.buckets]
    total = sum(tokens)
    if not total or len(tokens) < _FEWEST_BUCKETS:
        return None
    prompt = [b.prompt_tokens for b in timeline.buckets]

    def asked(begin: int, end: int) -> float:
        return sum(prompt[begin:end]) / max(1, sum(prompt))

    for part in (NEARLY_ALL, MAJORITY):
        begin, end = _widened(tokens, *_shortest(tokens, part * total))
        share = sum(tokens[begin:end]) / total
        if end - begin <= SHORT * len(tokens) and share >= _BEYOND_ITS_TIME * asked(begin, end):
            last_us = timeline.buckets[end - 1].at_us + timeline.width_s * 1_000_000
            return Stretch(timeline.buckets[begin].at_us, last_us, share)
    return None


def _shortest(tokens: list[int], wanted: float) -> tuple[int, int]:
    """Return [begin, end) of the shortest run that sums to at least ``wanted``; the earliest of several."""
    best, begin, inside = (0, len(tokens)), 0, 0
    for end, value in enumerate(tokens, start=1):
        inside += value
        while inside - tokens[begin] >= wanted:
            inside -= tokens[begin]
            begin += 1
        if inside >= wanted and end - begin < best[1] - best[0]:
            best = (begin, end)
    return best


def _widened(tokens: list[int], begin: int, end: int) -> tuple[int, int]:
    """Take in the neighbours that hold at least half of what the slices of the run hold on average."""
    least = sum(tokens[begin:end]) / (end - begin) / 2
    while begin > 0 and tokens[begin - 1] >= least:
        begin -= 1
    while end < len(tokens) and tokens[end] >= least:
        end += 1
    return begin, end


def place(breakdowns: tuple[Breakdown, ...], cause: str) -> tuple[str, Group, float] | None:
    """Return (field, group, share) of the group with at least half of a cause, in the order of the breakdowns.

    A field with one value says nothing, and a group that loses in proportion to what it asks is no place either:
    both are passed over.
    """
    for breakdown in breakdowns:
        total = sum(g.misses.get(cause, 0) for g in breakdown.groups)
        asked = sum(g.prompt_tokens for g in breakdown.groups)
        if not total or len(breakdown.groups) + breakdown.left_out < 2:  # noqa: PLR2004  # one value is no choice
            continue
        top = max(breakdown.groups, key=lambda g: (g.misses.get(cause, 0), g.value))
        share = top.misses.get(cause, 0) / total
        if share >= MAJORITY and share >= _BEYOND_ITS_SHARE * top.prompt_tokens / asked:
            return breakdown.name, top, share
    return None


def burst_of_new_text(view: ReportView) -> Stretch | None:
    """Return when most of what was new came while the hit rate fell; None if it did not.

    By its keys, text whose beginning was changed is new. Without the text itself nobody can tell, so this is
    something to look at, not a cause. At the start of a log everything is new, and that is no burst.
    """
    book, buckets = view.result.headline, view.timeline.buckets
    time = stretch(view.timeline, "cold")
    if time is None or time.from_us == buckets[0].at_us:
        return None
    if time.share * book.misses.get("cold", 0) < _WORTH_A_LOOK * book.prompt_tokens:
        return None
    inside = [b for b in buckets if time.from_us <= b.at_us < time.to_us]
    outside = [b for b in buckets if not time.from_us <= b.at_us < time.to_us]
    fallen, usual = (_rate(part) for part in (inside, outside))
    return time if fallen < _FALLEN * usual else None


def _rate(buckets: list[Bucket]) -> float:
    asked = sum(b.prompt_tokens for b in buckets)
    return sum(b.hit_tokens for b in buckets) / asked if asked else 0.0


def where_and_when(view: ReportView, cause: str, pronoun: str) -> str:
    """Return where and when a cause struck, to go on a sentence with; empty where it was everywhere and always."""
    spot, time, text = place(view.breakdowns, cause), stretch(view.timeline, cause), ""
    if spot is not None:
        text += f", {_most(spot[2])} of {pronoun} {located(spot[0], spot[1].value)}"
    if time is not None:
        text += f", {_most(time.share)} of {pronoun} {span(time.from_us, time.to_us, view.window)}"
    return text


def _most(share: float) -> str:
    """Return a large share as a sentence has it."""
    return "all" if share > _ALL else f"{share * 100:.0f} %"
