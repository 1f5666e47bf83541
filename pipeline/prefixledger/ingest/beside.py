"""What inputs hold beside requests, on its way into the workspace: KV events, and counters of engines over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from prefixledger.ingest.spill import Spill
from prefixledger.schema_engines import KV_EVENTS, SERIES
from prefixledger.workspace import write_table

if TYPE_CHECKING:
    from array import array
    from pathlib import Path

    from prefixledger.ingest.batch import Batch
    from prefixledger.schema import Table
    from prefixledger.workspace import Workspace

_PLACED: Final = ("source", "source_line")
"""Columns that are known once the whole input is."""
_RENAMED: Final = {"at": "at_us"}


class Beside:
    """Rows that are no requests, in order of the input; on disk from the first one on."""

    def __init__(self, folder: Path) -> None:
        """Begin an input.

        Args:
            folder: Where rows are kept until they are settled.
        """
        self._folder = folder
        self._spills: dict[str, Spill] = {}

    def add(self, batch: Batch, base: int) -> None:
        """Take the next batch, before which ``base`` records were read."""
        for table, told in ((KV_EVENTS, batch.kv), (SERIES, batch.series)):
            if told:
                rows = [(base + record, *row) for record, rows in told for row in rows]
                self._spill(table).add(list(zip(*rows, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """Tables of which there are rows."""
        return tuple(sorted(self._spills))

    def finish(self) -> None:
        """Take no more."""
        for spill in self._spills.values():
            spill.finish()

    def discard(self) -> None:
        """Delete the files on disk."""
        for spill in self._spills.values():
            spill.discard()

    def write(self, workspace: Workspace, source: str, lines: array[int], *, by_record: bool) -> None:
        """Write a table of each kind that occurred.

        Args:
            workspace: Where.
            source: Name of the source.
            lines: 1-based line of each record.
            by_record: Whether records go by their own number, because some line holds several.
        """
        for table, folder in ((KV_EVENTS, workspace.kv_events), (SERIES, workspace.series)):
            spill = self._spills.get(table.name)
            if spill is None:
                continue
            schema = table.arrow()
            parts = [_placed(part, schema, source, lines, by_record=by_record) for part in spill.batches()]
            write_table(
                folder / f"{source}.parquet",
                pa.concat_tables([schema.empty_table(), *parts]).combine_chunks(),
            )

    def _spill(self, table: Table) -> Spill:
        if table.name not in self._spills:
            fields: list[Any] = [("record", pa.int64())]
            fields += [
                (f.name, pa.int64() if f.name in _RENAMED else f.type)
                for f in table.arrow()
                if f.name not in _PLACED
            ]
            self._spills[table.name] = Spill(self._folder / f"{table.name}.arrow", pa.schema(fields))
        return self._spills[table.name]


def _placed(
    part: pa.RecordBatch, schema: pa.Schema, source: str, lines: array[int], *, by_record: bool
) -> pa.Table:
    record = part["record"].to_pylist()
    place = [number + 1 if by_record else lines[number] for number in record]
    known = {
        "source": pa.array([source] * len(record), pa.string()),
        "source_line": pa.array(place, pa.int64()),
    }
    columns = {**known, **{name: part[name] for name in part.schema.names}}
    return pa.table([columns[f.name].cast(f.type) for f in schema], schema=schema)
