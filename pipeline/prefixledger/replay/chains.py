"""Chains of blocks, and the path of each request over them: what every replay kernel walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.chain_kernel import (
    count_children,
    count_path_entries,
    cut_chains,
    fill_path_entries,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Chains:
    """The maximal unary pieces of a forest: a chain ends where a block has no child, or more than one.

    Attributes:
        chain: int32[n], chain of each block; chains are numbered in order of their first block.
        position: int32[n], position of the block in its chain, from 0.
        chain_parent: int32[c], chain above, -1 for a root; always a smaller number.
        chain_depth: int32[c], blocks above the chain.
        chain_length: int32[c], blocks in the chain.
    """

    chain: NDArray[np.int32]
    position: NDArray[np.int32]
    chain_parent: NDArray[np.int32]
    chain_depth: NDArray[np.int32]
    chain_length: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Paths:
    """The chains from the root to the last full block of each request.

    A request covers every chain of its path whole, but the last one only as far as its last block.

    Attributes:
        offset: int64[m + 1], where the chains of each request begin.
        chain: int32[e], the root first; nothing for a request without a full block.
    """

    offset: NDArray[np.int64]
    chain: NDArray[np.int32]


def build_chains(parent: NDArray[np.int64]) -> Chains:
    """Cut a forest into chains.

    Args:
        parent: int64[n], smaller than its own index; -1 for the first block of a prompt.

    Raises:
        InternalError: A parent does not come before its child, or there are 2**31 blocks or more.

    Example:
        >>> build_chains(np.array([-1, 0, 1, 1])).chain
        array([0, 0, 1, 2], dtype=int32)
    """
    parent = read_only(parent, np.int64)
    blocks = parent.shape[0]
    if blocks > _MOST_BLOCKS:
        raise InternalError(f"{blocks} blocks are more than a replay can number")
    if (parent >= np.arange(blocks)).any() or (parent < -1).any():
        raise InternalError("a forest names a parent that does not come before its child")
    children = np.zeros(blocks, np.int32)
    chains = count_children(parent, children)
    made = Chains(
        chain=np.empty(blocks, np.int32),
        position=np.empty(blocks, np.int32),
        chain_parent=np.empty(chains, np.int32),
        chain_depth=np.empty(chains, np.int32),
        chain_length=np.empty(chains, np.int32),
    )
    cut_chains(
        parent, children, made.chain, made.position, made.chain_parent, made.chain_depth, made.chain_length
    )
    return made


def build_paths(chains: Chains, last_block: NDArray[np.int64]) -> Paths:
    """Write down the path of each request.

    Args:
        chains: Chains of the forest.
        last_block: int64[m], last full block of each request, -1 where it has none.

    Raises:
        InternalError: A block lies outside the forest.
    """
    last_block = read_only(last_block, np.int64)
    if (last_block >= chains.chain.shape[0]).any():
        raise InternalError("a request ends in a block that the forest lacks")
    offset = np.empty(last_block.shape[0] + 1, np.int64)
    count_path_entries(chains.chain, chains.chain_parent, last_block, offset)
    entries = np.empty(offset[-1], np.int32)
    fill_path_entries(chains.chain, chains.chain_parent, last_block, offset, entries)
    return Paths(offset, entries)
