"""What engines said of their caches beside what the replay holds: KV events, and counters by Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger import schema_engines as schema
from prefixledger.replay.engine_facts import EngineFact, logged_replicas, source_paths, speaker
from prefixledger.replay.kv_kernel import resident_prefix
from prefixledger.replay.kv_streams import find_blocks, of_engines, read_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.engine_facts import LoggedReplica
    from prefixledger.replay.kv_streams import Events
    from prefixledger.replay.lookups import Log
    from prefixledger.schema import Table
    from prefixledger.workspace import Workspace

AS_LOGGED = "as-logged"
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Observed:
    """Tables by file name, and what to know of them, one sentence each."""

    files: dict[str, pa.Table]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lookups:
    """Lookups of one replica, by admission; see ``schema.LOOKUP_FACTS``."""

    number: NDArray[np.int64]
    admitted_us: NDArray[np.int64]
    last_block: NDArray[np.int64]
    cap_blocks: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]


def observe(workspace: Workspace, scenario: Scenario, log: Log, files: Mapping[str, pa.Table]) -> Observed:
    """Set KV events and counters beside a replay.

    Args:
        workspace: Where they are.
        scenario: What was replayed; only pools whose requests go where the log says can be compared with engines.
        log: All rows and blocks.
        files: The tables of the replay.
    """
    if not any(any(folder.glob("*.parquet")) for folder in (workspace.kv_events, workspace.series)):
        return _observed({}, ())
    # What an engine says is in blocks of the log, so that a cache replayed in other pages is not set beside it.
    replicas = [
        replica
        for replica in logged_replicas(log, scenario)
        if scenario.pool[replica.pool].fleet.routing == AS_LOGGED
        and scenario.pool[replica.pool].cache.page_size is None
    ]
    paths = source_paths(workspace)
    notes: list[str] = []
    events = read_events(workspace)
    changes, compared = _rows(schema.KV_CHANGES), _rows(schema.KV_LOOKUPS)
    if events is not None:
        alone = len({stream[1:] for stream in events.streams}) == 1
        who = [_who(stream, replicas, paths, alone=alone) for stream in events.streams]
        names = [_named(replica, stream) for replica, stream in zip(who, events.streams, strict=True)]
        engines = list(dict.fromkeys(names))
        of = {name: who[names.index(name)] for name in engines}
        events = of_engines(events, [engines.index(name) for name in names])
        blocks, told = find_blocks(events, log.forest)
        for number, name in enumerate(engines):
            mine = np.flatnonzero(events.stream == number)
            _add_changes(changes, events, mine, name)
            replica = of[name]
            if replica is not None:
                _add_lookups(
                    compared, events, blocks, mine, replica, _of_replica(replica, files), log.forest.parent
                )
        notes += _event_notes(events, blocks, told, list(of.values()))
    counters, said = _counters(workspace, replicas, paths)
    rows = {"kv_changes": changes, "kv_lookups": compared, "counters": counters}
    return _observed(rows, (*notes, *said))


def _observed(rows: Mapping[str, Mapping[str, list[Any]]], notes: tuple[str, ...]) -> Observed:
    files = {
        f"{table.name}.parquet": _table(table, rows.get(table.name) or _rows(table))
        for table in (schema.KV_CHANGES, schema.KV_LOOKUPS, schema.COUNTERS)
    }
    return Observed(files, notes)


def _who(
    stream: tuple[str, str | None, int | None],
    replicas: Sequence[LoggedReplica],
    paths: Mapping[str, str],
    *,
    alone: bool,
) -> LoggedReplica | None:
    """Return the replica that a stream is of: as it says itself, else by its file, else the only one there is."""
    source, said, rank = stream
    for replica in replicas:
        if said is not None and replica.name in (said, f"{said}/dp{rank}"):
            return replica
    process = {} if rank is None else {"process": f"dp{rank}"}
    path = said if said is not None else paths.get(source, "")
    found = speaker(EngineFact(source, path, 0, None, process), replicas)
    if found is None and alone and len(replicas) == 1:
        return replicas[0]
    return found


def _named(
    replica: LoggedReplica | None, stream: tuple[str, str | None, int | None]
) -> tuple[int | None, str]:
    if replica is not None:
        return replica.pool, replica.name
    source, said, rank = stream
    name = said or source
    return None, name if rank is None else f"{name}/dp{rank}"


def _add_changes(
    rows: dict[str, list[Any]], events: Events, mine: NDArray[np.int64], name: tuple[int | None, str]
) -> None:
    """Add one row for each batch of a stream; a block is resident while any copy of it is."""
    copies: dict[int, int] = {}
    stored = removed = unknown = 0
    cleared = False
    for place, row in enumerate(mine.tolist()):
        key = events.block_hash[row]
        if key is None:
            copies.clear()
            cleared = True
        elif events.kind[row] == "stored":
            copies[key] = copies.get(key, 0) + 1
            stored += 1
        else:
            removed += 1
            left = copies.get(key, 0) - 1
            unknown += left < 0
            if left > 0:
                copies[key] = left
            else:
                copies.pop(key, None)
        last = place + 1 == mine.size or events.at_us[mine[place + 1]] != events.at_us[row]
        if last:
            values = (events.at_us[row], *name, stored, removed, unknown, cleared, len(copies))
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
            stored = removed = unknown = 0
            cleared = False


def _add_lookups(
    rows: dict[str, list[Any]],
    events: Events,
    blocks: Sequence[tuple[int, ...]],
    mine: NDArray[np.int64],
    replica: LoggedReplica,
    asked: _Lookups,
    parent: NDArray[np.int64],
) -> None:
    """Add the lookups between the first and the last event of a stream."""
    flat = [
        (int(events.at_us[row]), block, {"stored": 1, "removed": -1}.get(events.kind[row], 0))
        for row in mine.tolist()
        for block in (blocks[row] if events.kind[row] != "cleared" else (0,))
    ]
    inside = (asked.admitted_us >= events.at_us[mine[0]]) & (asked.admitted_us <= events.at_us[mine[-1]])
    inside &= asked.last_block >= 0
    if not any(blocks[row] for row in mine.tolist()) or not inside.any():
        return
    at_us, block, change = (np.asarray(column, np.int64) for column in zip(*flat, strict=True))
    last, found = asked.last_block[inside], np.empty(int(inside.sum()), np.int64)
    resident_prefix(
        parent, at_us, block, change, asked.admitted_us[inside], last,
        np.zeros(parent.size, np.int64), np.full(parent.size, -1, np.int64), found,
    )  # fmt: skip
    cap = asked.cap_blocks[inside]
    columns = (
        asked.number[inside], asked.admitted_us[inside], [replica.pool] * last.size, [replica.name] * last.size, cap,
        asked.hit_blocks[inside], np.minimum(found, cap),
    )  # fmt: skip
    for column, values in zip(rows.values(), columns, strict=True):
        column.extend(values if isinstance(values, list) else values.tolist())


def _of_replica(replica: LoggedReplica, files: Mapping[str, pa.Table]) -> _Lookups:
    names, facts = files["replicas.parquet"], files["lookup_facts.parquet"]
    numbers = names.filter(
        pc.and_(pc.equal(names["pool"], replica.pool), pc.equal(names["name"], replica.name))
    )
    own = facts.filter(pc.is_in(facts["replica"], numbers["replica"].combine_chunks()))
    order = np.argsort(own["admitted_at"].cast(pa.int64()).to_numpy(), kind="stable")
    number, at_us, last, cap, hit = (
        np.array(pc.fill_null(own[name].cast(pa.int64()), -1).to_numpy(), np.int64)[order]
        for name in ("lookup", "admitted_at", "last_block", "cap_blocks", "hit_blocks")
    )
    return _Lookups(number, at_us, last, cap, hit)


def _event_notes(
    events: Events, blocks: Sequence[tuple[int, ...]], told: int, who: Sequence[LoggedReplica | None]
) -> Iterable[str]:
    stored = [row for row, kind in enumerate(events.kind) if kind == "stored"]
    joined = sum(1 for row in stored if blocks[row])
    yield (
        f"KV events: {len(stored)} blocks were stored, of {told} the tokens from the start of the prompt are known, and "
        f"{joined} are blocks of requests in the log; what was stored before the first event is not known"
    )
    if events.left_out:
        yield f"KV events: {events.left_out} are about memory other than that of the device, and are left out"
    nobody = sum(1 for replica in who if replica is None)
    if nobody:
        yield f"KV events: {nobody} of {len(who)} engines are no one replica of this log, and are compared with nothing"


def _counters(
    workspace: Workspace, replicas: Sequence[LoggedReplica], paths: Mapping[str, str]
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """Return how much each counter grew from sample to sample; one that fell began anew."""
    rows = _rows(schema.COUNTERS)
    files = sorted(workspace.series.glob("*.parquet"))
    if not files:
        return rows, ()
    table = pa.concat_tables([schema.SERIES.arrow().empty_table(), *(pq.read_table(file) for file in files)])
    at_us = table["at"].cast(pa.int64()).to_pylist()
    samples: dict[tuple[str | None, int | None], dict[str, dict[int, float]]] = {}
    for at, row in zip(at_us, table.select(["metric", "replica", "rank", "value"]).to_pylist(), strict=True):
        samples.setdefault((row["replica"], row["rank"]), {}).setdefault(row["metric"], {})[at] = row["value"]
    nobody = 0
    for (said, rank), metrics in samples.items():
        stream = ("", said, rank)
        replica = _who(stream, replicas, paths, alone=len(samples) == 1)
        nobody += replica is None
        for metric, values in metrics.items():
            before: float | None = None
            for at in sorted(values):
                grown = (
                    values[at] if before is not None and values[at] < before else values[at] - (before or 0.0)
                )
                if before is not None:
                    told = (at, *_named(replica, (said or "(unknown)", said, rank)), metric, round(grown))
                    for column, value in zip(rows.values(), told, strict=True):
                        column.append(value)
                before = values[at]
    if not nobody:
        return rows, ()
    return rows, (
        f"counters: {nobody} of {len(samples)} engines are no one replica of this log, and are compared with nothing",
    )


def _rows(table: Table) -> dict[str, list[Any]]:
    return {name: [] for name in table.names}


def _table(table: Table, rows: Mapping[str, list[Any]]) -> pa.Table:
    contract = table.arrow()
    arrays = [
        pa.array(rows[field.name], pa.int64()).cast(_TIME)
        if field.type == _TIME
        else pa.array(rows[field.name], field.type)
        for field in contract
    ]
    return pa.Table.from_arrays(arrays, schema=contract)
