"""The replay of one pool on SGLang's classic radix tree: allocates what the kernel needs and hands back what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import sglang_kernel as kernel
from prefixledger.replay import sglang_lists_kernel as lists
from prefixledger.replay import sglang_tree_kernel as tree
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS, reach
from prefixledger.replay.extents import Removals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extents import Resets, Traffic

FIRST_ROWS = 4096
"""Rows that each table of the kernel starts with, beside what the size of the pool asks for."""

_WORD_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class RadixReplayed:
    """What the tree did.

    Attributes:
        hit_blocks: int32[n].
        refused: bool[n], larger than the whole cache.
        first_eviction_us: int64[replicas], -1 where none occurred.
        peak_blocks: int64[replicas], the most blocks that were in the tree and asked for at once; found without a limit, it
            is the smallest capacity that evicts nothing.
        removals: None unless asked for.
    """

    hit_blocks: NDArray[np.int32]
    refused: NDArray[np.bool_]
    first_eviction_us: NDArray[np.int64]
    peak_blocks: NDArray[np.int64]
    removals: Removals | None


class _Inputs(NamedTuple):
    """What the kernel reads, in the order of its arguments."""

    rows: NDArray[np.int32]
    row_start: NDArray[np.int64]
    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    reach_blocks: NDArray[np.int64]
    path_offset: NDArray[np.int64]
    path_chain: NDArray[np.int32]
    chain_parent: NDArray[np.int32]
    chain_length: NDArray[np.int32]
    chain_word: NDArray[np.int64]
    reset_start: NDArray[np.int64]
    reset_at_us: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RadixPool:
    """The lookups of one pool, checked and laid out; one capacity after the other can be replayed on it.

    Attributes:
        inputs: What the kernel reads.
        block_size: Tokens per block, and per page of the tree.
        replicas: Number of replicas.
        words: Words of the table that says where nodes begin.
    """

    inputs: _Inputs
    block_size: int
    replicas: int
    words: int

    def replay(
        self, *, capacity_blocks: int | None = None, ttl_us: int | None = None, log_removals: bool = False
    ) -> RadixReplayed:
        """Replay under profile ``sglang``, one request at a time.

        Args:
            capacity_blocks: Usable blocks per replica; None: unlimited.
            ttl_us: Longest gap between two uses that still hits; None: none.
            log_removals: Whether to list what left the tree.
        """
        n, chains = len(self.inputs.arrival_us), len(self.inputs.chain_length)
        room = {
            tree.EXTENTS_FULL: FIRST_ROWS + 2 * chains,
            tree.REMOVALS_FULL: FIRST_ROWS + 4 * n if log_removals else 0,
        }
        while True:
            removals = np.empty((room[tree.REMOVALS_FULL], tree.REMOVAL_COLUMNS), np.int32)
            removal_at_us = np.empty(len(removals), np.int64)
            out = (
                np.zeros(n, np.int32),
                np.zeros(n, np.bool_),
                np.full(self.replicas, -1, np.int64),
                np.zeros(self.replicas, np.int64),
            )
            status = kernel.replay_radix(
                *self.inputs,
                self.block_size,
                UNLIMITED_BLOCKS if capacity_blocks is None else int(capacity_blocks),
                -1 if ttl_us is None else int(ttl_us),
                bool(log_removals),
                np.zeros((chains, lists.CHAIN_COLUMNS), np.int32),
                np.empty((room[tree.EXTENTS_FULL], lists.EXTENT_COLUMNS), np.int32),
                np.empty(self.words, np.uint32),
                np.zeros(n, np.int32),
                np.empty(tree.POOL_ENTRIES, np.int64),
                removals,
                removal_at_us,
                *out,
            )
            if status >= 0:
                break
            room[status] *= 4
        listed = list_removals(removals[:status], removal_at_us[:status]) if log_removals else None
        return RadixReplayed(*out, removals=listed)


def radix_pool(
    traffic: Traffic, chains: Chains, *, block_size: int, replicas: int, resets: Resets | None = None
) -> RadixPool:
    """Lay out the lookups of one pool.

    Args:
        traffic: The lookups, in order of arrival; residences are not looked at, every path ends with its keyed blocks.
        chains: The forest, cut into chains.
        block_size: Tokens per block, and per page of the tree.
        replicas: Number of replicas.
        resets: None: none. All of them take effect: nothing is running when they come.

    Raises:
        InternalError: A replica's lookups are out of order, or a path is shorter than its keyed blocks.
    """
    rows = np.argsort(traffic.replica, kind="stable")
    row_start = np.concatenate(([0], np.cumsum(np.bincount(traffic.replica, minlength=replicas))))
    reset_at_us = np.zeros(0, np.int64) if resets is None else resets.at_us
    reset_of = np.zeros(0, np.int32) if resets is None else resets.replica
    order = np.lexsort((reset_at_us, reset_of))
    words = -(-chains.chain_length.astype(np.int64) // _WORD_BLOCKS)
    inputs = _Inputs(
        rows=read_only(rows, np.int32),
        row_start=read_only(row_start, np.int64),
        arrival_us=read_only(traffic.arrival_us, np.int64),
        prompt_tokens=read_only(traffic.prompt_tokens, np.int64),
        keyed_blocks=read_only(traffic.keyed_blocks, np.int64),
        reach_blocks=reach(traffic),
        path_offset=read_only(traffic.path_offset, np.int64),
        path_chain=read_only(traffic.path_chain, np.int32),
        chain_parent=read_only(chains.chain_parent, np.int32),
        chain_length=read_only(chains.chain_length, np.int32),
        chain_word=read_only(np.cumsum(words) - words, np.int64),
        reset_start=read_only(np.searchsorted(reset_of[order], np.arange(replicas + 1)), np.int64),
        reset_at_us=read_only(reset_at_us[order], np.int64),
    )
    _check(inputs, block_size, replicas)
    return RadixPool(inputs, int(block_size), replicas, int(words.sum()))


def _check(inputs: _Inputs, block_size: int, replicas: int) -> None:
    """Refuse what would make the kernel read outside its arrays or run back in time: it checks nothing."""
    if len(inputs.row_start) != replicas + 1:
        raise InternalError("a lookup asks a replica that the pool lacks")
    arrival_us = inputs.arrival_us[inputs.rows]
    falling = np.flatnonzero(arrival_us[1:] < arrival_us[:-1]) + 1
    if not np.isin(falling, inputs.row_start).all():
        raise InternalError("the lookups of a replica are not in order of arrival")
    covered = np.concatenate(([0], np.cumsum(inputs.chain_length[inputs.path_chain], dtype=np.int64)))
    deepest = covered[inputs.path_offset[1:]] - covered[inputs.path_offset[:-1]]
    if (inputs.keyed_blocks > np.minimum(inputs.prompt_tokens // block_size, deepest)).any():
        raise InternalError("a lookup claims more keyed blocks than its tokens or its path have")


def list_removals(table: NDArray[np.int32], at_us: NDArray[np.int64]) -> Removals:
    """Bring a table of the kernels into the shape of all profiles."""
    columns = np.ascontiguousarray(table.T)
    return Removals(
        lookup=columns[tree.R_LOOKUP],
        at_us=at_us.copy(),  # the rest of the table is not kept
        replica=columns[tree.R_REPLICA],
        chain=columns[tree.R_CHAIN],
        lo=columns[tree.R_LO],
        hi=columns[tree.R_HI],
        resident=columns[tree.R_LO],  # a tree holds no second copy that could step in
        expired=columns[tree.R_EXPIRED].astype(np.bool_),
        after=columns[tree.R_AFTER],
        admits=columns[tree.R_ADMITS].astype(np.bool_),
    )
