"""Writes what an input became: requests by day, its forest, its rejects; and removes what an input left."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.config.units import us_datetime
from prefixledger.errors import InternalError
from prefixledger.ingest.finish import finished_rows
from prefixledger.ingest.forest_kernel import renumber, rows_below
from prefixledger.ingest.settle import KEPT, REJECTED
from prefixledger.schema import PATHS, REJECTS, REQUESTS
from prefixledger.workspace import packing, replacing, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.finish import Naming
    from prefixledger.ingest.settle import Settled
    from prefixledger.workspace import Workspace

_DAY_US: Final = 86_400 * 1_000_000
_DELTA: Final = "DELTA_BINARY_PACKED"
_PATHS_RISE: Final = {"parent": _DELTA, "label_lo": _DELTA}
"""Numbers that mostly are one more than those before them: a third of the time and a tenth of the bytes of a dictionary."""
_REQUESTS_RISE: Final = {
    "request_id": "DELTA_BYTE_ARRAY",
    **dict.fromkeys(("started_at", "prompt_tokens", "output_tokens", "source_node", "source_line"), _DELTA),
}
"""The same of rows: two thirds of the time, a quarter of the bytes."""
_OPEN_FILES: Final = 64
"""Days written in one pass; a log of years must not hold a file open for each of its days."""


def write_paths(workspace: Workspace, naming: Naming, collected: Collected, settled: Settled) -> None:
    """Write the forest of the rows that are kept, and renumber their last nodes in place."""
    forest = collected.forest
    rows = np.flatnonzero(settled.alive)
    through, _ = rows_below(forest.parent, settled.node[rows], rows)
    keep = through > 0
    whole = bool(keep.all())
    number, parent = (None, forest.parent) if whole else renumber(forest.parent, keep)
    labels = (forest.label_hi, forest.label_lo)
    columns = [parent, *(labels if whole else (half[keep] for half in labels))]
    table = pa.table(columns, schema=PATHS.arrow())
    write_table(workspace.paths / f"{naming.source}.parquet", table, _PATHS_RISE)
    there = settled.alive & (settled.node >= 0)
    settled.node = np.where(there, settled.node if number is None else _at(number, settled.node), -1)


def write_rejects(
    workspace: Workspace, naming: Naming, collected: Collected, settled: Settled
) -> dict[str, int]:
    """Write the rejects in order of their records, and count them by reason.

    Raises:
        InternalError: Their number is not that of the records which were rejected.
    """
    collected.reject_spill.finish()
    table = collected.reject_spill.table()
    stays = settled.fate[table["record"].to_numpy() - 1] == REJECTED
    table = table.filter(pa.array(stays)).sort_by("record")
    if table.num_rows != int((settled.fate == REJECTED).sum()):
        raise InternalError(
            f"{table.num_rows} rejects for {int((settled.fate == REJECTED).sum())} rejected records"
        )
    if table.num_rows == 0:
        return {}
    label = pa.array([naming.label] * table.num_rows, pa.string())
    columns = [label, table["record"], table["line"], table["byte_offset"], table["reason"], table["excerpt"]]
    write_table(workspace.rejects / f"{naming.source}.parquet", pa.table(columns, schema=REJECTS.arrow()))
    short = pc.list_element(pc.split_pattern(table["reason"], ":", max_splits=1), 0)
    counts = pc.value_counts(short).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counts, key=lambda entry: entry["values"])}


def write_requests(workspace: Workspace, naming: Naming, collected: Collected, settled: Settled) -> None:
    """Write kept rows into one file a day, in the order of the input.

    Raises:
        InternalError: Their number is not that of the records which were kept.
    """
    days = (settled.started_us + naming.zero_us) // _DAY_US
    own_days = np.unique(days[settled.alive]).tolist()
    written = sum(
        _write_days(workspace, naming, collected, settled, days, own_days[first : first + _OPEN_FILES])
        for first in range(0, len(own_days), _OPEN_FILES)
    )
    kept = int((settled.fate == KEPT).sum())
    if written != kept:
        raise InternalError(f"{written} rows written for {kept} kept records")


def remove_source(workspace: Workspace, source: str) -> None:
    """Delete what a source left; ``source`` may be a glob pattern."""
    for folder, pattern in (
        (workspace.requests, f"date=*/{source}.parquet"),
        (workspace.paths, f"{source}.parquet"),
        (workspace.rejects, f"{source}.parquet"),
        (workspace.parts, f"{source}.parquet"),
        (workspace.texts, f"{source}.parquet"),
        (workspace.contents, f"{source}.parquet"),
        (workspace.pieces, f"{source}.parquet"),
        (workspace.kv_events, f"{source}.parquet"),
        (workspace.series, f"{source}.parquet"),
    ):
        for path in folder.glob(pattern):
            path.unlink()
            if path.parent != folder and not any(path.parent.iterdir()):
                path.parent.rmdir()


def _write_days(
    workspace: Workspace,
    naming: Naming,
    collected: Collected,
    settled: Settled,
    days: NDArray[np.int64],
    chosen: list[int],
) -> int:
    written = 0
    schema = REQUESTS.arrow()
    with ExitStack() as stack:
        writers = {}
        for day in chosen:
            part = stack.enter_context(replacing(_day_path(workspace, day, naming.source)))
            writers[day] = stack.enter_context(
                pq.ParquetWriter(part, schema, **packing(schema, _REQUESTS_RISE))
            )
        for rows, table in finished_rows(naming, collected, settled):
            of_rows = days[rows]
            for day in chosen:
                of_day = np.flatnonzero(of_rows == day)
                if of_day.size:
                    first, together = int(of_day[0]), of_day[-1] - of_day[0] < of_day.size
                    rows_of_day = (
                        table.slice(first, of_day.size) if together else table.take(pa.array(of_day))
                    )
                    writers[day].write_table(rows_of_day)
                    written += of_day.size
    return written


def _day_path(workspace: Workspace, day: int, source: str) -> Path:
    return workspace.requests / f"date={us_datetime(day * _DAY_US):%Y-%m-%d}" / f"{source}.parquet"


def _at(number: NDArray[np.int64], node: NDArray[np.int64]) -> NDArray[np.int64]:
    return number[np.maximum(node, 0)] if number.size else np.full_like(node, -1)
