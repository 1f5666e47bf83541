"""Extents of chains and the lists they stand in: queue, copies of a chain, last use; in plain int32 tables.

A link of 0 means "none": row 0 of every table is a sentinel and holds the table's own bookkeeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `extents`; the sentinel closes the free queue to a ring, first to go at its Q_NEXT.
CHAIN, LO, HI, PINS, NEXT, PREV, Q_NEXT, Q_PREV, DOWN, KIND, USER, U_NEXT, U_PREV, SPARE, TOP = range(15)
EXTENT_COLUMNS = 16  # 64 bytes: one cache line a row
# Kinds: oldest copies, younger copies, blocks whose key is not in the log, blocks that lost their key while in use, free
# slots that stand in the queue without a key.
PRIMARY, SIDE, UNKNOWN, LOST, UNHASHED = range(5)
# Columns of `chains`: per chain, valid while STAMP is the present epoch; SIDE_FIRST - FIRST = SIDE - PRIMARY, twice.
STAMP, LENGTH, FIRST, LAST, SIDE_FIRST, SIDE_LAST = range(6)
CHAIN_COLUMNS = 8
# Columns of `cells`: what a running request holds, deepest first.
EXTENT, FROM, BELOW = range(3)
CELL_COLUMNS = 4


@part
def empty_tables(extents: NDArray[np.int32], cells: NDArray[np.int32]) -> None:
    """Forget every extent and cell. O(1)."""
    extents[0, :] = 0
    extents[0, KIND] = LOST
    extents[0, TOP] = 1
    cells[0, BELOW] = 0
    cells[0, FROM] = 1


@part
def new_extent(extents: NDArray[np.int32], chain: int, lo: int, hi: int, kind: int, pins: int) -> int:
    """Return a row for blocks [lo, hi) of a chain, in no list yet; 0 where the table is full. O(1)."""
    e: int = extents[0, SPARE]
    if e != 0:
        extents[0, SPARE] = extents[e, Q_NEXT]
    else:
        e = extents[0, TOP]
        if e == extents.shape[0]:
            return 0
        extents[0, TOP] = e + 1
    extents[e, CHAIN] = chain
    extents[e, LO] = lo
    extents[e, HI] = hi
    extents[e, KIND] = kind
    extents[e, PINS] = pins
    return e


@part
def drop_extent(extents: NDArray[np.int32], e: int) -> None:
    """Give a row back; it must stand in no list. O(1)."""
    extents[e, Q_NEXT] = extents[0, SPARE]
    extents[0, SPARE] = e


@part
def new_cell(cells: NDArray[np.int32], e: int, lo: int, below: int) -> int:
    """Return a cell that holds extent e down to block lo; 0 where the table is full. O(1)."""
    cell: int = cells[0, BELOW]
    if cell != 0:
        cells[0, BELOW] = cells[cell, BELOW]
    else:
        cell = cells[0, FROM]
        if cell == cells.shape[0]:
            return 0
        cells[0, FROM] = cell + 1
    cells[cell, EXTENT] = e
    cells[cell, FROM] = lo
    cells[cell, BELOW] = below
    return cell


@part
def enqueue(extents: NDArray[np.int32], e: int, before: int) -> None:
    """Put e into the free queue right behind ``before``. O(1)."""
    after = extents[before, Q_NEXT]
    extents[e, Q_PREV] = before
    extents[e, Q_NEXT] = after
    extents[before, Q_NEXT] = e
    extents[after, Q_PREV] = e


@part
def dequeue(extents: NDArray[np.int32], e: int) -> None:
    """Take e out of the free queue. O(1)."""
    before, after = extents[e, Q_PREV], extents[e, Q_NEXT]
    extents[before, Q_NEXT] = after
    extents[after, Q_PREV] = before


@part
def enqueue_unhashed(extents: NDArray[np.int32], count: int) -> bool:
    """Put slots without a key into the free queue, behind all others; False where the table is full. O(1)."""
    last = extents[0, Q_PREV]
    if count > 0 and extents[last, KIND] == UNHASHED:
        extents[last, HI] += count
    elif count > 0:
        e = new_extent(extents, -1, 0, count, UNHASHED, 0)
        if e == 0:
            return False
        enqueue(extents, e, last)
    return True


@part
def reaches_a_key(extents: NDArray[np.int32], count: int) -> bool:
    """Say whether the first ``count`` slots of the free queue hold a key. O(extents)."""
    e = extents[0, Q_NEXT]
    while count > 0 and extents[e, KIND] == UNHASHED:
        count -= extents[e, HI] - extents[e, LO]
        e = extents[e, Q_NEXT]
    return count > 0


@part
def pinned_hits(
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    entry: int,
    limit: int,
    epoch: int,
) -> int:
    """Count the first ``limit`` blocks from path entry ``entry`` that are resident and in use. O(extents)."""
    pinned = 0
    while limit > 0:
        c = path_chain[entry]
        if chains[c, STAMP] != epoch:
            break
        count = min(chains[c, LENGTH], limit)
        e = chains[c, FIRST]
        while e != 0 and extents[e, LO] < count:
            if extents[e, PINS] > 0:
                pinned += min(extents[e, HI], count) - extents[e, LO]
            e = extents[e, NEXT]
        limit -= count
        if count < chain_length[c]:
            break
        entry += 1
    return pinned


@part
def link_copy(chains: NDArray[np.int32], extents: NDArray[np.int32], e: int, above: int) -> None:
    """Put e into the list of its kind and chain, right behind ``above`` (0: first). O(1)."""
    first = FIRST + 2 * extents[e, KIND]
    c = extents[e, CHAIN]
    below = extents[above, NEXT] if above != 0 else chains[c, first]
    extents[e, PREV] = above
    extents[e, NEXT] = below
    if above != 0:
        extents[above, NEXT] = e
    else:
        chains[c, first] = e
    if below != 0:
        extents[below, PREV] = e
    else:
        chains[c, first + 1] = e


@part
def unlink_copy(chains: NDArray[np.int32], extents: NDArray[np.int32], e: int) -> None:
    """Take e out of the list of its kind and chain. O(1)."""
    first = FIRST + 2 * extents[e, KIND]
    c = extents[e, CHAIN]
    above, below = extents[e, PREV], extents[e, NEXT]
    if above != 0:
        extents[above, NEXT] = below
    else:
        chains[c, first] = below
    if below != 0:
        extents[below, PREV] = above
    else:
        chains[c, first + 1] = above


@part
def link_use(extents: NDArray[np.int32], user_first: NDArray[np.int32], e: int, row: int) -> None:
    """Note that row was the last to use e; a row's list stands deepest first. O(1)."""
    after = user_first[row]
    extents[e, USER] = row
    extents[e, U_PREV] = 0
    extents[e, U_NEXT] = after
    extents[after, U_PREV] = e
    user_first[row] = e


@part
def unlink_use(extents: NDArray[np.int32], user_first: NDArray[np.int32], e: int) -> None:
    """Take e out of the list of its last user. O(1)."""
    before, after = extents[e, U_PREV], extents[e, U_NEXT]
    if before != 0:
        extents[before, U_NEXT] = after
    else:
        user_first[extents[e, USER]] = after
    extents[after, U_PREV] = before


@part
def split(chains: NDArray[np.int32], extents: NDArray[np.int32], e: int, cut: int, ttl_us: int) -> int:
    """Split e at block ``cut``; the lower part gets a new row, the same pins and the places right behind e. O(1).

    A request that holds e finds the lower part through DOWN, so nobody who holds it need be told.

    Returns:
        The row of the lower part, 0 where the table is full.
    """
    lower = new_extent(extents, extents[e, CHAIN], extents[e, LO], cut, extents[e, KIND], extents[e, PINS])
    if lower == 0:
        return 0
    extents[e, LO] = cut
    extents[lower, DOWN] = extents[e, DOWN]
    extents[e, DOWN] = lower
    link_copy(chains, extents, lower, extents[e, PREV])
    if extents[e, PINS] == 0:
        enqueue(extents, lower, e)
    if ttl_us >= 0:
        after = extents[e, U_NEXT]
        extents[lower, USER] = extents[e, USER]
        extents[lower, U_PREV] = e
        extents[lower, U_NEXT] = after
        extents[e, U_NEXT] = lower
        extents[after, U_PREV] = lower
    return lower


@part
def fill_gap(
    chains: NDArray[np.int32], extents: NDArray[np.int32], c: int, above: int, lo: int, hi: int, ttl_us: int
) -> int:
    """Move the oldest younger copies of blocks [lo, hi) into the gap behind extent ``above`` of the primary list.

    What no copy covers is gone. It is the tail of what is resident, for no block outlives its parent, but with a TTL: a
    request that skips its lookup leaves copies that nobody uses, and one that steps in can expire before its children.

    Returns:
        The first block that no copy covers, hi for none, or -1: the table is full. O(gap pieces x side list).
    """
    below = extents[above, NEXT] if above != 0 else chains[c, FIRST]
    while below != 0 and extents[below, LO] < lo:
        above = below
        below = extents[below, NEXT]
    while lo < hi:
        # The list is in order of age, so the first that covers lo is the oldest copy, and no older one begins further
        # down: whoever held that one held a copy of the blocks above it too, at least as old and as recent.
        e = chains[c, SIDE_FIRST]
        while e != 0 and not extents[e, LO] <= lo < extents[e, HI]:
            e = extents[e, NEXT]
        if e == 0:
            chains[c, LENGTH] = min(chains[c, LENGTH], lo)
            break
        if extents[e, LO] < lo and split(chains, extents, e, lo, ttl_us) == 0:
            return -1
        if extents[e, HI] > hi:
            e = split(chains, extents, e, hi, ttl_us)
            if e == 0:
                return -1
        unlink_copy(chains, extents, e)
        extents[e, KIND] = PRIMARY
        link_copy(chains, extents, e, above)
        above = e
        lo = extents[e, HI]
    return lo


@part
def next_copy(chains: NDArray[np.int32], extents: NDArray[np.int32], c: int, lo: int, hi: int) -> int:
    """Return the first block of [lo, hi) that a younger copy holds, hi for none. O(side list)."""
    e = chains[c, SIDE_FIRST]
    while e != 0 and lo < hi:
        if lo <= extents[e, LO] < hi:
            hi = extents[e, LO]
        e = extents[e, NEXT]
    return hi


@part
def heap_push(
    heap_at: NDArray[np.int64], heap_what: NDArray[np.int64], size: int, at: int, what: int
) -> None:
    """Add (at, what) to a binary heap of ``size`` entries. O(log size)."""
    i = size
    while i > 0:
        j = (i - 1) // 2
        if heap_at[j] < at or (heap_at[j] == at and heap_what[j] < what):
            break
        heap_at[i] = heap_at[j]
        heap_what[i] = heap_what[j]
        i = j
    heap_at[i] = at
    heap_what[i] = what


@part
def heap_drop(heap_at: NDArray[np.int64], heap_what: NDArray[np.int64], size: int, what: int) -> int:
    """Take an entry out of a binary heap of ``size`` entries, if it is there; return the new size. O(size)."""
    k = 0
    while k < size and heap_what[k] != what:
        k += 1
    if k == size:
        return size
    last = size - 1
    at, moved = heap_at[last], heap_what[last]
    i = k
    while i > 0:
        j = (i - 1) // 2
        if heap_at[j] < at or (heap_at[j] == at and heap_what[j] < moved):
            break
        heap_at[i] = heap_at[j]
        heap_what[i] = heap_what[j]
        i = j
    while i == k or i > k:
        j = 2 * i + 1
        if j >= last:
            break
        if j + 1 < last and (
            heap_at[j + 1] < heap_at[j] or (heap_at[j + 1] == heap_at[j] and heap_what[j + 1] < heap_what[j])
        ):
            j += 1
        if at < heap_at[j] or (at == heap_at[j] and moved < heap_what[j]):
            break
        heap_at[i] = heap_at[j]
        heap_what[i] = heap_what[j]
        i = j
    heap_at[i] = at
    heap_what[i] = moved
    return last


@part
def heap_pop(heap_at: NDArray[np.int64], heap_what: NDArray[np.int64], size: int) -> None:
    """Take the smallest (at, what) out of a binary heap of ``size`` entries. O(log size)."""
    last = size - 1
    at, what = heap_at[last], heap_what[last]
    i = 0
    while True:
        j = 2 * i + 1
        if j >= last:
            break
        if j + 1 < last and (
            heap_at[j + 1] < heap_at[j] or (heap_at[j + 1] == heap_at[j] and heap_what[j + 1] < heap_what[j])
        ):
            j += 1
        if at < heap_at[j] or (at == heap_at[j] and what < heap_what[j]):
            break
        heap_at[i] = heap_at[j]
        heap_what[i] = heap_what[j]
        i = j
    heap_at[i] = at
    heap_what[i] = what
