"""Holds lookups against the blocks that an engine said it stored and removed."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def resident_prefix(parent, event_us, event_block, event_change, lookup_us, last_block, copies, stamp, found):  # type: ignore[no-untyped-def]
    """Count, for each lookup, the blocks from the start of its prompt that are resident when it is admitted.

    Events of the same moment come first: what a step stored is published when it ends.

    Args:
        parent: int64[b], block above each block, -1 for the first block of a prompt.
        event_us: int64[e], ascending.
        event_block: int64[e], block of each event.
        event_change: int64[e], 1 for a copy that was stored, -1 for one that was removed, 0 where all are dropped.
        lookup_us: int64[k], ascending.
        last_block: int64[k], last keyed block of each lookup.
        copies: int64[b], scratch.
        stamp: int64[b], scratch, filled with -1.
        found: int64[k], filled in place.

    O(e + blocks of all lookups).
    """
    at = 0
    epoch = np.int64(0)
    for lookup in range(lookup_us.shape[0]):
        while at < event_us.shape[0] and event_us[at] <= lookup_us[lookup]:
            if event_change[at] == 0:
                epoch += 1
            else:
                block = event_block[at]
                if stamp[block] != epoch:
                    stamp[block] = epoch
                    copies[block] = 0
                copies[block] = max(0, copies[block] + event_change[at])
            at += 1
        depth = 0
        block = last_block[lookup]
        while block >= 0:
            depth += 1
            block = parent[block]
        resident = depth
        block = last_block[lookup]
        for position in range(depth - 1, -1, -1):
            if stamp[block] != epoch or copies[block] == 0:
                resident = position
            block = parent[block]
        found[lookup] = resident
