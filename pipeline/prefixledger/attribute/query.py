"""Answers one SQL query about a workspace, and reads nothing but that workspace."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from prefixledger import schema, schema_contents, schema_engines
from prefixledger.cards import card_html, frame_card
from prefixledger.errors import UsageError
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.workspace import Workspace

_STAGE_TABLES = (
    schema.REQUESTS,
    schema.REJECTS,
    schema_contents.PARTS,
    schema_contents.CONTENTS,
    schema_contents.PIECES,
    schema.BLOCKS,
    schema.LAST_BLOCKS,
    schema_engines.KV_EVENTS,
    schema_engines.SERIES,
)
"""Tables of the workspace itself; each exists, if empty, so that a query never fails for want of rejects."""

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_ASKING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.MULTI,  # PIVOT, which first looks for its columns
}
_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class QueryResult:
    """An answer.

    Attributes:
        sql: The statement.
        columns: Names, in order.
        types: DuckDB's type of each column.
        connection: Has run the statement and holds its rows.
    """

    sql: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    connection: duckdb.DuckDBPyConnection

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows in the order of the query, once, without holding all of them."""
        with translated_errors(self.connection):
            while batch := self.connection.fetchmany(_BATCH_ROWS):
                yield from batch

    def _repr_html_(self) -> str:
        frame = self.frame()
        return card_html(frame_card(f"{frame.height:,} rows", frame))

    def frame(self) -> pl.DataFrame:
        """Run the statement again and return all rows as a polars frame; ends ``rows``."""
        with translated_errors(self.connection):
            self.connection.abort()  # an unfinished result blocks the connection
            return pl.DataFrame(self.connection.sql(self.sql).to_arrow_table())


def connect(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """Open an in-memory database with one view per table of the workspace, and lock it.

    ``requests``, ``rejects``, ``parts``, ``blocks``, ``last_blocks``, ``kv_events`` and ``series`` always exist. Every table that a replay left behind
    (``lookups``, ``segments``, ``misses`` …) is a view over all replays, with a first column ``scenario``.

    Raises:
        UsageError: There is no workspace there.
        InputError: Another version filled it, or it is damaged.
    """
    read_manifest(workspace)
    root = workspace.root.resolve()
    connection = duckdb.connect(":memory:", config=_LOCKED)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would go to stdout, among the data
    for table in _STAGE_TABLES:
        files = sorted(str(path) for path in (root / table.name).rglob("*.parquet"))
        if files:
            connection.read_parquet(files, hive_partitioning=False).create_view(table.name)
        else:
            connection.from_arrow(table.arrow().empty_table()).create(table.name)
    for name, files in _replay_tables(root / "replays").items():
        found = connection.read_parquet(files, filename=True, union_by_name=True)
        found.project("parse_path(filename)[-2] AS scenario, * EXCLUDE (filename)").create_view(name)
    connection.execute("SET allowed_directories = $folders", {"folders": [str(root)]})
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def run_query(workspace: Workspace, sql: str) -> QueryResult:
    """Run one statement that only asks.

    Args:
        workspace: What it may see.
        sql: One SELECT, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN, in DuckDB's dialect.

    Raises:
        UsageError: There is no workspace, the statement is wrong, or it would change something.
    """
    connection = connect(workspace)
    with translated_errors(connection):
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in _ASKING:
            raise UsageError(
                "a query is one statement that only asks",
                hint="write SELECT …; DESCRIBE, SHOW, SUMMARIZE, PIVOT and EXPLAIN are fine, too",
            )
        connection.execute(statements[0])
        described = connection.description or []
        names, types = (tuple(str(column[part]) for column in described) for part in (0, 1))
        return QueryResult(sql, names, types, connection)


@contextmanager
def translated_errors(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Turn DuckDB's faults into usage errors that name the views that exist."""
    try:
        yield
    except duckdb.Error as error:
        names = ", ".join(row[0] for row in connection.execute("SHOW TABLES").fetchall())
        hint = f"views: {names}; 'DESCRIBE requests' lists the columns of one"
        raise UsageError(str(error).strip(), hint=hint) from error


def _replay_tables(folder: Path) -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*/*.parquet")):
        tables.setdefault(path.stem, []).append(str(path))
    return dict(sorted(tables.items()))
