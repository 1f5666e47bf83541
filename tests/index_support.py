"""Writes what ingest would leave for a few hand-made rows, for tests of the index."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from prefixledger.schema import PATHS, REQUESTS
from prefixledger.workspace import WORKSPACE_VERSION, Workspace, write_json, write_table
from twins.path_forest import Forest

if TYPE_CHECKING:
    from pathlib import Path

DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Row:
    """One kept row: when, in which namespace, and the ids of its full blocks."""

    at_us: int
    ids: list[int]
    namespace: int = 0


@dataclass(frozen=True)
class Log:
    """One source; ``unused`` are paths that its forest has and no row."""

    name: str
    rows: list[Row]
    namespaces: tuple[str, ...] = ("n0", "n1")
    unused: list[list[int]] = field(default_factory=list)
    file: str = "log.jsonl"


def write_logs(root: Path, logs: list[Log]) -> Workspace:
    """Write requests, paths and manifest of all sources; sources already there stay."""
    workspace = Workspace(root)
    manifest: dict[str, Any] = {"schema_version": WORKSPACE_VERSION, "sources": []}
    if workspace.manifest.exists():
        manifest = json.loads(workspace.manifest.read_text())
    for log in logs:
        _write_tables(workspace, log)
        manifest["sources"].append(
            {
                "source": log.name,
                "first_at_us": min((row.at_us for row in log.rows), default=None),
                "namespaces": [{"name": name, "block_size": 16} for name in log.namespaces],
            }
        )
    write_json(workspace.manifest, manifest)
    return workspace


def _write_tables(workspace: Workspace, log: Log) -> None:
    forest = Forest()
    for ids in log.unused:
        forest.add(0, [(0, value) for value in ids])
    by_day: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line, row in enumerate(log.rows, start=1):
        node = forest.add(row.namespace, [(0, value) for value in row.ids])
        by_day[row.at_us // DAY_US].append(
            {
                "request_id": f"{log.name}-{line}",
                "started_at": row.at_us,
                "labels": [],
                "namespace": log.namespaces[row.namespace],
                "block_size": 16,
                "prompt_tokens": 16 * len(row.ids) + 1,
                "usage_state": "absent",
                "weight": 1.0,
                "prompt_complete": True,
                "bypassed": False,
                "status": "ok",
                "keyed": True,
                "n_blocks": len(row.ids),
                "source_node": node if node >= 0 else None,
                "source": log.name,
                "source_file": log.file,
                "source_line": line,
            }
        )
    paths = [(parent, high, low) for parent, (high, low) in forest.nodes]
    columns = {name: [path[at] for path in paths] for at, name in enumerate(PATHS.names)}
    write_table(workspace.paths / f"{log.name}.parquet", pa.table(columns, schema=PATHS.arrow()))
    for day, rows in by_day.items():
        schema = REQUESTS.arrow()
        table = pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)
        date = f"date=1970-01-{day + 1:02d}"
        write_table(workspace.requests / date / f"{log.name}.parquet", table)
