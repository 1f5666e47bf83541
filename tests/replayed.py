"""Replays small logs end to end, from rows as ingest leaves them to the books."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger import attribute, index, replay
from prefixledger.config.scenario import parse_scenario
from prefixledger.kernels.path_forest import PathForest
from prefixledger.schema import PATHS, REQUESTS
from prefixledger.workspace import WORKSPACE_VERSION, Workspace, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = "00000000000000aa"
NAMESPACE = json.dumps({"scope": f"ids:file:{SOURCE}", "block_size": 16})
DAY_US = 86_400_000_000
_FILLED = {
    "labels": [],
    "namespace": NAMESPACE,
    "usage_state": "absent",
    "weight": 1.0,
    "prompt_complete": True,
    "bypassed": False,
    "status": "ok",
    "keyed": True,
    "source": SOURCE,
    "source_file": "log.jsonl",
}


def ingested(root: Path, rows: Sequence[dict[str, Any]], block_size: int) -> Workspace:
    """Write a workspace with one source, and index it.

    Args:
        root: Where.
        rows: ``at_us``, ``prompt_tokens``, ``ids`` of the full blocks, and any columns of ``requests``; by time.
        block_size: Tokens per block.
    """
    workspace = Workspace(root)
    forest = PathForest()
    ids = [row.get("ids", ()) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(path) for path in ids])]).astype(np.int64)
    labels = np.concatenate([np.asarray(path, np.uint64) for path in ids])
    last = forest.add(np.zeros(len(rows), np.int64), offsets, None, labels)
    paths = {"parent": forest.parent, "label_hi": forest.label_hi, "label_lo": forest.label_lo}
    write_table(workspace.paths / f"{SOURCE}.parquet", pa.table(paths, schema=PATHS.arrow()))
    by_day: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for number, (row, node) in enumerate(zip(rows, last.tolist(), strict=True)):
        by_day[row["at_us"] // DAY_US].append(
            {
                **_FILLED,
                "request_id": f"q{number}",
                "started_at": row["at_us"],
                "block_size": block_size,
                "n_blocks": len(row.get("ids", ())),
                "source_node": None if node < 0 else node,
                "source_line": number + 1,
                **{name: value for name, value in row.items() if name not in ("at_us", "ids")},
            }
        )
    for day, chosen in by_day.items():
        schema = REQUESTS.arrow()
        table = pa.table({name: [row.get(name) for row in chosen] for name in schema.names}, schema=schema)
        write_table(workspace.requests / f"date=day-{day:05d}" / f"{SOURCE}.parquet", table)
    source = {
        "source": SOURCE,
        "clock": "absolute",
        "first_at_us": rows[0]["at_us"],
        "last_at_us": rows[-1]["at_us"],
        "namespaces": [{"name": NAMESPACE, "block_size": block_size}],
    }
    write_json(workspace.manifest, {"schema_version": WORKSPACE_VERSION, "sources": [source], "history": []})
    index.update(workspace)
    return workspace


def booked(root: Path, rows: Sequence[dict[str, Any]], block_size: int, scenario: str) -> Workspace:
    """Ingest, replay under a scenario (named ``as-is``) and attribute."""
    workspace = ingested(root, rows, block_size)
    replay.run(workspace, parse_scenario(scenario))
    attribute.run(workspace, "as-is")
    return workspace
