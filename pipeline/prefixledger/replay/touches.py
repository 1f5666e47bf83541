"""The lookups of one pool, cut where the earlier lookup that used a block last changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.touch_kernel import GHOSTS_FULL, PIECES_FULL, last_touches, pair_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains, Paths

    _Found = tuple[
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int32],
        NDArray[np.int32],
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int32],
    ]

_SPARE_ROWS = 1024


@dataclass(frozen=True, slots=True)
class PoolLog:
    """The lookups of one pool in order of admission, which numbers them from 0.

    Attributes:
        chains: The forest, cut into chains.
        paths: Path of each lookup, down to the last block that it touches.
        block_size: Tokens per block.
        replicas: Number of replicas.
        admitted_us: int64[m], never falling.
        replica: int32[m], index of the replica that is asked.
        prompt_tokens: int64[m].
        keyed_blocks: int64[m], full blocks of the prompt with a known key, from the head.
        cap_blocks: int64[m], blocks that may hit under the profile, at most ``keyed_blocks``.
        refused: bool[m]: touches nothing, changes nothing, has no segment.
        touched_blocks: int64[m], ``keyed_blocks`` plus the blocks of output that are cached under a known key; None:
            no output is cached.
        bypassed: bool[m], skips the lookup, so that nothing of it may hit, and all of it is computed; None: none does.
        unhashed_in_line: Whether a freed partial tail waits behind all other free slots, see ``extents.replay_extents``.
    """

    chains: Chains
    paths: Paths
    block_size: int
    replicas: int
    admitted_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    prompt_tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    cap_blocks: NDArray[np.int64]
    refused: NDArray[np.bool_]
    touched_blocks: NDArray[np.int64] | None = None
    unhashed_in_line: bool = False
    bypassed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.admitted_us.size


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Moments at which a replica lost all it held, its end included; admissions at the same moment come after it.

    Attributes:
        at_us: int64[k], never falling.
        replica: int32[k].
        event: int64[k], number of the event.
    """

    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    event: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Touches:
    """Who used every block last, by *slot*: the lookups grouped by replica, each group in order of admission.

    Attributes:
        log: What it was made from.
        resets: What it was made from.
        order: int32[m], lookup of each slot.
        slot_of: int32[m], slot of each lookup.
        replica_start: int64[replicas + 1], first slot of each replica.
        epoch_start: int32[m], first slot of the replica with no reset between it and this slot.
        touched_blocks: int32[m], by lookup; 0 where it was refused.
        pair_start: int32[c + 1], the (chain, replica) pairs of each chain.
        pair_replica: int32[pairs], ascending within a chain.
        entry_pair: int32[e], pair of each path entry, -1 where the lookup was refused.
        piece_offset: int64[m + 1], by slot.
        piece_end: int32[p], position in the prompt after the piece's last block.
        piece_previous: int32[p], slot that used the piece last on this replica, -1 if none did; falls along a lookup.
        stays: int32[m], by slot: slot whose copy of the block that is computed anew stays in the cache, -1 if none.
        ghost_offset: int64[m + 1], by slot.
        ghost_older: int32[g], see ``touch_kernel.last_touches``.
        ghost_younger: int32[g].
    """

    log: PoolLog
    resets: ResetLog
    order: NDArray[np.int32]
    slot_of: NDArray[np.int32]
    replica_start: NDArray[np.int64]
    epoch_start: NDArray[np.int32]
    touched_blocks: NDArray[np.int32]
    pair_start: NDArray[np.int32]
    pair_replica: NDArray[np.int32]
    entry_pair: NDArray[np.int32]
    piece_offset: NDArray[np.int64]
    piece_end: NDArray[np.int32]
    piece_previous: NDArray[np.int32]
    stays: NDArray[np.int32]
    ghost_offset: NDArray[np.int64]
    ghost_older: NDArray[np.int32]
    ghost_younger: NDArray[np.int32]


def vllm_cap_blocks(
    prompt_tokens: NDArray[np.int64], keyed_blocks: NDArray[np.int64], block_size: int
) -> NDArray[np.int64]:
    """Return how many blocks of each prompt may hit: the last token is always computed."""
    cap: NDArray[np.int64] = np.minimum(np.maximum(prompt_tokens - 1, 0) // block_size, keyed_blocks)
    return cap


def find_touches(log: PoolLog, resets: ResetLog | None = None) -> Touches:
    """Decompose every lookup of a pool.

    Args:
        log: The lookups.
        resets: None: none.

    Raises:
        InternalError: Lookups or resets are not in order, or a path is shorter than what it touches.
    """
    if resets is None:
        resets = ResetLog(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
    _check(log, resets)
    order = np.argsort(log.replica, kind="stable").astype(np.int32)
    slot_of = np.empty_like(order)
    slot_of[order] = np.arange(order.size, dtype=np.int32)
    replica_start = np.searchsorted(log.replica[order], np.arange(log.replicas + 1)).astype(np.int64)
    epoch_start = _epochs(log, resets, order, replica_start)
    touched = log.keyed_blocks if log.touched_blocks is None else log.touched_blocks
    touched_blocks = np.where(log.refused, 0, touched).astype(np.int32)
    pair_start, pair_replica, entry_pair = _pairs(log, order)
    return Touches(
        log,
        resets,
        order,
        slot_of,
        replica_start,
        epoch_start,
        touched_blocks,
        pair_start,
        pair_replica,
        entry_pair,
        *_decompose(log, order, epoch_start, touched_blocks, entry_pair, pair_replica.size),
    )


def _pairs(
    log: PoolLog, order: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    entries, chains = log.paths.chain.size, log.chains.chain_length.size
    pair_start = np.empty(chains + 1, np.int32)
    pair_replica, entry_pair = (np.empty(entries, np.int32) for _ in range(2))
    pairs = pair_entries(
        read_only(order, np.int32),
        read_only(log.replica, np.int32),
        read_only(log.refused, np.bool_),
        read_only(log.paths.offset, np.int64),
        read_only(log.paths.chain, np.int32),
        np.empty(chains, np.int32),
        pair_start,
        pair_replica,
        entry_pair,
    )
    return pair_start, pair_replica[:pairs].copy(), entry_pair


def _decompose(
    log: PoolLog,
    order: NDArray[np.int32],
    epoch_start: NDArray[np.int32],
    touched_blocks: NDArray[np.int32],
    entry_pair: NDArray[np.int32],
    pairs: int,
) -> _Found:
    """Run the kernel with more and more room for its output."""
    m = len(log)
    anew = int(np.count_nonzero((log.cap_blocks < log.keyed_blocks) & ~log.refused))
    given = (
        read_only(order, np.int32),
        read_only(epoch_start, np.int32),
        read_only(touched_blocks, np.int32),
        read_only(log.keyed_blocks, np.int32),
        read_only(log.cap_blocks, np.int32),
        read_only(log.paths.offset, np.int64),
        read_only(log.paths.chain, np.int32),
        read_only(log.chains.chain_depth, np.int32),
        read_only(log.chains.chain_length, np.int32),
        read_only(entry_pair, np.int32),
    )
    rows = {PIECES_FULL: 2 * m + _SPARE_ROWS, GHOSTS_FULL: anew}
    while True:
        piece_offset, ghost_offset = (np.empty(m + 1, np.int64) for _ in range(2))
        piece_end, piece_previous = (np.empty(rows[PIECES_FULL], np.int32) for _ in range(2))
        ghost_older, ghost_younger = (np.empty(rows[GHOSTS_FULL], np.int32) for _ in range(2))
        stays = np.empty(m, np.int32)
        status = last_touches(
            *given,
            np.full(pairs, -1, np.int32),
            np.full(pairs, -1, np.int32),
            np.empty((log.paths.chain.size + 1, 3), np.int32),
            np.empty((anew, 4), np.int32),
            np.empty((anew, 2), np.int32),
            piece_offset,
            piece_end,
            piece_previous,
            stays,
            ghost_offset,
            ghost_older,
            ghost_younger,
        )
        if status >= 0:
            break
        rows[status] *= 4
    ghosts = ghost_offset[-1]
    return (
        piece_offset,
        piece_end[:status],
        piece_previous[:status],
        stays,
        ghost_offset,
        ghost_older[:ghosts],
        ghost_younger[:ghosts],
    )


def _epochs(
    log: PoolLog, resets: ResetLog, order: NDArray[np.int32], replica_start: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Find the first slot of each slot's epoch."""
    epoch_start = np.empty(order.size, np.int32)
    for replica in range(log.replicas):
        begin, end = replica_start[replica], replica_start[replica + 1]
        at_us = resets.at_us[resets.replica == replica]
        epoch = np.searchsorted(at_us, log.admitted_us[order[begin:end]], side="right")
        epoch_start[begin:end] = begin + np.searchsorted(epoch, epoch, side="left")
    return epoch_start


def _check(log: PoolLog, resets: ResetLog) -> None:
    if (np.diff(log.admitted_us) < 0).any():
        raise InternalError("lookups are not in order of admission")
    if (np.diff(resets.at_us) < 0).any():
        raise InternalError("resets are not in order of time")
    touched = log.keyed_blocks if log.touched_blocks is None else log.touched_blocks
    offset, chain = log.paths.offset, log.paths.chain
    covered = np.zeros(len(log), np.int64)
    walks = offset[1:] > offset[:-1]
    last = chain[offset[1:][walks] - 1]
    covered[walks] = log.chains.chain_depth[last] + log.chains.chain_length[last]
    if (
        (touched > covered).any()
        or (log.keyed_blocks > touched).any()
        or (log.cap_blocks > log.keyed_blocks).any()
    ):
        raise InternalError("a lookup touches blocks that its path lacks, or may hit more than it asks for")
