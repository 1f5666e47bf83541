"""Extents of chains, the order in which they were accessed, and the bits that say where nodes of a radix tree begin.

A link of 0 means "none": row 0 of ``extents`` is a sentinel, and no chain is the child of chain 0's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `extents`: blocks [LO, HI) of a chain that the same access touched last; USER is the last row to use them.
# CHAIN -1: HI blocks without a known key, their own below chain ABOVE (-1: below the root). The sentinel closes the order
# of access to a ring, the oldest at its AFTER; its BELOW is the first unused row, its HI the first row never used.
CHAIN, LO, HI, USER, ABOVE, BELOW, BEFORE, AFTER = range(8)
EXTENT_COLUMNS = 8
# Columns of `chains`, valid while STAMP is the present epoch: resident blocks, the shallowest and the deepest extent, the
# child chain in which the last node goes on, and the extent without keys in which it does.
STAMP, RESIDENT, FIRST, LAST, NEXT, TAIL = range(6)
CHAIN_COLUMNS = 6

_WORD = 0xFFFFFFFF


@part
def new_extent(extents: NDArray[np.int32], chain: int, lo: int, hi: int, user: int) -> int:
    """Return a row for blocks [lo, hi) of a chain, in no list yet; 0 where the table is full. O(1)."""
    x: int = extents[0, BELOW]
    if x != 0:
        extents[0, BELOW] = extents[x, BELOW]
    else:
        x = extents[0, HI]
        if x == extents.shape[0]:
            return 0
        extents[0, HI] = x + 1
    extents[x, CHAIN] = chain
    extents[x, LO] = lo
    extents[x, HI] = hi
    extents[x, USER] = user
    return x


@part
def leave(extents: NDArray[np.int32], x: int) -> None:
    """Take x out of the order of access. O(1)."""
    before, after = extents[x, BEFORE], extents[x, AFTER]
    extents[before, AFTER] = after
    extents[after, BEFORE] = before


@part
def join(extents: NDArray[np.int32], x: int) -> None:
    """Put x at the recent end of the order of access. O(1)."""
    last = extents[0, BEFORE]
    extents[x, BEFORE] = last
    extents[x, AFTER] = 0
    extents[last, AFTER] = x
    extents[0, BEFORE] = x


@part
def drop(extents: NDArray[np.int32], x: int) -> None:
    """Take x out of the order of access and give its row back; it must stand in no list of a chain. O(1)."""
    leave(extents, x)
    extents[x, BELOW] = extents[0, BELOW]
    extents[0, BELOW] = x


@part
def next_start(starts: NDArray[np.uint32], base: int, lo: int, hi: int) -> int:
    """Return the first block of [lo, hi) that begins a node, ``hi`` if none does. O(blocks / 32)."""
    at = int(lo)  # without int() plain Python would shift 32 bits, and lose some
    while at < hi:
        bits = int(starts[base + (at >> 5)]) >> (at & 31)
        if bits != 0:
            while bits & 1 == 0:
                bits >>= 1
                at += 1
            return min(at, hi)
        at = (at | 31) + 1
    return hi


@part
def last_start(starts: NDArray[np.uint32], base: int, lo: int, hi: int) -> int:
    """Return the last block of (lo, hi) that begins a node, ``lo`` if none does. O(blocks / 32)."""
    at = int(hi) - 1
    while at > lo:
        bits = int(starts[base + (at >> 5)]) & ((2 << (at & 31)) - 1)
        at = (at >> 5) << 5
        if bits != 0:
            while bits > 1:
                bits >>= 1
                at += 1
            return max(at, lo)
        at -= 1
    return lo


@part
def write_starts(starts: NDArray[np.uint32], base: int, lo: int, hi: int) -> None:
    """Say of new blocks [lo, hi) that they are one node, or the part of one. O(blocks / 32)."""
    at = int(lo)
    while at < hi:
        stop = min(int(hi), (at | 31) + 1)
        mask = ((1 << (stop - at)) - 1) << (at & 31)
        starts[base + (at >> 5)] &= _WORD ^ mask
        at = stop
    if lo > 0:  # whether the head of a chain begins a node is written at its parent
        starts[base + (lo >> 5)] |= 1 << (int(lo) & 31)
