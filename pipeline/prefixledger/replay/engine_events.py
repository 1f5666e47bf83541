"""Restarts and changes of weights that the logs themselves tell of."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.config.events import Event
from prefixledger.config.units import us_datetime
from prefixledger.replay.engine_facts import logged_replicas, speaker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.engine_facts import EngineFact, LoggedReplica
    from prefixledger.replay.lookups import Log

AS_LOGGED = "as-logged"
WEIGHTS = "weight_version"
"""Label under which SGLang's logs carry it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the logs tell.

    Attributes:
        events: Of kind ``restart`` and ``weights``, in order of time.
        notes: One sentence each.
    """

    events: tuple[Event, ...]
    notes: tuple[str, ...]


def tell_events(scenario: Scenario, log: Log, facts: Sequence[EngineFact]) -> Told:
    """Find restarts and changes of weights, for pools whose requests go where the log says.

    Args:
        scenario: Its pools.
        log: All rows; with the column ``labels`` where weights are to be looked for.
        facts: What engines said.
    """
    starts = [fact for fact in facts if fact.kind == "start" and fact.at_us is not None]
    has_labels = "labels" in log.rows.table.column_names
    if not starts and not has_labels:
        return Told((), ())
    replicas = [
        replica
        for replica in logged_replicas(log, scenario)
        if scenario.pool[replica.pool].fleet.routing == AS_LOGGED
    ]
    events: list[Event] = []
    notes: list[str] = []
    for source in dict.fromkeys(fact.source for fact in starts):
        mine = [fact for fact in starts if fact.source == source]
        by_replica: dict[int, list[EngineFact]] = {}
        for fact in mine:
            who = _started(fact, log, replicas)
            by_replica.setdefault(-1 if who is None else who, []).append(fact)
        for who, told in by_replica.items():
            if who < 0:
                notes.append(
                    f"{told[0].path} tells of {len(told)} starts of an engine, and no one replica of this log is it: "
                    "they are not replayed as restarts"
                )
                continue
            found = _restarts(scenario, replicas[who], told, log.rows.started_us)
            events += found
            if found:
                notes.append(_said(len(found), "restart", replicas[who].name, f"starts in {told[0].path}"))
    if has_labels:
        for replica in replicas:
            changed = list(_weights(scenario, replica, log))
            events += changed
            if changed:
                notes.append(
                    _said(len(changed), "change of weights", replica.name, f"{WEIGHTS} of its answers")
                )
    return Told(tuple(sorted(events, key=lambda event: event.at_us)), tuple(notes))


def _said(number: int, what: str, replica: str, by: str) -> str:
    many = f"{number} {what.replace('change', 'changes', 1) if 'change' in what else what + 's'}"
    return f"{many if number > 1 else f'1 {what}'} of {replica} by the {by}"


def _started(fact: EngineFact, log: Log, replicas: Sequence[LoggedReplica]) -> int | None:
    """Return the place of the replica that started; None where several may be meant, or several files are one replica."""
    source = log.rows.table["source"].combine_chunks().dictionary_encode()
    names = source.dictionary.to_pylist()
    if fact.source in names:
        code = np.asarray(source.indices.to_numpy(), np.int64)
        here = code == names.index(fact.source)
        served = [at for at, replica in enumerate(replicas) if here[replica.rows].any()]
        alone = len(served) == 1 and bool(here[replicas[served[0]].rows].all())
        return served[0] if alone else None
    who = speaker(fact, replicas)
    if who is not None:
        return replicas.index(who) if who in replicas else None
    return 0 if len(replicas) == 1 else None


def _restarts(
    scenario: Scenario, replica: LoggedReplica, starts: Sequence[EngineFact], started_us: NDArray[np.int64]
) -> list[Event]:
    """Return a restart for each start between requests; the processes of one engine start together."""
    arrivals = np.sort(started_us[replica.rows])
    found: list[Event] = []
    before = np.iinfo(np.int64).min
    for fact in sorted(starts, key=lambda start: (start.at_us or 0, start.line)):
        at_us = fact.at_us or 0
        earlier = np.searchsorted(arrivals, at_us)
        if arrivals.size > earlier > np.searchsorted(arrivals, before):
            found.append(_event(scenario, replica, "restart", at_us, f"start at {fact.place}"))
            before = at_us
    return found


def _weights(scenario: Scenario, replica: LoggedReplica, log: Log) -> Iterator[Event]:
    """Yield a change for each answer of other weights than the one that ended before it."""
    table = log.rows.table.select(["labels", "finished_at"]).take(pa.array(replica.rows))
    versions = [dict(labels or ()).get(WEIGHTS) for labels in table["labels"].to_pylist()]
    known = [at for at, version in enumerate(versions) if version is not None]
    if len({versions[at] for at in known}) < 2:  # noqa: PLR2004  # it takes two to differ
        return
    started = log.rows.started_us[replica.rows]
    ends = table["finished_at"].cast(pa.int64()).to_pylist()
    ended = [int(started[at]) if ends[at] is None else int(ends[at]) for at in range(len(ends))]
    order = sorted(known, key=lambda at: (ended[at], at))
    for before, after in pairwise(order):
        if versions[before] != versions[after]:
            # The change lies between the last answer of the old weights and the first request to the new ones.
            at_us = max(ended[before] + 1, int(started[after]))
            note = f"weights {versions[after]} after {versions[before]}"
            yield _event(scenario, replica, "weights", at_us, note)


def _event(scenario: Scenario, replica: LoggedReplica, kind: str, at_us: int, note: str) -> Event:
    pool = scenario.pool[replica.pool].name
    return Event(
        at=us_datetime(at_us),
        kind=kind,
        replica=glob.escape(replica.name),
        pool=None if pool is None else glob.escape(pool),
        note=note,
    )
