"""From a place in a chain back to the number of the block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.evidence_kernel import list_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains


@dataclass(frozen=True, slots=True)
class BlockNumbers:
    """The blocks of every chain, one chain after the other.

    Attributes:
        start: int64[c], where each chain begins in ``block``.
        block: int32[n], block numbers.
    """

    start: NDArray[np.int64]
    block: NDArray[np.int32]

    def at(self, chain: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[k], the block at each position (from 0) of a chain."""
        return np.asarray(self.block[self.start[chain] + position], np.int64)


def number_blocks(chains: Chains) -> BlockNumbers:
    """List the blocks of all chains; O(blocks)."""
    start = np.cumsum(chains.chain_length, dtype=np.int64) - chains.chain_length
    block = np.empty(chains.chain.size, np.int32)
    list_blocks(
        read_only(chains.chain, np.int32),
        read_only(chains.position, np.int32),
        read_only(start, np.int64),
        block,
    )
    return BlockNumbers(start, block)


def ancestors(
    chains: Chains, numbers: BlockNumbers, block: NDArray[np.int64], depth: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64[k], the block at a depth on the path down to each block.

    Args:
        chains: The forest, cut into chains.
        numbers: Its blocks.
        block: int64[k].
        depth: int64[k], counted from 1, at most that of the block.
    """
    chain = chains.chain[block].astype(np.int64)
    while (deeper := chains.chain_depth[chain] >= depth).any():
        chain[deeper] = chains.chain_parent[chain[deeper]]
    return numbers.at(chain, depth - chains.chain_depth[chain] - 1)
