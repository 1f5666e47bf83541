"""Brings the index up to what was ingested: new sources are added, nothing already stored changes its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.index.key_map import KeyMap
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
    empty_blocks,
    read_blocks,
    read_paths,
    read_uses,
    write_blocks,
    write_last_blocks,
)
from prefixledger.kernels.blake2b_kernel import root_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.index.sources import Source
    from prefixledger.index.tables import SourceForest, Uses
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
        engine: What computes keys by parts of a forest; None: this process. Numbers are given here in either case.

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
        builder = _Builder(workspace, indexed, engine)
        write_indexed(workspace, indexed)
        for source in pending:
            builder.add(source)
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


class _Builder:
    """Holds the keys and first uses of all blocks while sources are added."""

    def __init__(
        self, workspace: Workspace, indexed: tuple[IndexedSource, ...], engine: Engine | None
    ) -> None:
        self.indexed = indexed
        self._workspace = workspace
        self._engine = engine
        self._keys = KeyMap()
        stored = read_blocks([workspace.blocks / f"{entry.source}.parquet" for entry in indexed])
        self._keys.number(stored.key, np.ones(stored.key.shape[0], np.bool_))
        self._first_seen_us = stored.first_seen_us.copy()
        expected = sum(entry.blocks for entry in indexed)
        if not len(self._keys) == stored.key.shape[0] == expected:
            raise InternalError(
                f"{workspace.blocks} holds {stored.key.shape[0]} blocks with {len(self._keys)} keys, not {expected}",
                hint=f"delete {workspace.index}: the index is then made again",
            )

    def add(self, source: Source) -> None:
        """Index one source: its blocks first, then its rows, then its entry."""
        forest = read_paths(source.paths)
        uses = read_uses(source.requests)
        if uses.last_node.max(initial=-1) >= forest.parent.shape[0]:
            raise InternalError(
                f"a request of source {source.name} ends in a block that {source.paths} lacks"
            )
        first_block = len(self._keys)
        block = self._add_blocks(source, forest, uses)
        last_block = (
            np.where(uses.last_node >= 0, block[uses.last_node], -1) if block.size else uses.last_node
        )
        write_last_blocks(
            self._workspace.last_blocks / f"{source.name}.parquet", source.name, uses.source_line, last_block
        )
        added = len(self._keys) - first_block
        entry = IndexedSource(source.name, source.made_from, first_block, added, last_block.shape[0])
        self.indexed = (*self.indexed, entry)
        write_indexed(self._workspace, self.indexed)

    def _add_blocks(self, source: Source, forest: SourceForest, uses: Uses) -> NDArray[np.int64]:
        """Number the blocks of one source; return int64[k], block number of each node, -1 if no row uses it."""
        keys = forest_keys(forest, root_keys(source.namespaces), self._engine)
        earliest_us = np.full(forest.parent.shape[0], _NEVER, np.int64)
        earliest_uses(forest.parent, uses.last_node, uses.started_us, earliest_us)
        used = earliest_us < _NEVER
        before = len(self._keys)
        block = self._keys.number(keys, used)
        self._lower_first_seen(block[used], earliest_us[used], before)
        write_blocks(
            self._workspace.blocks / f"{source.name}.parquet",
            before,
            self._new_blocks(source, forest, block, before),
        )
        return block

    def _new_blocks(
        self, source: Source, forest: SourceForest, block: NDArray[np.int64], before: int
    ) -> Blocks:
        nodes = np.flatnonzero(block >= before)
        if not nodes.size:
            return empty_blocks()
        number = block[nodes]  # rises with the node, but for nodes of two namespaces of one name
        nodes = nodes[np.diff(np.maximum.accumulate(number), prepend=before - 1) > 0]
        namespace = np.empty(forest.parent.shape[0], np.int32)
        root_namespaces(forest.parent, namespace)
        above = forest.parent[nodes]
        return Blocks(
            parent=np.where(above >= 0, block[np.maximum(above, 0)], -1),
            key=self._keys.keys_from(before),
            namespace=namespace[nodes],
            first_seen_us=self._first_seen_us[before:],
            namespaces=source.namespaces,
        )

    def _lower_first_seen(
        self, block: NDArray[np.int64], earliest_us: NDArray[np.int64], before: int
    ) -> None:
        """Take over earlier uses, also of blocks that are stored: a late source may have early requests."""
        more = np.full(len(self._keys) - before, _NEVER, np.int64)
        old = self._first_seen_us
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
