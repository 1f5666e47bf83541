"""Brings the index up to what was ingested: new sources are added, nothing already stored changes its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.index.key_numbers import MOST_AT_ONCE, KeyNumbers, at_once, contradiction, numbers_by_parts
from prefixledger.index.node_kernel import earliest_uses, root_namespaces
from prefixledger.index.partitions import forest_keys
from prefixledger.index.sources import (
    IndexedSource,
    read_indexed,
    read_sources,
    still_valid,
    write_indexed,
)
from prefixledger.index.tables import (
    Blocks,
    count_paths,
    empty_blocks,
    read_blocks,
    read_first_seen,
    read_paths,
    read_uses,
    write_blocks,
    write_last_blocks,
)
from prefixledger.kernels.blake2b_kernel import root_keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.index.sources import Source
    from prefixledger.index.tables import Uses
    from prefixledger.workspace import Workspace

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What an update did.

    Attributes:
        sources_added: Sources that were indexed now.
        sources_kept: Sources that were indexed before.
        blocks_added: Distinct blocks that came with the added sources.
        blocks: Distinct blocks of the workspace.
        requests: Rows of the workspace.
        rebuilt: Whether an older index did not fit what ingest left, and was made again from nothing.
    """

    sources_added: int
    sources_kept: int
    blocks_added: int
    blocks: int
    requests: int
    rebuilt: bool


def update(workspace: Workspace, engine: Engine | None = None) -> IndexStats:
    """Index every source that is not indexed yet.

    Args:
        workspace: Where ingest left requests, paths and the manifest.
        engine: What computes keys by parts, of 500,000 blocks or more, and numbers, where tasks do not share the memory of
            this process; None: this process.

    Returns:
        What was done.

    Raises:
        InputError: Nothing was ingested.
        InternalError: A file of the workspace contradicts another.
    """
    sources = read_sources(workspace)
    indexed = read_indexed(workspace)
    rebuilt = not still_valid(sources, indexed)
    if rebuilt:
        indexed = ()
    _remove_leftovers(workspace, {entry.source for entry in indexed})
    done = {entry.source for entry in indexed}
    pending = [source for source in sources if source.name not in done]
    kept = len(indexed)
    if pending or not workspace.index.exists():
        sizes = [count_paths(source.paths) for source in pending]
        blocks = sum(entry.blocks for entry in indexed) + sum(sizes)
        large = engine is not None and numbers_by_parts(blocks, engine)
        builder = _Builder(workspace, indexed, engine, by_parts=large)
        write_indexed(workspace, indexed)
        for begin, end in at_once(sizes, MOST_AT_ONCE if large else 0):
            builder.add(pending[begin:end])
        indexed = builder.indexed
    return IndexStats(
        sources_added=len(pending),
        sources_kept=kept,
        blocks_added=sum(entry.blocks for entry in indexed[kept:]),
        blocks=sum(entry.blocks for entry in indexed),
        requests=sum(entry.requests for entry in indexed),
        rebuilt=rebuilt,
    )


def _remove_leftovers(workspace: Workspace, indexed: set[str]) -> None:
    """Delete files that no entry of the index speaks for: of a crash, or of an index that no longer fits."""
    for folder in (workspace.blocks, workspace.last_blocks):
        for path in sorted(folder.glob("*.parquet")):
            if path.stem not in indexed:
                path.unlink()


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A source whose blocks are not numbered yet.

    Attributes:
        source: It.
        parent: int64[k], see ``SourceForest``.
        keys: uint64[k, 2].
        uses: Its rows.
        earliest_us: int64[k], first use of each block, ``_NEVER`` where no row has it.
    """

    source: Source
    parent: NDArray[np.int64]
    keys: NDArray[np.uint64]
    uses: Uses
    earliest_us: NDArray[np.int64]


class _Builder:
    """Holds the first uses of all blocks while sources are added."""

    def __init__(
        self,
        workspace: Workspace,
        indexed: tuple[IndexedSource, ...],
        engine: Engine | None,
        *,
        by_parts: bool,
    ) -> None:
        """Read what is indexed.

        Args:
            workspace: Where it is.
            indexed: What of it fits.
            engine: What computes keys by parts; None: this process at once.
            by_parts: Whether numbers are given by parts, too.

        Raises:
            InternalError: The files hold another number of blocks.
        """
        self.indexed = indexed
        self._workspace = workspace
        self._engine = engine
        self._numbers = KeyNumbers(engine if by_parts else None)
        self._first_seen_us = read_first_seen(self._stored())
        expected = sum(entry.blocks for entry in indexed)
        if self._first_seen_us.size != expected:
            raise contradiction(f"{self._first_seen_us.size} blocks", expected)

    def _stored(self) -> list[Path]:
        return [self._workspace.blocks / f"{entry.source}.parquet" for entry in self.indexed]

    def add(self, sources: Sequence[Source]) -> None:
        """Index some sources: all are numbered, then of each its blocks are written, its rows, and its entry."""
        keyed = [self._keyed(source) for source in sources]
        keys = np.concatenate([one.keys for one in keyed])
        used = np.concatenate([one.earliest_us for one in keyed]) < _NEVER
        block = self._numbers.number(keys, used, self._stored(), self._first_seen_us.size)
        ends = np.cumsum([one.keys.shape[0] for one in keyed])
        for one, mine in zip(keyed, np.split(block, ends[:-1]), strict=True):
            self._write(one, mine)

    def _keyed(self, source: Source) -> _Keyed:
        forest = read_paths(source.paths)
        uses = read_uses(source.requests)
        if uses.last_node.max(initial=-1) >= forest.parent.shape[0]:
            raise InternalError(
                f"a request of source {source.name} ends in a block that {source.paths} lacks"
            )
        keys = forest_keys(forest, root_keys(source.namespaces), self._engine)
        earliest_us = np.full(forest.parent.shape[0], _NEVER, np.int64)
        earliest_uses(forest.parent, uses.last_node, uses.started_us, earliest_us)
        return _Keyed(source, forest.parent, keys, uses, earliest_us)

    def _write(self, keyed: _Keyed, block: NDArray[np.int64]) -> None:
        source, uses, before = keyed.source, keyed.uses, self._first_seen_us.size
        used = block >= 0
        self._lower_first_seen(block[used], keyed.earliest_us[used])
        write_blocks(
            self._workspace.blocks / f"{source.name}.parquet", before, self._new_blocks(keyed, block, before)
        )
        last_block = (
            np.where(uses.last_node >= 0, block[uses.last_node], -1) if block.size else uses.last_node
        )
        write_last_blocks(
            self._workspace.last_blocks / f"{source.name}.parquet", source.name, uses.source_line, last_block
        )
        added = self._first_seen_us.size - before
        entry = IndexedSource(source.name, source.made_from, before, added, last_block.shape[0])
        self.indexed = (*self.indexed, entry)
        write_indexed(self._workspace, self.indexed)

    def _new_blocks(self, keyed: _Keyed, block: NDArray[np.int64], before: int) -> Blocks:
        nodes = np.flatnonzero(block >= before)
        if not nodes.size:
            return empty_blocks()
        number = block[nodes]  # rises with the node, but for nodes of two namespaces of one name
        nodes = nodes[np.diff(np.maximum.accumulate(number), prepend=before - 1) > 0]
        namespace = np.empty(keyed.parent.shape[0], np.int32)
        root_namespaces(keyed.parent, namespace)
        above = keyed.parent[nodes]
        return Blocks(
            parent=np.where(above >= 0, block[np.maximum(above, 0)], -1),
            key=keyed.keys[nodes],
            namespace=namespace[nodes],
            first_seen_us=self._first_seen_us[before:],
            namespaces=keyed.source.namespaces,
        )

    def _lower_first_seen(self, block: NDArray[np.int64], earliest_us: NDArray[np.int64]) -> None:
        """Take over earlier uses, also of blocks that are stored: a late source may have early requests."""
        old = self._first_seen_us
        before = old.size
        more = np.full(max(int(block.max(initial=-1)) + 1 - before, 0), _NEVER, np.int64)
        self._first_seen_us = np.concatenate([old, more])
        np.minimum.at(self._first_seen_us, block, earliest_us)
        changed = self._first_seen_us[:before] < old
        for entry in self.indexed:
            mine = slice(entry.first_block, entry.first_block + entry.blocks)
            if changed[mine].any():
                path = self._workspace.blocks / f"{entry.source}.parquet"
                stored = read_blocks([path])
                write_blocks(
                    path,
                    entry.first_block,
                    Blocks(
                        parent=stored.parent,
                        key=stored.key,
                        namespace=stored.namespace,
                        first_seen_us=self._first_seen_us[mine],
                        namespaces=stored.namespaces,
                    ),
                )
