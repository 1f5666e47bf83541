"""The tier below a cache that is replayed slot by slot: what is read, written and lost, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_pool_kernel import ADMITS, ADMITTED, BLANK, FREE, NOW, REMOVED, REPLICA
from prefixledger.replay.slots_kernel import (
    COMING,
    DEPTH,
    FIRST,
    GONE_FULL,
    KEY,
    LENGTH,
    OLDEST,
    Q_NEXT,
    UNHASHED,
    dequeue,
    drop_key,
    drop_slot,
)
from prefixledger.replay.tier_kernel import ON_EVICT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `ring`, the tier's blocks from the latest to the earliest: neighbours, -1: not in it; and the chain of each
# block, tier or not. Behind all blocks come the ends of the ring and a row that counts what is in it.
AFTER, BEFORE, CHAIN = range(3)
RING_COLUMNS = 3
# Entries of `rules`: blocks of the tier, when it is written, the least that is read, blocks of a chunk, whether output is
# written, whether replicas share it.
CAPACITY, WRITE, LEAST, CHUNK, KEEPS_OUTPUT, SHARED = range(6)
# Columns of `gone`.
G_LOOKUP, G_REPLICA, G_CHAIN, G_FIRST, G_END, G_AFTER, G_ADMITS, G_AT_US = range(8)
GONE_COLUMNS = 8


@part
def empty_below(ring: NDArray[np.int32]) -> None:
    """Empty the tier. O(blocks)."""
    n = ring.shape[0] - 2
    for x in range(n):
        ring[x, AFTER] = -1
    ring[n, AFTER] = ring[n, BEFORE] = n
    ring[n + 1, AFTER] = 0


@part
def list_gone(
    chains: NDArray[np.int64],
    ring: NDArray[np.int32],
    pool: NDArray[np.int64],
    gone: NDArray[np.int64],
    x: int,
    row: int,
) -> int:
    """List a block that is gone; 0, or that the table is full. O(1)."""
    chain = ring[x, CHAIN]
    place = x - chains[chain, FIRST]
    i = pool[REMOVED] - 1
    if (
        i >= 0
        and gone[i, G_FIRST] == place + 1
        and gone[i, G_CHAIN] == chain
        and gone[i, G_LOOKUP] == row
        and gone[i, G_REPLICA] == pool[REPLICA]
        and gone[i, G_AT_US] == pool[NOW]
        and gone[i, G_AFTER] == pool[ADMITTED]
        and gone[i, G_ADMITS] == pool[ADMITS]
    ):
        gone[i, G_FIRST] = place
        return 0
    i += 1
    if i == gone.shape[0]:
        return GONE_FULL
    gone[i, G_LOOKUP], gone[i, G_REPLICA], gone[i, G_CHAIN] = row, pool[REPLICA], chain
    gone[i, G_FIRST], gone[i, G_END], gone[i, G_AT_US] = place, place + 1, pool[NOW]
    gone[i, G_AFTER], gone[i, G_ADMITS] = pool[ADMITTED], pool[ADMITS]
    pool[REMOVED] = i + 1
    return 0


@part
def write_below(
    chains: NDArray[np.int64],
    blocks: NDArray[np.int32],
    ring: NDArray[np.int32],
    rules: NDArray[np.int64],
    pool: NDArray[np.int64],
    gone: NDArray[np.int64],
    x: int,
    row: int,
) -> int:
    """Write a block that the tier lacks, as the latest; list what went for it, if it is not above either.

    Returns:
        0, or that the table is full. O(1).
    """
    n = ring.shape[0] - 2
    lost = -1
    if ring[n + 1, AFTER] == rules[CAPACITY]:
        lost = ring[n, BEFORE]
        ring[n, BEFORE] = ring[lost, BEFORE]
        ring[ring[n, BEFORE], AFTER] = n
        ring[lost, AFTER] = -1
    else:
        ring[n + 1, AFTER] += 1
    ring[x, AFTER], ring[x, BEFORE] = ring[n, AFTER], n
    ring[ring[n, AFTER], BEFORE] = x
    ring[n, AFTER] = x
    if lost >= 0 and not rules[SHARED] and blocks[lost, OLDEST] == 0 and blocks[lost, COMING] != row + 1:
        return list_gone(chains, ring, pool, gone, lost, row)
    return 0


@part
def refresh_below(ring: NDArray[np.int32], x: int) -> None:
    """Take a block of the tier as the latest. O(1)."""
    n = ring.shape[0] - 2
    ring[ring[x, BEFORE], AFTER] = ring[x, AFTER]
    ring[ring[x, AFTER], BEFORE] = ring[x, BEFORE]
    ring[x, AFTER], ring[x, BEFORE] = ring[n, AFTER], n
    ring[ring[n, AFTER], BEFORE] = x
    ring[n, AFTER] = x


@part
def reach_below(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    ring: NDArray[np.int32],
    rules: NDArray[np.int64],
    first_entry: int,
    end_entry: int,
    hits: int,
    keyed: int,
    limit: int,
) -> int:
    """Return how far down a path a lookup gets that hits ``hits`` blocks above. O(blocks)."""
    reach = hits
    for entry in range(first_entry, end_entry):
        c = path_chain[entry]
        depth = chains[c, DEPTH]
        if reach < depth or reach >= keyed:
            break
        stop = min(depth + chains[c, LENGTH], keyed)
        while reach < stop and ring[chains[c, FIRST] - depth + reach, AFTER] >= 0:
            reach += 1
    reach = min(reach // rules[CHUNK] * rules[CHUNK], limit)
    return hits if reach - hits < rules[LEAST] else max(reach, hits)


@part
def use_below(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    blocks: NDArray[np.int32],
    ring: NDArray[np.int32],
    rules: NDArray[np.int64],
    pool: NDArray[np.int64],
    gone: NDArray[np.int64],
    first_entry: int,
    end_entry: int,
    lo: int,
    hi: int,
    written: int,
    row: int,
) -> int:
    """Take the blocks ``[lo, hi)`` of a path as used, deepest first; those before ``written`` are written if need be.

    Returns:
        0, or that the table is full. O(blocks).
    """
    for entry in range(end_entry - 1, first_entry - 1, -1):
        c = path_chain[entry]
        depth = chains[c, DEPTH]
        for position in range(min(hi, depth + chains[c, LENGTH]) - 1, max(lo, depth) - 1, -1):
            x = chains[c, FIRST] - depth + position
            if ring[x, AFTER] >= 0:
                refresh_below(ring, x)
            elif position < written and rules[CAPACITY] > 0:
                status = write_below(chains, blocks, ring, rules, pool, gone, x, row)
                if status != 0:
                    return status
    return 0


@part
def list_read(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    blocks: NDArray[np.int32],
    ring: NDArray[np.int32],
    rules: NDArray[np.int64],
    pool: NDArray[np.int64],
    gone: NDArray[np.int64],
    first_entry: int,
    end_entry: int,
    hits: int,
    reach: int,
    row: int,
) -> int:
    """List what a lookup read and its replica does not hold for others: all of it where the tier is shared.

    Else what the lookup itself wrote may have pushed it out of the tier. It was used all the same, so it goes after its use.

    Returns:
        0, or that the table is full. O(reach - hits).
    """
    pool[ADMITS] = 0
    for entry in range(end_entry - 1, first_entry - 1, -1):
        c = path_chain[entry]
        depth = chains[c, DEPTH]
        for position in range(min(reach, depth + chains[c, LENGTH]) - 1, max(hits, depth) - 1, -1):
            x = chains[c, FIRST] - depth + position
            blocks[x, COMING] = 0
            if blocks[x, OLDEST] == 0 and (rules[SHARED] or ring[x, AFTER] < 0):
                status = list_gone(chains, ring, pool, gone, x, row)
                if status != 0:
                    return status
    return 0


@part
def evict(
    chains: NDArray[np.int64],
    slots: NDArray[np.int32],
    blocks: NDArray[np.int32],
    ring: NDArray[np.int32],
    rules: NDArray[np.int64],
    pool: NDArray[np.int64],
    gone: NDArray[np.int64],
    first_eviction_us: NDArray[np.int64],
    need: int,
    row: int,
) -> int:
    """Take ``need`` slots from the free queue, and what they hold out of the cache: to the tier, where it is written then.

    Returns:
        0, or that the table is full. O(need).
    """
    pool[FREE] -= need
    while pool[BLANK] < need:
        s = slots[0, Q_NEXT]
        dequeue(slots, s)
        x = slots[s, KEY]
        if x != UNHASHED and first_eviction_us[pool[REPLICA]] < 0:
            first_eviction_us[pool[REPLICA]] = pool[NOW]
        status = 0
        if x >= 0:
            drop_key(slots, blocks, s)
            if blocks[x, OLDEST] == 0:
                writes = rules[WRITE] == ON_EVICT and rules[CAPACITY] > 0 and ring[x, AFTER] < 0
                if rules[SHARED] or (ring[x, AFTER] < 0 and not writes):
                    status = list_gone(chains, ring, pool, gone, x, row)
                if status == 0 and writes:
                    status = write_below(chains, blocks, ring, rules, pool, gone, x, row)
        if status != 0:
            return status
        drop_slot(slots, s)
        pool[BLANK] += 1
    pool[BLANK] -= need
    return 0
