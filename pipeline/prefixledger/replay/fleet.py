"""The replicas of one pool: when each can be asked, and when each loses what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from prefixledger.config.events import Event
    from prefixledger.replay.named_events import NamedEvent

ALL = "(all)"
"""The replica of a log that names none."""

UNKNOWN = "(unknown)"
"""The replica of the rows that name none beside rows that do."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One cache.

    Attributes:
        name: As logged, or ``r0``, ``r1`` … made by the scenario.
        live_from_us: First moment it can be asked.
        live_to_us: The moment at which it is gone; None where it lives to the end.
    """

    name: str
    live_from_us: int
    live_to_us: int | None = None

    def lives_at(self, at_us: int) -> bool:
        """Tell whether a request admitted at that moment could ask it (events come before admissions)."""
        return self.live_from_us <= at_us and (self.live_to_us is None or at_us < self.live_to_us)


@dataclass(frozen=True, slots=True)
class Reset:
    """One replica loses what it holds.

    Attributes:
        at_us: When; admissions at the same moment come after it.
        replica: Position in ``Fleet.replicas``.
        kind: restart, flush, deploy, weights, scale_in or replica_gone.
        event_id: Its name in every output.
        note: Note of the event, if any.
        force: False where a running request stops it.
    """

    at_us: int
    replica: int
    kind: str
    event_id: str
    note: str | None = None
    force: bool = True


@dataclass(frozen=True, slots=True)
class Membership:
    """Which replicas a router may choose from, as a step function of time.

    Attributes:
        from_us: int64[s], start of each step, ascending; the first lies before every request.
        members: For each step the positions in ``Fleet.replicas``, in the order of their numbers.
    """

    from_us: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The replicas of one pool, by name.

    Attributes:
        replicas: In order of name.
        resets: In order of time, replica, and the order in which the events were given.
        membership: None under as-logged: the log chose.
        matched: Ids of the events that name at least one replica here.
        notes: What was left out, one sentence each.
    """

    replicas: tuple[Replica, ...]
    resets: tuple[Reset, ...]
    membership: Membership | None
    matched: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def logged_names(replica: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """Name the replicas of a log.

    Args:
        replica: Column of the rows of one pool; null where the log names none.

    Returns:
        The names in order, and int64[n], the position of each row's own. Rows without one belong to
        ``(unknown)`` beside named ones, else to ``(all)``.
    """
    nameless = UNKNOWN if replica.null_count < len(replica) else ALL
    filled = pc.fill_null(replica, nameless).combine_chunks().dictionary_encode()
    values = filled.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return [values[number] for number in order], rank[filled.indices.to_numpy()]


def logged_fleet(
    names: Sequence[str],
    position: NDArray[np.int64],
    started_us: NDArray[np.int64],
    *,
    end_us: int,
    grace_us: int | None,
    events: Sequence[NamedEvent],
) -> Fleet:
    """Build the fleet that the log shows.

    A replica is live from its first to its last logged request plus the grace period, or to the end of the log
    if it served in the last grace period.

    Args:
        names: The replicas, in order.
        position: int64[n], replica of each row of the pool, failed and keyless ones included: they show that it
            was there.
        started_us: int64[n], arrival of each row.
        end_us: Last arrival in the whole workspace.
        grace_us: The grace period; None: every replica lives to the end.
        events: In the order of their ids.

    Raises:
        UsageError: An event of the scenario scales what the log decides.
    """
    first = np.full(len(names), np.iinfo(np.int64).max)
    last = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(first, position, started_us)
    np.maximum.at(last, position, started_us)
    replicas = tuple(
        Replica(name, int(start), _death(int(stop), end_us, grace_us))
        for name, start, stop in zip(names, first, last, strict=True)
    )
    resets, notes = _Resets(replicas), []
    for named in events:
        if named.event.kind != "scale":
            resets.add(named)
        elif named.from_file:
            resets.matched.add(named.event_id)
            notes.append(
                f"event {named.event_id} (scale) changes nothing: under as-logged the log says which replicas live"
            )
        else:
            raise UsageError(
                f"event {named.event_id}: a scale event cannot change a pool whose routing is as-logged",
                hint="the log says which replicas live; choose another routing, or name another pool in the event",
            )
    for number, replica in enumerate(replicas):
        if replica.live_to_us is not None:
            gone = Reset(replica.live_to_us, number, "replica_gone", f"gone:{replica.name}")
            resets.found.append(gone)
    return Fleet(replicas, resets.in_order(), None, frozenset(resets.matched), tuple(notes))


def made_fleet(count: int, *, start_us: int, events: Sequence[NamedEvent]) -> Fleet:
    """Build a fleet of ``r0``, ``r1`` …, all live from start to end, scale events aside.

    Scaling in takes the highest numbers; scaling out brings new caches under numbers never used before.

    Args:
        count: Replicas at the start.
        start_us: First arrival in the workspace.
        events: In the order of their ids.
    """
    born, died, steps = _scaled(count, start_us, events)
    names = [f"r{number}" for number in range(len(born))]
    order = sorted(range(len(names)), key=lambda number: names[number])
    position = {number: place for place, number in enumerate(order)}
    replicas = tuple(
        Replica(names[number], born[number], died[number][0] if number in died else None) for number in order
    )
    resets = _Resets(replicas)
    for named in events:
        if named.event.kind != "scale":
            resets.add(named)
        else:
            resets.matched.add(named.event_id)
    for number, (at_us, named) in died.items():
        resets.found.append(Reset(at_us, position[number], "scale_in", named.event_id, named.event.note))
    members = tuple(np.asarray([position[number] for number in alive], np.int64) for _, alive in steps)
    return Fleet(
        replicas,
        resets.in_order(),
        Membership(np.asarray([at_us for at_us, _ in steps], np.int64), members),
        frozenset(resets.matched),
    )


def _note(event: Event) -> str | None:
    parts = [f"namespace {event.namespace}"] if event.namespace is not None else []
    return "; ".join([*parts, event.note] if event.note else parts) or None


def _death(last_us: int, end_us: int, grace_us: int | None) -> int | None:
    return None if grace_us is None or last_us >= end_us - grace_us else last_us + grace_us


def _scaled(
    count: int, start_us: int, events: Iterable[NamedEvent]
) -> tuple[list[int], dict[int, tuple[int, NamedEvent]], list[tuple[int, list[int]]]]:
    """Follow the scale events: birth of each number, death and its event, and who lives from when on."""
    born = [start_us] * count
    died: dict[int, tuple[int, NamedEvent]] = {}
    alive = list(range(count))
    steps = [(np.iinfo(np.int64).min, list(alive))]
    for named in sorted((e for e in events if e.event.kind == "scale"), key=lambda e: e.event.at_us):
        wanted, at_us = named.event.replicas or 0, named.event.at_us
        while len(alive) > wanted:
            died[alive.pop()] = (at_us, named)
        while len(alive) < wanted:
            alive.append(len(born))
            born.append(at_us)
        steps.append((at_us, list(alive)))
    return born, died, steps


@dataclass(slots=True)
class _Resets:
    """Collects resets while a fleet is built."""

    replicas: tuple[Replica, ...]
    found: list[Reset] = field(default_factory=list)
    matched: set[str] = field(default_factory=set)

    def add(self, named: NamedEvent) -> None:
        event = named.event
        chosen = [
            number
            for number, replica in enumerate(self.replicas)
            if event.replica is None or fnmatchcase(replica.name, event.replica)
        ]
        if chosen:
            self.matched.add(named.event_id)
        force = event.kind != "flush" or event.force
        self.found += [
            Reset(event.at_us, number, event.kind, named.event_id, _note(event), force)
            for number in chosen
            if self.replicas[number].lives_at(event.at_us)
        ]

    def in_order(self) -> tuple[Reset, ...]:
        return tuple(sorted(self.found, key=lambda reset: (reset.at_us, reset.replica)))
