"""The prefixes that prompts share, as the two tables that prefix ownership is read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.shared_kernel import cut_pieces, find_shared

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Shared blocks, and every prompt cut behind them.

    Attributes:
        node: int64[s], block numbers, ascending.
        parent_node: int64[s], the nearest shared block above, -1 if there is none.
        depth_blocks: int64[s], blocks from the start of the prompt to the end of the node.
        piece_lookup: int64[p], position of the lookup in the order that was given.
        piece_node: int64[p], shared block that ends the piece, -1 behind the last one.
        piece_first_block: int64[p], 0-based position in the prompt.
        piece_n_blocks: int64[p], at least 1; the pieces of a lookup cover its full blocks once.
    """

    node: NDArray[np.int64]
    parent_node: NDArray[np.int64]
    depth_blocks: NDArray[np.int64]
    piece_lookup: NDArray[np.int64]
    piece_node: NDArray[np.int64]
    piece_first_block: NDArray[np.int64]
    piece_n_blocks: NDArray[np.int64]


def shared_nodes(parent: NDArray[np.int64], last_block: NDArray[np.int64]) -> SharedNodes:
    """Find what the lookups share; a block counts only if a lookup uses it.

    Args:
        parent: int64[n], parent of each block, -1 for the first block of a prompt; ``parent[b] < b``.
        last_block: int64[m], last full block of each lookup, -1 below one block.
    """
    above, ends = read_only(parent, np.int64), read_only(last_block, np.int64)
    owner, depth = find_shared(above, ends)
    lookup, piece_node, first, length = cut_pieces(above, owner, depth, ends)
    node = np.flatnonzero(owner == np.arange(owner.size))
    parent_node = np.where(above[node] >= 0, owner[above[node]], -1)
    return SharedNodes(
        node=node,
        parent_node=parent_node,
        depth_blocks=depth[node].astype(np.int64),
        piece_lookup=lookup,
        piece_node=piece_node,
        piece_first_block=first,
        piece_n_blocks=length,
    )
