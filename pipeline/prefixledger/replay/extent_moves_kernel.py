"""What admission, eviction, computing and release do to the extents of one replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_lists_kernel import (
    BELOW,
    CHAIN,
    DOWN,
    EXTENT,
    FIRST,
    FROM,
    HI,
    KIND,
    LAST,
    LENGTH,
    LO,
    LOST,
    NEXT,
    PINS,
    PREV,
    PRIMARY,
    Q_NEXT,
    Q_PREV,
    SIDE,
    SIDE_FIRST,
    SIDE_LAST,
    SPARE,
    STAMP,
    TOP,
    UNHASHED,
    UNKNOWN,
    USER,
    dequeue,
    drop_extent,
    enqueue,
    enqueue_unhashed,
    fill_gap,
    link_copy,
    link_use,
    new_cell,
    new_extent,
    next_copy,
    split,
    unlink_copy,
    unlink_use,
)
from prefixledger.replay.extent_pool_kernel import ADMITS, ADMITTED, BLANK, FREE, REMOVED, REPLICA

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `requests`: cells it holds, slots without a key, full blocks whose key is not in the log, epoch of its
# admission, slots, full blocks, and its place on its path: entry, position in that chain.
HELD, UNKEYED, NAMELESS, EPOCH, SLOTS, FULL, ENTRY, POSITION = range(8)
REQUEST_COLUMNS = 8
# Columns of `removals`.
R_LOOKUP, R_REPLICA, R_CHAIN, R_LO, R_HI, R_RESIDENT, R_EXPIRED, R_AFTER, R_ADMITS = range(9)
REMOVAL_COLUMNS = 9
EXTENTS_FULL, CELLS_FULL, REMOVALS_FULL = -1, -2, -3


@part
def pin_hits(
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    user_first: NDArray[np.int32],
    pool: NDArray[np.int64],
    row: int,
    limit: int,
    epoch: int,
    ttl_us: int,
) -> int:
    """Pin the resident blocks at the head of a row's path, ``limit`` at most, and leave its place behind them.

    Returns:
        Blocks hit, or which table is full. O(extents).
    """
    entry = requests[row, ENTRY]
    rest = limit
    position = 0
    held = 0
    while rest > 0:
        c = path_chain[entry]
        if chains[c, STAMP] != epoch:
            break
        count = min(chains[c, LENGTH], rest)
        e = chains[c, FIRST]
        while position < count:
            if extents[e, HI] > count:
                e = split(chains, extents, e, count, ttl_us)
                if e == 0:
                    return EXTENTS_FULL
            if extents[e, PINS] == 0:
                dequeue(extents, e)
                pool[FREE] -= extents[e, HI] - position
            extents[e, PINS] += 1
            if ttl_us >= 0:
                unlink_use(extents, user_first, e)
                link_use(extents, user_first, e, row)
            held = new_cell(cells, e, position, held)
            if held == 0:
                return CELLS_FULL
            position = extents[e, HI]
            e = extents[e, NEXT]
        rest -= count
        if count < chain_length[c]:
            break
        entry += 1
        position = 0
    requests[row, HELD] = held
    requests[row, ENTRY] = entry
    requests[row, POSITION] = position
    return limit - rest


@part
def remove_blocks(
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    user_first: NDArray[np.int32],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    at_us: int,
    count: int,
    ttl_us: int,
    log: bool,
) -> int:
    """Evict the first ``count`` blocks of the free queue for a row; -1: all blocks that the row was last to use expire.

    Returns:
        0, or which table is full. O(extents).
    """
    expire = count < 0
    while count != 0:
        e = user_first[row] if expire else extents[0, Q_NEXT]
        if e == 0:
            break
        hi = extents[e, HI]
        lo = extents[e, LO]
        c = extents[e, CHAIN]
        kind = extents[e, KIND]
        above = e
        if not expire and hi - lo > count:
            lo = hi - count
            extents[e, HI] = lo
        else:
            if kind <= SIDE:
                above = extents[e, PREV]
                unlink_copy(chains, extents, e)
            if ttl_us >= 0 and kind != UNHASHED:
                unlink_use(extents, user_first, e)
            if extents[e, PINS] > 0:
                extents[e, KIND] = LOST
            else:
                dequeue(extents, e)
                drop_extent(extents, e)
                if expire:
                    pool[BLANK] += hi - lo
        if not expire:
            count -= hi - lo
        if kind > SIDE:
            continue
        while lo < hi:
            kept = below = hi  # of a younger copy no key is lost
            if kind == PRIMARY:
                kept = fill_gap(chains, extents, c, above, lo, hi, ttl_us)
                if kept < 0:
                    return EXTENTS_FULL
                below = next_copy(chains, extents, c, kept, hi)
            if log:
                i = pool[REMOVED]
                if i == removals.shape[0]:
                    return REMOVALS_FULL
                removals[i, R_LOOKUP] = -1 if expire else row
                removals[i, R_REPLICA] = pool[REPLICA]
                removals[i, R_CHAIN] = c
                removals[i, R_LO] = lo
                removals[i, R_HI] = below
                removals[i, R_RESIDENT] = kept
                removals[i, R_EXPIRED] = expire
                removals[i, R_AFTER] = pool[ADMITTED]
                removals[i, R_ADMITS] = pool[ADMITS]
                removal_at_us[i] = at_us
                pool[REMOVED] = i + 1
            lo = below
    return 0


@part
def key_blocks(
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    user_first: NDArray[np.int32],
    row: int,
    count: int,
    epoch: int,
    ttl_us: int,
) -> int:
    """Key ``count`` computed blocks from the row's place on its path: younger copies of what is there, new ends elsewhere.

    Returns:
        0, or which table is full. O(path entries).
    """
    entry = requests[row, ENTRY]
    position = requests[row, POSITION]
    held = requests[row, HELD]
    while count > 0:
        c = path_chain[entry]
        if chains[c, STAMP] != epoch:
            chains[c, STAMP] = epoch
            chains[c, LENGTH] = 0
            chains[c, FIRST] = chains[c, LAST] = chains[c, SIDE_FIRST] = chains[c, SIDE_LAST] = 0
        stop = min(position + count, chain_length[c])
        kind = PRIMARY
        above = chains[c, LAST]
        if position < chains[c, LENGTH]:
            stop = min(stop, chains[c, LENGTH])
            kind = SIDE
            above = chains[c, SIDE_LAST]
        else:
            chains[c, LENGTH] = stop
            if above != 0 and extents[above, HI] > position:  # something lies behind a hole, see fill_gap
                below = 0
                while above != 0 and extents[above, LO] > position:
                    below = above
                    above = extents[above, PREV]
                end = stop = min(stop, extents[below, LO])
                while below != 0 and extents[below, LO] == end:
                    end = extents[below, HI]
                    below = extents[below, NEXT]
                chains[c, LENGTH] = end
        count -= stop - position
        # An extent that only this request holds grows in place, unless another was the last to use it.
        if (
            kind == PRIMARY
            and held != 0
            and cells[held, EXTENT] == above
            and extents[above, PINS] == 1
            and (ttl_us < 0 or extents[above, USER] == row)
        ):
            extents[above, HI] = stop
        else:
            e = new_extent(extents, c, position, stop, kind, 1)
            if e == 0:
                return EXTENTS_FULL
            link_copy(chains, extents, e, above)
            if ttl_us >= 0:
                link_use(extents, user_first, e, row)
            held = new_cell(cells, e, position, held)
            if held == 0:
                return CELLS_FULL
        position = stop
        if position == chain_length[c]:
            entry += 1
            position = 0
    requests[row, ENTRY] = entry
    requests[row, POSITION] = position
    requests[row, HELD] = held
    return 0


@part
def release(
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    user_first: NDArray[np.int32],
    pool: NDArray[np.int64],
    row: int,
    alive: bool,
    ttl_us: int,
    in_line: bool,
) -> int:
    """Release all that a row holds, deepest first; what joins the last in the queue without a seam becomes one with it.

    Returns:
        0, or that the table is full. O(extents).
    """
    nameless = requests[row, NAMELESS]
    unhashed = requests[row, UNKEYED]
    pool[FREE] += unhashed + nameless
    if not alive:
        unhashed += nameless
        nameless = 0
    if not in_line:
        pool[BLANK] += unhashed
    elif not enqueue_unhashed(extents, unhashed):
        return EXTENTS_FULL
    if nameless > 0:
        e = new_extent(extents, -1, 0, nameless, UNKNOWN, 0)
        if e == 0:
            return EXTENTS_FULL
        enqueue(extents, e, extents[0, Q_PREV])
        if ttl_us >= 0:
            link_use(extents, user_first, e, row)
    held = requests[row, HELD]
    while held != 0:
        e = cells[held, EXTENT]
        while True:
            lo, hi, down = extents[e, LO], extents[e, HI], extents[e, DOWN]
            extents[e, PINS] -= 1
            if extents[e, PINS] == 0:
                pool[FREE] += hi - lo
                last = extents[0, Q_PREV]
                if extents[e, KIND] == LOST:
                    drop_extent(extents, e)
                    if in_line:
                        enqueue_unhashed(extents, hi - lo)  # the row just dropped is room enough
                    else:
                        pool[BLANK] += hi - lo
                elif (
                    extents[last, KIND] == PRIMARY
                    and extents[last, CHAIN] == extents[e, CHAIN]
                    and extents[last, LO] == hi
                    and extents[e, KIND] == PRIMARY
                    and (ttl_us < 0 or extents[last, USER] == extents[e, USER])
                ):
                    extents[last, LO] = lo
                    unlink_copy(chains, extents, e)
                    if ttl_us >= 0:
                        unlink_use(extents, user_first, e)
                    drop_extent(extents, e)
                else:
                    enqueue(extents, e, last)
            if lo <= cells[held, FROM]:
                break
            e = down
        below = cells[held, BELOW]
        cells[held, BELOW] = cells[0, BELOW]
        cells[0, BELOW] = held
        held = below
    return 0


@part
def forget_all(extents: NDArray[np.int32], pool: NDArray[np.int64]) -> None:
    """Take the key off every block; free ones become blank, those in use lose it and go when they are released. O(rows)."""
    extents[0, SPARE] = 0
    for e in range(1, extents[0, TOP]):
        if extents[e, PINS] > 0:
            extents[e, KIND] = LOST
        else:
            drop_extent(extents, e)
    extents[0, Q_NEXT] = 0
    extents[0, Q_PREV] = 0
    pool[BLANK] = pool[FREE]
