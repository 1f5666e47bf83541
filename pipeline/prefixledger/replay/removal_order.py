"""Removals of all replicas, in the order in which a pass over the lookups meets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.keys_gone import KeysGone
    from prefixledger.replay.touches import PoolLog, Touches


@dataclass(frozen=True, slots=True)
class RemovalLog:
    """What physically left the caches, in order of time on each replica.

    Attributes:
        lookup: int64[k], number in the pool of the lookup that took the room, -1 where blocks expired.
        at_us: int64[k]; of expired blocks the last moment at which they were valid.
        replica: int32[k].
        chain: int32[k].
        resident: int32[k], blocks of the chain that are resident after it, from its head.
        expired: bool[k].
        after: int64[k], the lookup that was admitted last before it on this replica, -1 for none; None: not known.
        admits: bool[k], whether an admission took the room, be it again after a preemption; None: not known.
    """

    lookup: NDArray[np.int64]
    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    chain: NDArray[np.int32]
    resident: NDArray[np.int32]
    expired: NDArray[np.bool_]
    after: NDArray[np.int64] | None = None
    admits: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class OrderedRemovals:
    """Removals as ``evidence_kernel.collect_segments`` takes them.

    Attributes:
        before: int64[k], never falling: the first lookup that is not admitted before the removal.
        own: bool[k]: that lookup's own admission took the room.
        at_us: int64[k].
        pair: int32[k], the (chain, replica) pair of ``Touches``, -1 where it was never touched.
        resident: int32[k].
        lookup: int64[k].
    """

    before: NDArray[np.int64]
    own: NDArray[np.bool_]
    at_us: NDArray[np.int64]
    pair: NDArray[np.int32]
    resident: NDArray[np.int32]
    lookup: NDArray[np.int64]


def order_removals(removals: RemovalLog | None, touches: Touches) -> OrderedRemovals:
    """Merge the replicas: what an admission removes comes with it, all else before the next admission anywhere.

    Args:
        removals: None: nothing ever left but through a reset.
        touches: The pool.
    """
    if removals is None:
        long, short = np.empty(0, np.int64), np.empty(0, np.int32)
        return OrderedRemovals(long, np.empty(0, np.bool_), long, short, short, long)
    before, own = place_removals(removals, touches.log)
    order = np.lexsort((removals.at_us, own, before))
    return OrderedRemovals(
        before=before[order],
        own=own[order],
        at_us=removals.at_us[order],
        pair=_pairs(touches, removals.chain[order], removals.replica[order]),
        resident=removals.resident[order],
        lookup=removals.lookup[order],
    )


def place_removals(
    removals: RemovalLog | KeysGone, log: PoolLog
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Place removals among admissions.

    Args:
        removals: In order of time on each replica.
        log: The lookups, in order of admission.

    Returns:
        int64[k], the first lookup that is not admitted before each; bool[k], whether its own admission took the room.
    """
    before = np.where(
        removals.expired,  # valid at that moment, gone after it
        np.searchsorted(log.admitted_us, removals.at_us, side="right"),
        np.searchsorted(log.admitted_us, removals.at_us, side="left"),
    ).astype(np.int64)
    own = ~removals.expired
    own[own] = removals.at_us[own] == log.admitted_us[removals.lookup[own]]
    if removals.after is not None:
        own &= removals.after == removals.lookup
        before = np.maximum(before, removals.after + 1)
    if removals.admits is not None:
        own &= removals.admits
    # A lookup may take more room at the very moment of its admission, but not before it.
    before = np.where(removals.expired, before, np.maximum(before, removals.lookup + 1))
    before[own] = removals.lookup[own]
    for replica in range(log.replicas):  # growth at the moment of an admission may come after it
        rows = np.flatnonzero(removals.replica == replica)
        before[rows] = np.maximum.accumulate(before[rows])
    own &= before == removals.lookup
    return before, own


def _pairs(touches: Touches, chain: NDArray[np.int32], replica: NDArray[np.int32]) -> NDArray[np.int32]:
    chain_of = np.repeat(np.arange(touches.pair_start.size - 1), np.diff(touches.pair_start))
    known = chain_of * touches.log.replicas + touches.pair_replica
    wanted = chain.astype(np.int64) * touches.log.replicas + replica
    pair = np.searchsorted(known, wanted)
    pair[np.append(known, -1)[pair] != wanted] = -1
    return pair.astype(np.int32)
