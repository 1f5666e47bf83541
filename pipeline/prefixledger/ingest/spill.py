"""Rows on their way through, kept on disk so that memory does not grow with the length of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BATCH_ROWS: Final = 65_536
"""Rows are written in batches of this many whatever the chunks were, so that no output depends on those."""


class Spill:
    """An Arrow file that is written once, then read as often as needed."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Create the file.

        Args:
            path: Where; its folder must exist.
            schema: Columns.
        """
        self.path = path
        self.schema = schema
        self.rows = 0
        self._columns: list[list[Any]] = [[] for _ in schema]
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._writer = pa.ipc.new_file(str(path), schema)
        self._file: pa.ipc.RecordBatchFileReader | None = None

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Append rows, given column by column in order of the schema."""
        for held, new in zip(self._columns, columns, strict=True):
            held.extend(new)
        self._grown(len(columns[0]))

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows that are Arrow columns already."""
        self._seal()
        self._batches.append(batch)
        self._grown(batch.num_rows)

    def finish(self) -> None:
        """Write what is left; nothing can be added afterwards."""
        self._write(self._held)
        self._writer.close()
        self._file = pa.ipc.open_file(pa.memory_map(str(self.path)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, ``BATCH_ROWS`` at a time."""
        assert self._file is not None
        for number in range(self._file.num_record_batches):
            yield self._file.get_batch(number)

    def table(self) -> pa.Table:
        """Return all rows as a view of the file, for picking single ones."""
        assert self._file is not None
        return self._file.read_all()

    def discard(self) -> None:
        """Delete the file."""
        if self._file is None:
            self._writer.close()
        self._file = None
        self.path.unlink(missing_ok=True)

    def _grown(self, n_rows: int) -> None:
        self.rows += n_rows
        self._held += n_rows
        if self._held >= BATCH_ROWS:
            self._write(self._held // BATCH_ROWS * BATCH_ROWS)

    def _seal(self) -> None:
        """Make Arrow columns of the rows that came as lists."""
        if self._columns[0]:
            arrays = [pa.array(c, type=f.type) for c, f in zip(self._columns, self.schema, strict=True)]
            self._batches.append(pa.record_batch(arrays, schema=self.schema))
            self._columns = [[] for _ in self.schema]

    def _write(self, n_rows: int) -> None:
        self._seal()
        if not n_rows:
            return
        rows = pa.Table.from_batches(self._batches).combine_chunks()
        self._writer.write_table(rows.slice(0, n_rows), max_chunksize=BATCH_ROWS)
        self._batches = rows.slice(n_rows).to_batches()
        self._held -= n_rows
