"""The most that any policy could hit at a capacity: a bound that tells bad eviction from too little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.clairvoyant_kernel import keep_for_next_use
from prefixledger.replay.curves import reusable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prefixledger.replay.touches import Touches


def clairvoyant_hits(
    touches: Touches, capacity_blocks: Iterable[int], *, ttl_us: int | None = None
) -> NDArray[np.int64]:
    """Return int64[k]: the hit blocks of a pool at each capacity, if the next use of every block were known.

    One request at a time. Only full blocks take room: no partial tail, no second copy, so no engine hits more. A block that
    is computed anew at its next use anyway (the last of an aligned prompt, what expires, what a reset takes) is not kept
    for it.

    Args:
        touches: The pool.
        capacity_blocks: Blocks per replica; at each every prompt that is not refused must fit.
        ttl_us: Also let blocks expire so long after their last use.
    """
    log = touches.log
    slots = len(log)
    slot, previous, begin, end = reusable(touches, ttl_us=ttl_us)
    nameless = (log.prompt_tokens // log.block_size - log.keyed_blocks)[touches.order]
    room = np.where(log.refused[touches.order], 0, touches.touched_blocks[touches.order] + nameless)
    by_last_use = np.argsort(previous, kind="stable")
    given = (
        read_only(np.searchsorted(slot, np.arange(slots + 1)), np.int64),
        read_only(end - begin, np.int32),
        read_only(np.searchsorted(previous[by_last_use], np.arange(slots + 1)), np.int64),
        read_only(by_last_use, np.int32),
    )
    found = []
    heap = np.empty(slot.size, np.int32)
    for capacity in capacity_blocks:
        kept = np.zeros(slot.size, np.int32)
        keep_for_next_use(
            read_only(touches.replica_start, np.int64),
            read_only(room, np.int32),
            int(capacity),
            *given,
            heap,
            kept,
        )
        found.append(int(kept.sum(dtype=np.int64)))
    return np.asarray(found, np.int64)
