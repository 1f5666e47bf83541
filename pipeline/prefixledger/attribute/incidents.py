"""Puts steps of many series that happen together into incidents, with what happened near them and what they look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.attribute.change_points import steps, told
from prefixledger.attribute.explained import moment
from prefixledger.attribute.investigated import BeforeAfter, Incident, Nearby
from prefixledger.attribute.series import HIT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from prefixledger.attribute.series import Found

MOST_MOVES = 12
_NEAR_SLICES = 2
"""Slices by which noise may shift a step."""
_GONE = 0.25
"""A hit rate that falls to a quarter of what it was, or less, is as good as gone."""
_LEADS = 0.5
"""A cause that takes at least half of what the hit rate lost leads."""
_REPAIR = "a repair: what was lost came back"
"""Of a moment at which the cause gives way that an earlier moment brought."""
_APART = 0.1
"""Share of conversations that stop staying where they were from which routing has changed."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns slices into times.

    Attributes:
        begin: Begin of slice 0.
        width: Width of a slice.
    """

    begin: datetime
    width: timedelta

    def at(self, number: int) -> datetime:
        """Return the begin of a slice."""
        return self.begin + number * self.width


def incidents(
    found: Sequence[Found],
    clock: Clock,
    happened: Sequence[Nearby],
    around: Callable[[str, str, datetime, datetime, datetime], dict[str, dict[str, int]]],
    bounds: tuple[datetime, datetime],
    stays: Sequence[tuple[int, int, int]],
    reach: timedelta,
    at: datetime | None = None,
) -> tuple[Incident, ...]:
    """Return the incidents in order of time.

    Args:
        found: Steps that are told.
        clock: Turns their slices into times.
        happened: Releases, replicas and events that came or went, and when.
        around: Returns the sums of one value of a field before and after a moment between two others.
        bounds: First moment of the window, and first behind it.
        stays: By slice, turns of conversations and how many stayed on their replica.
        reach: How far from a moment before and after are told.
        at: The moment that was asked for; None looks at all.
    """
    groups = [list(found)] if at is not None else _groups(found)
    moments = [at or _moment(group, clock, happened) for group in groups]
    out: list[Incident] = []
    lost: set[tuple[str, str, str]] = set()
    for number, (group, when) in enumerate(zip(groups, moments, strict=True)):
        field, value = _place(group)
        whole = [
            n for n, each in enumerate(groups) if n != number and _place(each) in (WHOLE, (field, value))
        ]
        begin = max((moments[n] for n in whole if n < number), default=bounds[0])
        end = min((moments[n] for n in whole if n > number), default=bounds[1])
        begin, end = max(begin, when - reach), min(end, when + reach)
        table = _table(around(field, value, begin, when, end))
        near = _near(when, clock, happened)
        hit = next((line for line in table if line.name == HIT), None)
        better = hit is not None and hit.after > hit.before
        top = None if hit is None else _leading(table, better=better)[0]
        of_cause = (field, value, "" if top is None else top.name)
        repaired = better and of_cause in lost
        lost = lost - {of_cause} if better else lost | {of_cause}
        out.append(
            Incident(
                at=when,
                field=field,
                value=value,
                better=better,
                sentence=_sentence(when, table, near, (field, value)),
                shape=_REPAIR
                if repaired
                else _shape(table, near, _staying(stays, clock, begin, when, end), better=better),
                moves=tuple(each.move for each in sorted(group, key=_weight)[:MOST_MOVES]),
                table=table,
                nearby=near,
                begin=begin,
                end=end,
            )
        )
    return tuple(out)


def _place(group: Sequence[Found]) -> tuple[str, str]:
    """Return what a group of steps is about: the whole, or the value of a field that weighs most."""
    if not group:
        return WHOLE
    leader = min(group, key=_weight).move
    return leader.field, leader.value


def _weight(one: Found) -> tuple[bool, float, str, str, str]:
    return (
        (one.move.field, one.move.value) != WHOLE,
        -one.tokens,
        one.move.measure,
        one.move.field,
        one.move.value,
    )


def _groups(found: Sequence[Found]) -> list[list[Found]]:
    """Put steps together that can be of one moment, those of the whole first.

    A part has few lookups, and its step lies anywhere between two of them. What is left of parts is a group of its own where their
    hits moved.
    """
    ordered = sorted(
        found, key=lambda each: ((each.move.field, each.move.value) != WHOLE, each.step.slice, -each.tokens)
    )
    groups: list[list[Found]] = []
    for one in ordered:
        fits = [group for group in groups if _together(group[0], one)]
        if fits:
            min(fits, key=lambda group: abs(group[0].step.slice - one.step.slice)).append(one)
        else:
            groups.append([one])
    kept = [
        group for group in groups if _place(group) == WHOLE or any(each.move.measure == HIT for each in group)
    ]
    return sorted(kept, key=lambda group: min(group, key=_weight).step.slice)


def _together(first: Found, other: Found) -> bool:
    """Say whether two steps may be of one moment; two of one series are not."""
    return other.step.last_before - _NEAR_SLICES <= first.step.slice <= other.step.slice + _NEAR_SLICES and (
        first.move.field,
        first.move.value,
        first.move.measure,
    ) != (other.move.field, other.move.value, other.move.measure)


def _moment(group: Sequence[Found], clock: Clock, happened: Sequence[Nearby]) -> datetime:
    """Return when it was: what came in the slice, or the slice before, says it better than the slice."""
    leader = min(group, key=_weight).step.slice
    begin = clock.at(leader)
    causes = [
        each
        for each in happened
        if begin - clock.width <= each.at < begin + clock.width and not each.kind.endswith("ends")
    ]
    return (
        min(causes, key=lambda each: (not each.kind.startswith("release"), abs(each.at - begin))).at
        if causes
        else begin
    )


def _near(when: datetime, clock: Clock, happened: Iterable[Nearby]) -> tuple[Nearby, ...]:
    reach = 1.5 * clock.width
    return tuple(
        sorted(
            (each for each in happened if abs(each.at - when) <= reach),
            key=lambda each: (abs(each.at - when), each.kind, each.name),
        )
    )


def _table(sums: dict[str, dict[str, int]]) -> tuple[BeforeAfter, ...]:
    before, after = (sums.get(side, {}) for side in ("before", "after"))
    names = [name for name in {**before, **after} if name.startswith(("hit_", "miss_"))]
    shares = [max(1, side.get("prompt_tokens", 0)) for side in (before, after)]
    lines = []
    for name in names:
        one, two = before.get(name, 0), after.get(name, 0)
        plain = HIT if name.startswith("hit_") else name.removeprefix("miss_").removesuffix("_tokens")
        if plain == HIT or one or two:
            lines.append(BeforeAfter(plain, one, two, one / shares[0], two / shares[1]))
    return tuple(lines)


def _staying(
    stays: Sequence[tuple[int, int, int]], clock: Clock, begin: datetime, when: datetime, end: datetime
) -> tuple[float, float] | None:
    """Return the share of turns that stayed on their replica before and after; None without turns on one side."""
    sums = [[0, 0], [0, 0]]
    for number, pairs, stayed in stays:
        at = clock.at(number)
        if begin <= at + clock.width and at < end:
            side = sums[at >= when]
            side[0] += pairs
            side[1] += stayed
    return None if not sums[0][0] or not sums[1][0] else (sums[0][1] / sums[0][0], sums[1][1] / sums[1][0])


def _leading(table: Sequence[BeforeAfter], *, better: bool) -> tuple[BeforeAfter | None, float]:
    """Return the cause that took most of what the hit rate lost, or gave back most of what it won, and its share."""
    hit = next(line for line in table if line.name == HIT)
    sign = -1 if better else 1
    causes = [line for line in table if line.name != HIT]
    if not causes or hit.after == hit.before:
        return None, 0.0
    top = max(causes, key=lambda line: sign * (line.after - line.before))
    return top, sign * (top.after - top.before) / abs(hit.after - hit.before)


def _sentence(
    when: datetime, table: Sequence[BeforeAfter], near: Sequence[Nearby], place: tuple[str, str]
) -> str:
    where = "" if place == WHOLE else f" of {place[0]} {place[1]}"
    hit = next((line for line in table if line.name == HIT), None)
    if hit is None:
        return f"{moment(when)}: rates{where} changed"
    better = hit.after > hit.before
    text = f"{moment(when)}: the hit rate{where} {'rose' if better else 'fell'} from {hit.before:.1%} to {hit.after:.1%}"
    top, share = _leading(table, better=better)
    if top is not None and share >= _LEADS:
        text += f", {min(1.0, share):.0%} of it {'less' if better else 'more'} {top.name} ({top.before:.1%} to {top.after:.1%})"
    return text + (f"; {_told(near[0])} at {moment(near[0].at)}" if near else "")


def _told(one: Nearby) -> str:
    kind, _, what = one.kind.partition(" ")
    return f"{kind} {one.name}" + {"begins": " began", "ends": " ended"}.get(what, "")


def _shape(
    table: Sequence[BeforeAfter], near: Sequence[Nearby], staying: tuple[float, float] | None, *, better: bool
) -> str | None:
    """Recognise what a change looks like; the causes have their proof already, the shape says what to look at."""
    hit = next((line for line in table if line.name == HIT), None)
    if hit is None or better:
        return None
    top, share = _leading(table, better=False)
    if top is None or share < _LEADS:
        return None
    deployed = any(each.kind in ("release begins", "deploy") for each in near)
    gone = f"{'hits are gone' if hit.after <= _GONE * hit.before else 'hits fell'} from {'a deploy' if deployed else 'one moment'} on"
    moved = (
        ""
        if staying is None
        else f": {staying[0]:.0%} of turns stayed on their replica before, {staying[1]:.0%} after"
    )
    words = {
        "misrouted": f"routing: hits fell while the content stayed the same{moved}",
        "key_changed": f"invalidation: {gone}",
        "invalidated": f"invalidation: {gone}",
        "evicted": "room: what was cached had to make way",
        "expired": "lifetime: what was cached was asked for too late",
    }
    if deployed:
        words["cold"] = (
            f"invalidation, not proven: {gone}, and what is asked is new; the log does not say whether only its beginning is"
        )
    return words.get(top.name)


def routing_changes(stays: Sequence[tuple[int, int, int]], clock: Clock) -> list[Nearby]:
    """Return where turns stopped or began to stay on their replica, as something that happened.

    Args:
        stays: By slice, turns of conversations and how many stayed on their replica.
        clock: Turns slices into times.
    """
    slices, pairs, stayed = (
        (np.array(column) for column in zip(*stays, strict=True)) if stays else (np.empty(0, np.int64),) * 3
    )
    found = steps(slices, stayed / np.maximum(pairs, 1), pairs.astype(np.float64))
    return [
        Nearby(
            "routing",
            f"{step.before:.0%} of turns stayed on their replica before, {step.after:.0%} after",
            clock.at(step.slice),
        )
        for step, sure in zip(found, told(found), strict=True)
        if sure and abs(step.change) >= _APART
    ]


def happenings(
    firsts: Sequence[dict[str, Any]],
    events: Sequence[dict[str, Any]],
    bounds: tuple[datetime, datetime],
    clock: Clock,
) -> list[Nearby]:
    """Return what came, went or was done in the window, in order of time.

    Args:
        firsts: Of ``85_investigate/firsts``.
        events: Resets of the replay.
        bounds: First and last lookup: what is there at the edge neither came nor went.
        clock: What is nearer to the edge than a slice is at the edge.
    """
    found = {(event["kind"], event["at"], event["event_id"]) for event in events}
    out = [Nearby(kind, name, at) for kind, at, name in found]
    several = {row["field"] for row in firsts if sum(each["field"] == row["field"] for each in firsts) > 1}
    for row in firsts:
        if row["field"] not in several:
            continue
        if row["first_at"] > bounds[0] + clock.width:
            out.append(Nearby(f"{row['field']} begins", row["value"], row["first_at"]))
        if row["last_at"] < bounds[1] - clock.width:
            out.append(Nearby(f"{row['field']} ends", row["value"], row["last_at"]))
    return sorted(out, key=lambda each: (each.at, each.kind, each.name))
