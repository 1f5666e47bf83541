"""Cuts prompts given as text into blocks, each distinct beginning of a prompt once, and grows the forest by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from prefixledger.ingest.forest_kernel import roots_of, sums_down
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.blake2b_kernel import token_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.text.store import TextStore
    from prefixledger.kernels.path_forest import PathForest

BATCH_BYTES: Final = 16 << 20
"""Text that is cut at a time."""
_WORD: Final = 4


class Cutter(Protocol):
    """Turns units into bytes, some of which make a block: text itself, or token ids of 4 bytes each."""

    def block_bytes(self, namespace: int) -> int:
        """Return how many bytes make a block in a namespace."""

    def tokens(self, namespace: NDArray[np.int64], n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many tokens so many bytes of a prompt stand for, rounded down."""

    def pieces(self, units: Sequence[int]) -> list[bytes]:
        """Return the bytes of units."""


@dataclass(frozen=True, slots=True)
class UnitKeys:
    """Where each beginning of a prompt ends in the forest of blocks.

    Attributes:
        node: int64[units of the forest of units], last full block, -1 where there is none.
        n_blocks: int64[…], full blocks.
        tokens: int64[…], tokens from the start of the prompt, partial block included.
        root: int64[…], namespace.
    """

    node: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    tokens: NDArray[np.int64]
    root: NDArray[np.int64]


def add_blocks(store: TextStore, cutter: Cutter, forest: PathForest) -> UnitKeys:
    """Grow a forest by the blocks of all prompts of a store.

    Prompts are walked level by level, first units first, so that what is held at a time is the text of one batch and one
    unfinished block for each prompt that goes on. Where a block ends depends on the bytes before it alone.

    Args:
        store: The prompts.
        cutter: How they are cut.
        forest: Grown; a namespace has the same number in it as in ``store.unit_forest``.
    """
    parent = read_only(store.unit_forest.parent, np.int64)
    unit = store.unit_forest.label_lo.astype(np.int64)
    root = roots_of(parent)
    depth = sums_down(parent, np.ones_like(parent))
    node, n_blocks = np.empty_like(parent), np.zeros_like(parent)
    n_bytes = np.zeros_like(parent)
    tails: dict[int, bytes] = {}
    level = 0
    kept: dict[int, bytes] = {}
    goes_on = np.zeros(parent.size, np.bool_)
    goes_on[parent[parent >= 0]] = True
    for nodes in _batches(depth, store.unit_lengths()[unit]):
        if depth[nodes[0]] != level:
            level, tails, kept = int(depth[nodes[0]]), kept, {}
        above = parent[nodes]
        inner = above >= 0
        start = np.where(inner, node[np.maximum(above, 0)], -1 - root[nodes])
        pieces = cutter.pieces(unit[nodes].tolist())
        blocks = [b""] * nodes.size
        widths = [cutter.block_bytes(number) for number in root[nodes].tolist()]
        for at, (own, up, piece, width) in enumerate(
            zip(nodes.tolist(), above.tolist(), pieces, widths, strict=True)
        ):
            whole = tails.get(up, b"") + piece
            full = len(whole) // width * width
            blocks[at] = whole[:full]
            if goes_on[own] and full < len(whole):
                kept[own] = whole[full:]
        counts, high, low = _labels(blocks, np.array(widths, np.int64))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        last = forest.extend(start, offsets, high, low)
        node[nodes] = np.where(last >= 0, last, start)
        base = np.where(inner, above, 0)
        n_blocks[nodes] = np.where(inner, n_blocks[base], 0) + counts
        n_bytes[nodes] = np.where(inner, n_bytes[base], 0) + np.array(
            [len(piece) for piece in pieces], np.int64
        )
    return UnitKeys(np.maximum(node, -1), n_blocks, cutter.tokens(root, n_bytes), root)


def _batches(depth: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield nodes by depth, then by number, those of one depth and of some 16 MB of text at a time."""
    order = np.argsort(depth, kind="stable")
    ends = np.flatnonzero(np.diff(depth[order], append=np.iinfo(np.int64).max)) + 1
    start = 0
    for end in ends.tolist():
        passed = np.cumsum(lengths[order[start:end]]) // BATCH_BYTES
        cuts = np.flatnonzero(np.diff(passed)) + 1
        yield from np.split(order[start:end], cuts)
        start = end


def _labels(
    blocks: Sequence[bytes], widths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the number of blocks of each piece, and the labels of all of them: BLAKE2b-128 of their bytes.

    A block of text is padded to whole words; all blocks of a namespace have one size, so no two become equal.
    """
    counts = np.array([len(block) for block in blocks], np.int64) // widths
    high, low = np.empty(int(counts.sum()), np.uint64), np.empty(int(counts.sum()), np.uint64)
    owner = np.repeat(widths, counts)
    for width in np.unique(widths).tolist():
        chosen = [block for block, own in zip(blocks, widths.tolist(), strict=True) if own == width]
        data = np.frombuffer(b"".join(chosen), np.uint8).reshape(-1, width)
        words = -(-width // _WORD)
        if words * _WORD != width:
            data = np.pad(data, ((0, 0), (0, words * _WORD - width)))
        tokens = np.ascontiguousarray(data).reshape(-1).view("<u4").astype(np.uint32, copy=False)
        at = owner == width
        high[at], low[at], _ = token_labels(tokens, np.array([0, tokens.size], np.int64), words)
    return counts, high, low
