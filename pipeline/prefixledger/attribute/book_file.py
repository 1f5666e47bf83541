"""One file of books, written as its parts come: rows with keys at once, those without keys behind all of them."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from prefixledger.workspace import writing_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class BookFile:
    """Takes the rows of one file; see ``writing_book``."""

    def __init__(self, write: Callable[[pa.Table], None], aside: IO[bytes], schema: pa.Schema) -> None:
        self._write = write
        self._aside = aside
        self._kept = pa.ipc.new_stream(aside, schema)

    def put(self, rows: pa.Table, keyed: int | None = None) -> None:
        """Take the rows of the next part.

        Args:
            rows: All of them.
            keyed: How many of them come before what stands behind the rows of all parts; None is all of them.
        """
        first = len(rows) if keyed is None else keyed
        self._write(rows.slice(0, first))
        if len(rows) > first:
            self._kept.write_table(rows.slice(first))

    def end(self) -> None:
        """Write what stands behind all parts."""
        self._kept.close()
        self._aside.seek(0)
        for batch in pa.ipc.open_stream(self._aside):
            self._write(pa.Table.from_batches([batch]))


@contextmanager
def writing_book(path: Path, schema: pa.Schema) -> Iterator[BookFile]:
    """Yield what takes the rows of one file; the file is there once all is well.

    Rows without keys wait in a file without a name beside it: of a log of usage alone they are all of its segments.
    """
    with tempfile.TemporaryFile(dir=path.parent) as aside, writing_table(path, schema) as write:
        book = BookFile(write, aside, schema)
        yield book
        book.end()
