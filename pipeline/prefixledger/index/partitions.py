"""Computes the keys of a forest by parts: subtrees below what many prompts share, which hang on keys that are known first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.engine.base import Work
from prefixledger.index.partition_kernel import cut_subtrees, subtree_blocks
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.blake2b_kernel import chain_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.index.tables import SourceForest

KEYS = Work("keys", "computes the keys of blocks", threads=True)
FEWEST_BLOCKS = 500_000
"""Fewer are hashed in 0.1 s by one core."""
PARTS_A_WORKER = 4
PIECES_A_PART = 4
"""No subtree is larger than a fourth of an even part, so that one giant shared prefix is cut below itself."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some subtrees of a forest.

    Attributes:
        node: int64[k], their blocks in the forest, ascending.
        parent: int64[k], position of the block above in the part; ``-1 - r`` where it is root ``r`` of the part.
        label_hi: uint64[k].
        label_lo: uint64[k].
        root_key: uint64[r, 2], keys of what the subtrees hang on.
    """

    node: NDArray[np.int64]
    parent: NDArray[np.int64]
    label_hi: NDArray[np.uint64]
    label_lo: NDArray[np.uint64]
    root_key: NDArray[np.uint64]


def forest_keys(
    forest: SourceForest, root_key: NDArray[np.uint64], engine: Engine | None
) -> NDArray[np.uint64]:
    """Return uint64[k, 2], the chained key of every block, whatever the parts.

    Keys are put back in the order of the blocks, so that whoever numbers them sees what it would have seen at once.

    Args:
        forest: Parents and labels; a negative parent ``-1 - n`` is namespace ``n``.
        root_key: uint64[n, 2], keys of the namespaces.
        engine: What computes parts; None: this process, all at once.
    """
    blocks = forest.parent.shape[0]
    if engine is None or not goes_by_parts(blocks, engine):
        return chain_keys(forest.parent, forest.label_hi, forest.label_lo, root_key)
    part, above = cut(forest.parent, PARTS_A_WORKER * engine.workers)
    keys = np.empty((blocks, 2), np.uint64)
    shared = _part(forest, above, root_key, keys)
    keys[above] = chain_keys(shared.parent, shared.label_hi, shared.label_lo, shared.root_key)
    parts = [_part(forest, node, root_key, keys) for node in part]
    for one, found in zip(parts, engine.map(KEYS, _keys, parts), strict=True):
        keys[one.node] = found
    return keys


def goes_by_parts(blocks: int, engine: Engine) -> bool:
    """Return whether so many blocks are worth a task, and somebody is there to share them."""
    return engine.workers > 1 and blocks >= FEWEST_BLOCKS


def cut(parent: NDArray[np.int64], parts: int) -> tuple[Sequence[NDArray[np.int64]], NDArray[np.int64]]:
    """Cut a forest into parts of about the same size.

    Returns:
        For each part that has any, int64[k]: its blocks, ascending; and int64[s]: the blocks above all of them.
    """
    blocks = parent.shape[0]
    size, top = np.ones(blocks, np.int64), np.empty(blocks, np.int64)
    walked = read_only(parent, np.int64)
    subtree_blocks(walked, size)
    cut_subtrees(walked, size, max(blocks // (PIECES_A_PART * parts), 1), top)
    first = np.flatnonzero(top == np.arange(blocks))
    largest = first[np.argsort(-size[first], kind="stable")]
    # There and back: the largest of every round goes where the smallest of the round before went.
    turn = np.concatenate([np.arange(parts), np.arange(parts)[::-1]])
    of_top = np.full(blocks, -1, np.int64)
    of_top[largest] = turn[np.arange(largest.size) % turn.size]
    found = np.where(top >= 0, of_top[top], parts)
    order = np.argsort(found, kind="stable")
    ends = np.searchsorted(found[order], np.arange(parts + 1), side="right")
    pieces = np.split(order, ends[:-1])
    return [piece for piece in pieces[:-1] if piece.size], pieces[-1]


def _part(
    forest: SourceForest, node: NDArray[np.int64], root_key: NDArray[np.uint64], keys: NDArray[np.uint64]
) -> Part:
    """Take some blocks out; those above them that are not among them have their keys already."""
    above = forest.parent[node]
    place = np.full(forest.parent.shape[0], -1, np.int64)
    place[node] = np.arange(node.size)
    inside = (above >= 0) & (place[np.maximum(above, 0)] >= 0)
    outer, number = np.unique(above[~inside], return_inverse=True)
    parent = np.empty(node.size, np.int64)
    parent[inside] = place[above[inside]]
    parent[~inside] = -1 - number
    # Sorted, the namespaces come first, and their numbers fall.
    spaces = outer[outer < 0]
    roots = np.concatenate([root_key[-1 - spaces], keys[outer[outer >= 0]]])
    return Part(node, parent, forest.label_hi[node], forest.label_lo[node], roots)


def _keys(_shared: None, part: Part) -> NDArray[np.uint64]:
    return chain_keys(part.parent, part.label_hi, part.label_lo, part.root_key)
