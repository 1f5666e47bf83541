"""Loads the index: the forest as arrays, and the requests in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.errors import InputError, InternalError
from prefixledger.index.sources import read_indexed, read_sources, still_valid
from prefixledger.index.tables import integers, read_blocks
from prefixledger.schema import LAST_BLOCKS, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prefixledger.index.sources import IndexedSource, Source
    from prefixledger.workspace import Workspace

_ORDER = ("started_at", "source_file", "source_line", "source")


@dataclass(frozen=True, slots=True)
class Forest:
    """All distinct blocks of a workspace; a block's number is its row.

    Attributes:
        parent: int64[n], always smaller than its own index; -1 for the first block of a prompt.
        key: uint64[n, 2], little-endian words of the 128-bit chained key; without rows if not asked for.
        namespace: int32[n], index into ``namespaces``.
        first_seen_us: int64[n], earliest row that has the block, microseconds since 1970.
        namespaces: Names of the namespaces.
    """

    parent: NDArray[np.int64]
    key: NDArray[np.uint64]
    namespace: NDArray[np.int32]
    first_seen_us: NDArray[np.int64]
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """What a replay starts from.

    Attributes:
        forest: All distinct blocks.
        requests: All kept rows, sorted by (started_at, source_file, source_line), with the columns of
            ``schema.REQUESTS`` that were asked for, then ``last_block`` (null below one block).
    """

    forest: Forest
    requests: pa.Table

    def last_block(self) -> NDArray[np.int64]:
        """Return int64[m]: the last full block of each request, -1 where it has none."""
        return integers(self.requests["last_block"])


def load(workspace: Workspace, *, columns: Iterable[str] | None = None, keys: bool = True) -> Index:
    """Load the index of a workspace; see ``update``.

    Args:
        workspace: Where it is.
        columns: Columns of ``schema.REQUESTS`` that are needed, in this order; None for all of them.
        keys: Whether the keys of blocks are needed: 16 of the 36 bytes a block.

    Raises:
        UsageError: Nothing was ingested.
        InputError: The index is older than what was ingested, or another version filled the workspace.
        InternalError: A file of the workspace contradicts another, or a column does not exist.
    """
    wanted = tuple(REQUESTS.names if columns is None else columns)
    if unknown := set(wanted) - set(REQUESTS.names):
        raise InternalError(f"requests have no column {sorted(unknown)}")
    every = read_sources(workspace)
    sources = {source.name: source for source in every}
    indexed = read_indexed(workspace)
    if not still_valid(every, indexed) or len(indexed) != len(sources):
        raise InputError(
            f"the index of {workspace.root} is older than what was ingested",
            hint="run `prefixledger replay` on it",
        )
    stored = read_blocks([workspace.blocks / f"{entry.source}.parquet" for entry in indexed], keys=keys)
    forest = Forest(stored.parent, stored.key, stored.namespace, stored.first_seen_us, stored.namespaces)
    read = (*wanted, *(name for name in _ORDER if name not in wanted))
    rows = [_read_rows(workspace, sources[entry.source], entry, read) for entry in indexed]
    contract = REQUESTS.arrow()
    schema = pa.schema([*(contract.field(name) for name in read), LAST_BLOCKS.arrow().field("last_block")])
    table = _sorted(pa.concat_tables([schema.empty_table(), *rows]))
    return Index(forest, table.select([*wanted, "last_block"]))


def _read_rows(
    workspace: Workspace, source: Source, entry: IndexedSource, columns: tuple[str, ...]
) -> pa.Table:
    """Read the rows of one source and set the last blocks beside them; both are in order of date and place."""
    contract = REQUESTS.arrow()
    empty = pa.schema([contract.field(name) for name in columns]).empty_table()
    files = [pq.ParquetFile(path) for path in source.requests]
    if any(lacking := set(columns) - set(file.schema_arrow.names) for file in files):
        raise InputError(
            f"the requests of {workspace.root} were read by an earlier version and lack {', '.join(sorted(lacking))}",
            hint="ingest the logs into a new workspace",
        )
    parts = [file.read(list(columns)).select(columns) for file in files]
    table = pa.concat_tables([empty, *(part.replace_schema_metadata(None) for part in parts)])
    last = pq.ParquetFile(workspace.last_blocks / f"{entry.source}.parquet").read(
        ["source_line", "last_block"]
    )
    if len(last) != len(table) or not table["source_line"].equals(last["source_line"]):
        raise InternalError(
            f"requests of source {source.name} are not those that were indexed",
            hint=f"delete {workspace.index}: the index is then made again",
        )
    return table.append_column(LAST_BLOCKS.arrow().field("last_block"), last["last_block"])


def arrival_order(workspace: Workspace) -> NDArray[np.int64]:
    """Return int64[rows]: for each row of ``load`` its place among the rows of the sources, one after the other as indexed."""
    sources = {source.name: source for source in read_sources(workspace)}
    tables = [
        _read_rows(workspace, sources[entry.source], entry, _ORDER) for entry in read_indexed(workspace)
    ]
    return np.asarray(_order(pa.concat_tables(tables)).to_numpy(), np.int64)


def _sorted(table: pa.Table) -> pa.Table:
    order = _order(table)
    if np.array_equal(order.to_numpy(), np.arange(len(table))):
        return table
    return table.take(order)


def _order(table: pa.Table) -> pa.Array:
    """Sort by ``_ORDER``; rows of one line keep their order. Texts are ranked first, comparing them is slow."""
    keys = {}
    for name in _ORDER:
        column = table[name]
        if pa.types.is_string(column.type):
            names = pc.unique(column).to_pylist()
            rank = pa.array(sorted(names), pa.string())
            column = pc.index_in(column, value_set=rank)
        keys[name] = column
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in _ORDER])
