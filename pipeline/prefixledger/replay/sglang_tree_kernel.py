"""What accesses, eviction and expiry do to the radix tree of one replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.sglang_lists_kernel import (
    ABOVE,
    AFTER,
    BEFORE,
    BELOW,
    CHAIN,
    FIRST,
    HI,
    LAST,
    LO,
    NEXT,
    RESIDENT,
    STAMP,
    TAIL,
    USER,
    drop,
    join,
    last_start,
    leave,
    new_extent,
    next_start,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `removals`.
R_LOOKUP, R_REPLICA, R_CHAIN, R_LO, R_HI, R_EXPIRED, R_ADMITS, R_AFTER = range(8)
REMOVAL_COLUMNS = 8
# Entries of `pool`: the replica, the blocks in its tree, removals listed.
REPLICA, SIZE, REMOVED = range(3)
POOL_ENTRIES = 3
EXTENTS_FULL, REMOVALS_FULL = -1, -2


@part
def forget_all(extents: NDArray[np.int32], pool: NDArray[np.int64]) -> None:
    """Empty the tree. O(1)."""
    extents[0, :] = 0
    extents[0, HI] = 1
    pool[SIZE] = 0


@part
def lift(chains: NDArray[np.int32], extents: NDArray[np.int32], c: int, stop: int) -> None:
    """Take the first ``stop`` blocks of a chain out of its list and out of the order of access. O(extents)."""
    x = chains[c, FIRST]
    while x != 0 and extents[x, LO] < stop:
        if extents[x, HI] > stop:
            extents[x, LO] = stop
            break
        below = extents[x, BELOW]
        drop(extents, x)
        x = below
    chains[c, FIRST] = x
    if x != 0:
        extents[x, ABOVE] = 0
    else:
        chains[c, LAST] = 0


@part
def put_back(chains: NDArray[np.int32], extents: NDArray[np.int32], c: int, stop: int, row: int) -> int:
    """Put the first ``stop`` blocks of a chain, just used by a row, at the recent end; 0 where the table is full. O(1)."""
    x = new_extent(extents, c, 0, stop, row)
    if x == 0:
        return 0
    below = chains[c, FIRST]
    extents[x, ABOVE] = 0
    extents[x, BELOW] = below
    if below != 0:
        extents[below, ABOVE] = x
    else:
        chains[c, LAST] = x
    chains[c, FIRST] = x
    join(extents, x)
    return x


@part
def sink(
    chain_parent: NDArray[np.int32],
    chain_word: NDArray[np.int64],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    starts: NDArray[np.uint32],
    c: int,
    lo: int,
) -> int:
    """Put the node that begins at block ``lo`` of chain c, where its first extent begins too, at the recent end.

    Its blocks in one chain always lie in one extent: whatever touched a part of them made a node of that part.

    Returns:
        0, or that the table is full. O(chains of the node + blocks / 32).
    """
    d = c
    at = lo
    while True:
        end = next_start(starts, chain_word[d], at + 1, chains[d, RESIDENT])
        if end < chains[d, RESIDENT]:
            break
        if chains[d, NEXT] == 0:
            x = chains[d, TAIL]
            if x != 0:
                leave(extents, x)
                join(extents, x)
            break
        d = chains[d, NEXT]
        at = 0
    while True:  # deepest part first
        x = chains[d, FIRST]
        if end < extents[x, HI]:
            y = new_extent(extents, d, end, extents[x, HI], extents[x, USER])
            if y == 0:
                return EXTENTS_FULL
            before, after = extents[x, BEFORE], extents[x, AFTER]
            extents[y, BEFORE] = before
            extents[y, AFTER] = after
            extents[before, AFTER] = y
            extents[after, BEFORE] = y
            below = extents[x, BELOW]
            extents[y, ABOVE] = x
            extents[y, BELOW] = below
            extents[x, BELOW] = y
            if below != 0:
                extents[below, ABOVE] = y
            else:
                chains[d, LAST] = y
            extents[x, HI] = end
        else:
            leave(extents, x)
        join(extents, x)
        if d == c:
            return 0
        d = chain_parent[d]
        end = chains[d, RESIDENT]


@part
def cut(
    chain_parent: NDArray[np.int32],
    chain_word: NDArray[np.int64],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    starts: NDArray[np.uint32],
    c: int,
    at: int,
) -> int:
    """Split the node in which an access ended, behind block ``at - 1`` of chain c; the lower half was accessed too.

    Returns:
        0, or that the table is full. O(chains of the lower half + blocks / 32).
    """
    if at < chains[c, RESIDENT]:
        word, bit = chain_word[c] + (at >> 5), 1 << (int(at) & 31)
        if starts[word] & bit != 0:
            return 0
        starts[word] |= bit
        return sink(chain_parent, chain_word, chains, extents, starts, c, at)
    if chains[c, NEXT] != 0:
        d = chains[c, NEXT]
        chains[c, NEXT] = 0
        return sink(chain_parent, chain_word, chains, extents, starts, d, 0)
    x = chains[c, TAIL]
    if x != 0:
        chains[c, TAIL] = 0
        leave(extents, x)
        join(extents, x)
    return 0


@part
def trim(
    chain_parent: NDArray[np.int32],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    x: int,
    lo: int,
    row: int,
    at_us: int,
    log: bool,
) -> int:
    """Remove the blocks from ``lo`` on of x, the deepest extent of its chain; row -1: they expired.

    Returns:
        Whether the node of block ``lo`` goes on above it, or that the table is full. O(1).
    """
    c = extents[x, CHAIN]
    hi = extents[x, HI]
    pool[SIZE] -= hi - lo
    chains[c, RESIDENT] = lo
    if lo > extents[x, LO]:
        extents[x, HI] = lo
    else:
        above = extents[x, ABOVE]
        chains[c, LAST] = above
        if above != 0:
            extents[above, BELOW] = 0
        else:
            chains[c, FIRST] = 0
        drop(extents, x)
    if log:
        i = pool[REMOVED]
        if i == removals.shape[0]:
            return REMOVALS_FULL
        removals[i, R_LOOKUP] = row
        removals[i, R_REPLICA] = pool[REPLICA]
        removals[i, R_CHAIN] = c
        removals[i, R_LO] = lo
        removals[i, R_HI] = hi
        removals[i, R_EXPIRED] = row < 0
        removals[i, R_ADMITS] = row >= 0
        removals[i, R_AFTER] = row
        removal_at_us[i] = at_us
        pool[REMOVED] = i + 1
    above = chain_parent[c]
    if lo == 0 and above >= 0 and chains[above, NEXT] == c:
        chains[above, NEXT] = 0
        return 1
    return 0


@part
def trim_nameless(
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    nameless: NDArray[np.int32],
    pool: NDArray[np.int64],
    x: int,
) -> int:
    """Remove blocks without a known key.

    Returns:
        Whether the node to which they belong goes on above them. O(1).
    """
    host = extents[x, ABOVE]
    goes_on = 0
    if host >= 0 and chains[host, TAIL] == x:
        chains[host, TAIL] = 0
        goes_on = 1
    pool[SIZE] -= extents[x, HI]
    nameless[extents[x, USER]] = 0
    drop(extents, x)
    return goes_on


@part
def evict(
    chain_parent: NDArray[np.int32],
    chain_word: NDArray[np.int64],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    starts: NDArray[np.uint32],
    nameless: NDArray[np.int32],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    most: int,
    row: int,
    at_us: int,
    log: bool,
) -> int:
    """Remove whole nodes, the one accessed longest ago first, until the tree has ``most`` blocks or fewer.

    The oldest extent is always the deepest of its chain and ends in a leaf: a part of the tree was accessed no earlier
    than what is below it, and where both were at once, it stands behind it.

    Returns:
        0, or which table is full. O(extents + blocks / 32).
    """
    goes_on = 0
    while pool[SIZE] > most or goes_on != 0:
        x = extents[0, AFTER]
        c = extents[x, CHAIN]
        if c < 0:
            goes_on = trim_nameless(chains, extents, nameless, pool, x)
            continue
        lo = last_start(starts, chain_word[c], extents[x, LO], extents[x, HI])
        goes_on = trim(chain_parent, chains, extents, removals, removal_at_us, pool, x, lo, row, at_us, log)
        if goes_on < 0:
            return goes_on
    return 0


@part
def expire(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_parent: NDArray[np.int32],
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    nameless: NDArray[np.int32],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    at_us: int,
    epoch: int,
    log: bool,
) -> int:
    """Remove all that a row was the last to use; whatever was used earlier is gone, so it is the deep end of its chains.

    Returns:
        0, or that the table is full. O(path entries).
    """
    if nameless[row] != 0:
        trim_nameless(chains, extents, nameless, pool, nameless[row])
    for e in range(path_offset[row + 1] - 1, path_offset[row] - 1, -1):
        c = path_chain[e]
        while chains[c, STAMP] == epoch and chains[c, LAST] != 0 and extents[chains[c, LAST], USER] == row:
            x = chains[c, LAST]
            status = trim(
                chain_parent,
                chains,
                extents,
                removals,
                removal_at_us,
                pool,
                x,
                extents[x, LO],
                -1,
                at_us,
                log,
            )
            if status < 0:
                return status
    return 0
