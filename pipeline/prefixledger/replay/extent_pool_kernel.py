"""What a replica is at between two calls of the extents kernel, and what its cache holds of a prompt at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel, part
from prefixledger.replay.extent_lists_kernel import LENGTH, STAMP, empty_tables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Entries of `pool`: the replica, its free slots, those of them that hold nothing, entries of its heap, removals listed,
# the row that was admitted last, whether a row is being admitted, again or not.
REPLICA, FREE, BLANK, HEAP, REMOVED, ADMITTED, ADMITS = range(7)
# And what the kernel goes on from: the row that was preempted last (-1: none waits), where in the queue the next rows to
# admit and to expire stand, the next reset, running requests, admissions so far, whether who comes next waits for room,
# the present moment, and the present epoch, 0 before the first call.
PAUSED, HEAD, EXPIRED, RESET, RUNNING, TURNS, BLOCKED, NOW, AGE = range(7, 16)
POOL_ENTRIES = 16
_NEVER = 1 << 62


@part
def open_pool(
    extents: NDArray[np.int32],
    cells: NDArray[np.int32],
    pool: NDArray[np.int64],
    replica: int,
    capacity: int,
    row_start: NDArray[np.int64],
    reset_start: NDArray[np.int64],
    age: int,
) -> None:
    """Begin with an empty cache. O(1)."""
    empty_tables(extents, cells)
    pool[REPLICA] = replica
    pool[FREE] = pool[BLANK] = capacity
    pool[ADMITTED] = pool[PAUSED] = -1
    pool[HEAD] = pool[EXPIRED] = row_start[replica]
    pool[RESET] = reset_start[replica]
    pool[HEAP] = pool[RUNNING] = pool[TURNS] = pool[BLOCKED] = 0
    pool[NOW] = -_NEVER
    pool[AGE] = age


@kernel
def count_resident(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    all_chains: NDArray[np.int32],
    pools: NDArray[np.int64],
    row: int,
    limit: int,
    resident: NDArray[np.int64],
) -> None:
    """Count how many blocks at the head of a row's path each replica holds now, running requests' blocks included.

    Args:
        path_offset: int64[n + 1], row i walks ``path_chain[path_offset[i]:path_offset[i + 1]]``, root first.
        path_chain: int32[entries].
        chain_length: int32[chains], blocks of each chain.
        all_chains: int32[replicas, chains, 8], as the extents kernel left them.
        pools: int64[replicas, 16], the same.
        row: Whose path.
        limit: Blocks that are asked for.
        resident: int64[replicas], out. O(replicas x path entries).
    """
    for replica in range(pools.shape[0]):
        rest = limit
        entry = path_offset[row]
        while rest > 0:
            c = path_chain[entry]
            if all_chains[replica, c, STAMP] != pools[replica, AGE]:
                break
            count = min(all_chains[replica, c, LENGTH], rest)
            rest -= count
            if count < chain_length[c]:
                break
            entry += 1
        resident[replica] = limit - rest
