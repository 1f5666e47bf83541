"""The textbook replay of one pool: allocates what the kernel needs and hands back what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import textbook_kernel as kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains

FIRST_ROWS = 4096
"""Removals that the kernel has room for at first, beside four a lookup."""

_UNLIMITED_BLOCKS = 1 << 60


@dataclass(frozen=True, slots=True)
class BlockTraffic:
    """The lookups of one pool, in order of arrival.

    Attributes:
        arrival_us: int64[n], not falling within a replica.
        replica: int32[n], index of the replica that is asked.
        full_blocks: int64[n], full blocks of the prompt with a known key: all of them are looked up.
        last_block: int64[n], deepest block of the row's path, -1 for none. Blocks of the path beyond ``full_blocks`` are
            output: they are inserted after the lookup.
        nameless_blocks: int64[n], further full blocks, whose keys are not in the log: they only take room. None: 0.
    """

    arrival_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    full_blocks: NDArray[np.int64]
    last_block: NDArray[np.int64]
    nameless_blocks: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class BlockRemovals:
    """What left a cache, block by block, by replica and time; blocks without a known key are not listed.

    Attributes:
        lookup: int32[k], the row whose blocks took the place; -1 where it expired.
        at_us: int64[k]; of an expired block the last moment at which it was valid.
        replica: int32[k].
        block: int32[k].
        expired: bool[k], false: evicted.
    """

    lookup: NDArray[np.int32]
    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    block: NDArray[np.int32]
    expired: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BlockReplayed:
    """What the cache did.

    Attributes:
        hit_blocks: int32[n].
        first_eviction_us: int64[replicas], -1 where none occurred.
        removals: None unless asked for.
    """

    hit_blocks: NDArray[np.int32]
    first_eviction_us: NDArray[np.int64]
    removals: BlockRemovals | None


def replay_textbook(
    traffic: BlockTraffic,
    parent: NDArray[np.int64],
    chains: Chains,
    *,
    replicas: int,
    capacity_blocks: int | None = None,
    ttl_us: int | None = None,
    reset_at_us: NDArray[np.int64] | None = None,
    reset_replica: NDArray[np.int32] | None = None,
    log_removals: bool = False,
) -> BlockReplayed:
    """Replay one pool under profile ``textbook``, one request at a time.

    Args:
        traffic: The lookups.
        parent: int64[blocks], smaller than its own index; -1 for the first block of a prompt.
        chains: The same forest cut into chains, for the depth of each block.
        replicas: Number of replicas.
        capacity_blocks: Blocks per replica; None: unlimited.
        ttl_us: Longest gap between two uses that still hits; None: none.
        reset_at_us: int64[k], moments at which a replica loses all its blocks, in any order; None: none.
        reset_replica: int32[k].
        log_removals: Whether to list what left the cache.

    Raises:
        InternalError: A replica's lookups are out of order, or a path is shorter than its full blocks.
    """
    n = len(traffic.arrival_us)
    nameless = np.zeros(n, np.int64) if traffic.nameless_blocks is None else traffic.nameless_blocks
    nameless_start = len(parent) + np.concatenate(([0], np.cumsum(nameless, dtype=np.int64)))
    rows = np.argsort(traffic.replica, kind="stable")
    row_start = np.concatenate(([0], np.cumsum(np.bincount(traffic.replica, minlength=replicas))))
    deepest = _check(traffic, chains, replicas, rows, row_start)
    at_us = np.zeros(0, np.int64) if reset_at_us is None else reset_at_us
    of = np.zeros(0, np.int32) if reset_replica is None else reset_replica
    order = np.lexsort((at_us, of))
    inputs = (
        read_only(rows, np.int32),
        read_only(row_start, np.int64),
        read_only(traffic.arrival_us, np.int64),
        read_only(traffic.full_blocks, np.int64),
        read_only(traffic.last_block, np.int64),
        read_only(nameless_start, np.int64),
        read_only(parent, np.int64),
        read_only(np.searchsorted(of[order], np.arange(replicas + 1)), np.int64),
        read_only(at_us[order], np.int64),
        _UNLIMITED_BLOCKS if capacity_blocks is None else int(capacity_blocks),
        -1 if ttl_us is None else int(ttl_us),
        bool(log_removals),
    )
    room = FIRST_ROWS + 4 * n if log_removals else 0
    while True:
        links = np.zeros((int(nameless_start[-1]) + 1, kernel.BLOCK_COLUMNS), np.int32)
        path = np.empty(deepest + 1, np.int32)
        removals = np.empty((room, kernel.REMOVAL_COLUMNS), np.int32)
        removal_at_us = np.empty(room, np.int64)
        out = (np.zeros(n, np.int32), np.full(replicas, -1, np.int64))
        status = kernel.replay_textbook(*inputs, links, path, removals, removal_at_us, *out)
        if status >= 0:
            break
        room *= 4
    return BlockReplayed(*out, _removals(removals[:status], removal_at_us[:status]) if log_removals else None)


def _check(
    traffic: BlockTraffic,
    chains: Chains,
    replicas: int,
    rows: NDArray[np.int64],
    row_start: NDArray[np.int64],
) -> int:
    """Return the depth of the deepest path; refuse what would make the kernel read outside its arrays."""
    if len(row_start) != replicas + 1:
        raise InternalError("a lookup asks a replica that the pool lacks")
    arrival_us = traffic.arrival_us[rows]
    falling = np.flatnonzero(arrival_us[1:] < arrival_us[:-1]) + 1
    if not np.isin(falling, row_start).all():
        raise InternalError("the lookups of a replica are not in order of arrival")
    last = traffic.last_block
    depth = np.zeros(len(last), np.int64)
    if (last >= len(chains.chain)).any():
        raise InternalError("a request ends in a block that the forest lacks")
    some = last >= 0
    chain = chains.chain[last[some]]
    depth[some] = chains.chain_depth[chain] + chains.position[last[some]] + 1
    if (traffic.full_blocks > depth).any():
        raise InternalError("a lookup claims more full blocks than its path has")
    return int(depth.max(initial=0))


def _removals(table: NDArray[np.int32], at_us: NDArray[np.int64]) -> BlockRemovals:
    columns = np.ascontiguousarray(table.T)
    return BlockRemovals(
        lookup=columns[kernel.R_LOOKUP],
        at_us=at_us.copy(),  # the rest of the table is not kept
        replica=columns[kernel.R_REPLICA],
        block=columns[kernel.R_BLOCK],
        expired=columns[kernel.R_EXPIRED].astype(np.bool_),
    )
