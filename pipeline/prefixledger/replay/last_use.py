"""When the blocks that left a cache were used last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.last_use_kernel import last_uses
from prefixledger.replay.lookups import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.keys_gone import KeysGone
    from prefixledger.replay.touches import Touches


def last_used_us(gone: KeysGone, touches: Touches) -> NDArray[np.int64]:
    """Return int64[k]: admission of the lookup that used the deepest block of each removal last; ``NO_TIME`` for none.

    Blocks above it in the same removal may have been used later.

    Args:
        gone: What left the cache.
        touches: The same pool.
    """
    log = touches.log
    at_us = log.admitted_us[touches.order]
    before = np.zeros(gone.chain.size, np.int64)
    for number in range(log.replicas):
        start, end = touches.replica_start[number], touches.replica_start[number + 1]
        mine = gone.replica == number
        times, expired = gone.at_us[mine], gone.lookup[mine] < 0
        # What expires was valid at its last moment; what is evicted had no use at that moment but before its evictor.
        after = np.searchsorted(at_us[start:end], times, side="right")
        not_after = np.searchsorted(at_us[start:end], times, side="left")
        before[mine] = start + np.where(expired, after, not_after)
    known = gone.lookup >= 0
    before[known] = np.maximum(before[known], touches.slot_of[gone.lookup[known]])
    found = np.empty(gone.chain.size, np.int64)
    last_uses(
        read_only(touches.pair_start, np.int32),
        read_only(touches.pair_replica, np.int32),
        *uses_of_pairs(touches),
        read_only(gone.chain, np.int64),
        read_only(gone.replica, np.int64),
        read_only(gone.end - 1, np.int64),
        before,
        found,
    )
    return np.where(found < 0, NO_TIME, at_us[found])


def uses_of_pairs(touches: Touches) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return the uses of each (chain, replica) pair, by slot.

    Returns:
        int64[pairs + 1], where those of each pair begin; int32[e], their slots, ascending within a pair; int32[e], blocks
        of the chain that each uses, from its first.
    """
    log = touches.log
    lookup = np.repeat(np.arange(len(log)), np.diff(log.paths.offset))
    chain = log.paths.chain
    reach = np.minimum(
        log.chains.chain_length[chain], touches.touched_blocks[lookup] - log.chains.chain_depth[chain]
    )
    slot = touches.slot_of[lookup]
    order = np.lexsort((slot, touches.entry_pair))
    pairs = np.arange(touches.pair_replica.size + 1)
    offset = np.searchsorted(touches.entry_pair[order], pairs)
    return (
        read_only(offset, np.int64),
        read_only(slot[order], np.int32),
        read_only(np.maximum(reach, 0)[order], np.int32),
    )
