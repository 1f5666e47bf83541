"""Small hand-made logs for the tests of the replay stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.config.events import Event
from prefixledger.config.units import us_datetime
from prefixledger.index import Forest, update
from prefixledger.kernels.path_forest import PathForest
from prefixledger.replay.lookups import Log, read_lookups, read_rows, stable_hash
from prefixledger.replay.named_events import NamedEvent
from prefixledger.schema import PATHS, REQUESTS
from prefixledger.workspace import WORKSPACE_VERSION, Workspace, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.replay import ReplaySummary
    from traces import Trace

MINUTE = 60_000_000
SECOND = 1_000_000

_DEFAULTS: dict[str, Any] = {
    "labels": [],
    "namespace": "n",
    "block_size": 16,
    "prompt_tokens": 17,
    "usage_state": "absent",
    "weight": 1.0,
    "prompt_complete": True,
    "bypassed": False,
    "status": "ok",
    "keyed": True,
    "n_blocks": 1,
    "source": "s",
    "source_file": "log.jsonl",
    "last_block": -1,
}


def request_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return requests with defaults for every column that a row leaves out; ``at_us`` is the arrival."""
    schema = REQUESTS.arrow().append(pa.field("last_block", pa.int64()))
    filled = []
    for number, row in enumerate(rows, start=1):
        given = {name: value for name, value in row.items() if name != "at_us"}
        line = {
            "request_id": f"q{number}",
            "source_line": number,
            "started_at": row.get("at_us", number * SECOND),
        }
        filled.append({**dict.fromkeys(schema.names), **_DEFAULTS, **line, **given})
    return pa.table({name: [row[name] for row in filled] for name in schema.names}, schema=schema)


def write_workspace(root: Path, rows: list[dict[str, Any]]) -> Workspace:
    """Write what ingest would leave and index it.

    Beside the columns of requests a row has ``at_us``, its arrival, and ``ids``, the ids of its full blocks; a prompt is
    one token longer than these unless it says otherwise. ``namespace`` and ``source`` separate as they do in a log.
    """
    workspace = Workspace(root)
    manifest: list[dict[str, Any]] = []
    for source in sorted({row.get("source", "s") for row in rows}):
        mine = [row for row in rows if row.get("source", "s") == source]
        names = sorted({row.get("namespace", "n") for row in mine})
        forest = PathForest()
        ids = [np.asarray(row.get("ids", []), np.uint64) for row in mine]
        offsets = np.concatenate([[0], np.cumsum([each.size for each in ids])]).astype(np.int64)
        root_of = ints(*(names.index(row.get("namespace", "n")) for row in mine))
        last = forest.add(root_of, offsets, None, np.concatenate(ids))
        table = request_table(
            [_filled(row, node, source) for row, node in zip(mine, last.tolist(), strict=True)]
        )
        columns = [forest.parent, forest.label_hi, forest.label_lo]
        write_table(
            workspace.paths / f"{source}.parquet", pa.table([*map(pa.array, columns)], schema=PATHS.arrow())
        )
        requests = table.select(REQUESTS.names).cast(REQUESTS.arrow())
        write_table(workspace.requests / "date=1970-01-01" / f"{source}.parquet", requests)
        first = min(row["at_us"] for row in mine)
        spaces = [{"name": name, "block_size": 16} for name in names]
        manifest.append({"source": source, "first_at_us": first, "namespaces": spaces})
    write_json(workspace.manifest, {"schema_version": WORKSPACE_VERSION, "sources": manifest})
    update(workspace)
    return workspace


def _filled(row: dict[str, Any], node: int, source: str) -> dict[str, Any]:
    given = {name: value for name, value in row.items() if name != "ids"}
    size, blocks = row.get("block_size", 16), len(row.get("ids", []))
    own = {"prompt_tokens": blocks * size + 1, "n_blocks": blocks, "source": source}
    return {**own, "source_node": node if node >= 0 else None, "source_file": f"{source}.jsonl", **given}


def trace_rows(trace: Trace, block_size: int) -> list[dict[str, Any]]:
    """Return a trace as rows for ``write_workspace``."""
    return [
        {
            "at_us": int(trace.arrival_us[row]),
            "request_id": f"t.jsonl:{row + 1}",
            "ids": trace.ids[trace.offset[row] : trace.offset[row + 1]],
            "block_size": block_size,
            "prompt_tokens": int(trace.prompt_tokens[row]),
        }
        for row in range(trace.arrival_us.size)
    ]


def make_log(rows: list[dict[str, Any]]) -> Log:
    """Return the log of ``write_workspace`` without writing it; rows must be in order of arrival."""
    names = sorted({row.get("namespace", "n") for row in rows})
    forest = PathForest()
    ids = [np.asarray(row.get("ids", []), np.uint64) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([each.size for each in ids])]).astype(np.int64)
    root_of = ints(*(names.index(row.get("namespace", "n")) for row in rows))
    last = forest.add(root_of, offsets, None, np.concatenate(ids))
    kept = read_rows(
        request_table(
            [
                {**_filled(row, node, "s"), "last_block": node}
                for row, node in zip(rows, last.tolist(), strict=True)
            ]
        )
    )
    blocks = len(forest)
    key = np.arange(2 * blocks, dtype=np.uint64).reshape(-1, 2)
    parent = np.maximum(forest.parent, -1)
    first_seen = np.zeros(blocks, np.int64)
    namespace = np.zeros(blocks, np.int32)
    for node, root in zip(last.tolist(), root_of.tolist(), strict=True):
        at = node
        while at >= 0:
            namespace[at] = root
            at = int(parent[at])
    return Log(kept, read_lookups(kept), Forest(parent, key, namespace, first_seen, tuple(names)))


def with_real_keys(log: Log) -> Log:
    """Return a log whose keys are spread over their whole range, as those of an index are: a ring needs that."""
    keys = [[0, stable_hash(b"%d" % block, 0)] for block in range(log.forest.parent.size)]
    return replace(log, forest=replace(log.forest, key=np.asarray(keys, np.uint64)))


def read(summary: ReplaySummary, name: str) -> list[dict[str, Any]]:
    """Return the rows of one file of a replay; times as microseconds."""
    table = pq.read_table(summary.folder / f"{name}.parquet")
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(number, field.name, table[field.name].cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def make_rows(rows: list[dict[str, Any]]) -> Any:
    """Return the ``Rows`` of a hand-made log."""
    return read_rows(request_table(rows))


def named(
    number: int, at_us: int, kind: str = "restart", *, from_file: bool = False, **fields: Any
) -> NamedEvent:
    """Return event ``e<number>``."""
    return NamedEvent(f"e{number}", Event(at=us_datetime(at_us), kind=kind, **fields), from_file)


def ints(*values: int) -> np.ndarray:
    """Return int64 values."""
    return np.asarray(values, np.int64)
