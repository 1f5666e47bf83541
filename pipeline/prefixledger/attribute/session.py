"""Runs the statements of ``sql/`` in one in-memory DuckDB, each into an Arrow table named like its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import duckdb

from prefixledger.errors import InternalError
from prefixledger.resources import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

_SHOWN_ROWS = 5


class Session:
    """One database without access to the network, and to no files but those it is given; tables come in and go out as Arrow.

    Args:
        threads: Threads of DuckDB; results do not depend on it.
        files: Parquet files by the names that statements call them by. Each statement reads the columns that it needs, so
            that large ones never stand in memory whole.
    """

    def __init__(self, threads: int = 2, files: Mapping[str, Path] | None = None) -> None:
        self._tables: dict[str, pa.Table] = {}
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": threads,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                # The order of rows is part of every file; duckdb keeps it only when told so.
                "preserve_insertion_order": True,
            },
        )
        for name, path in (files or {}).items():
            self._connection.read_parquet(str(path), hive_partitioning=False).create_view(name)
        self._connection.execute(
            "SET allowed_paths = $paths", {"paths": [str(path) for path in (files or {}).values()]}
        )
        self._connection.execute("SET enable_external_access = false")
        for name in ("time_zone", "cause_of"):
            self._connection.execute(read_text("sql", f"00_session/{name}.sql"))
        self._connection.execute("SET enable_progress_bar = false")  # it would go to stdout, among the data

    def bind(self, tables: Mapping[str, pa.Table]) -> None:
        """Make Arrow tables visible to the statements under these names."""
        for name, table in tables.items():
            self._connection.register(name, table)
            self._tables[name] = table

    def run(self, steps: Iterable[str], parameters: Mapping[str, object] | None = None) -> None:
        """Run statements in order; each result becomes the table named like the file.

        Args:
            steps: ``folder/name`` below ``sql/``.
            parameters: Values for ``$name``; each statement takes those that it names.
        """
        for step in steps:
            text = read_text("sql", f"{step}.sql")
            (statement,) = duckdb.extract_statements(text)
            given = parameters or {}
            bound = {name: given[name] for name in statement.named_parameters}
            # Arrow, not a table of DuckDB: that would be copied once more on the way out, a third of the time of wide ones.
            self.bind({_stem(step): self._connection.sql(text, params=bound).to_arrow_table()})

    def check(self, steps: Iterable[str]) -> None:
        """Run checks, in order.

        Raises:
            InternalError: One of them finds a row: the books do not close.
        """
        steps = tuple(steps)
        self.run(steps)
        for step in steps:
            wrong = self.table(_stem(step))
            if wrong.num_rows:
                examples = "; ".join(str(row) for row in wrong.slice(0, _SHOWN_ROWS).to_pylist())
                raise InternalError(
                    f"the books do not close: check {step} finds {wrong.num_rows} rows: {examples}",
                    hint="this is a fault of prefixledger, not of the log: please report it with the lines named above",
                )

    def table(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        """Return a table in the order of its rows, with the columns and types of ``schema`` if it is given."""
        table = self._tables[name]
        return table if schema is None else table.select(schema.names).cast(schema)

    def drop(self, name: str) -> None:
        """Forget a table that a statement made, so that the statement can run again."""
        self._connection.unregister(name)
        del self._tables[name]

    def close(self) -> None:
        """Free all memory."""
        self._tables.clear()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stem(step: str) -> str:
    return step.rpartition("/")[2]
