"""Cuts sequences where their content says so, and names each piece: what an insertion shifts keeps its names."""

from __future__ import annotations

import numpy as np
from numba import njit

LENGTH_BITS = 24
"""Low bits of a name that hold the length of its piece; the other 104 bits are a hash of its content."""
LENGTH_MASK = (1 << LENGTH_BITS) - 1

_ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_THREE, _FOUR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def _mixed(value):  # type: ignore[no-untyped-def]
    """Return 64 bits of which each depends on all of another 64 (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * _THREE
    value = (value ^ (value >> np.uint64(27))) * _FOUR
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def cut_pieces(values, offsets, window, mask, least, most):  # type: ignore[no-untyped-def]
    """Cut each row behind anchors: places whose last few values hash to zero in some bits.

    An anchor depends on no more than ``window`` values before it, so an edit moves no cut beyond the second anchor
    behind it. A piece has at least ``least`` values, but for the last of a row, and at most ``most``.

    Args:
        values: uint64[m], tokens or letters.
        offsets: int64[n + 1], where each row begins.
        window: Values that decide; at most 50.
        mask: Bits that must be zero at an anchor, as a number of the low ones: one anchor in ``mask + 1`` values.
        least: Shortest piece.
        most: Longest piece; below 2**24.

    Returns:
        (int64[n], int64[p]): pieces of each row, and the end of each piece in ``values``. O(m).
    """
    rows = offsets.shape[0] - 1
    counts = np.zeros(rows, np.int64)
    ends = np.empty((offsets[rows] - offsets[0]) // least + rows, np.int64)
    found = 0
    shift = np.uint64(window - 1)
    bits = np.uint64(mask)
    for row in range(rows):
        state, begin = np.uint64(0), offsets[row]
        for at in range(offsets[row], offsets[row + 1]):
            # A value is shifted out of the bits that are looked at after `window` steps more, carries aside.
            state = (state << np.uint64(1)) + _mixed(values[at] + _ONE)
            length = at + 1 - begin
            if length >= most or (length >= least and (state >> shift) & bits == np.uint64(0)):
                ends[found] = at + 1
                found += 1
                counts[row] += 1
                begin = at + 1
        if begin < offsets[row + 1]:
            ends[found] = offsets[row + 1]
            found += 1
            counts[row] += 1
    return counts, ends[:found].copy()


@njit(cache=True, nogil=True)
def name_pieces(values, begins, ends):  # type: ignore[no-untyped-def]
    """Name pieces by their content: 104 bits of hash, and their length.

    Args:
        values: uint64[m].
        begins: int64[p], first value of each piece.
        ends: int64[p], end of each piece.

    Returns:
        (uint64[p], uint64[p]): high and low half. O(m).
    """
    high, low = np.empty(begins.shape[0], np.uint64), np.empty(begins.shape[0], np.uint64)
    for piece in range(begins.shape[0]):
        one, two = _ONE, _TWO
        for at in range(begins[piece], ends[piece]):
            one = _mixed(one ^ (values[at] + _TWO)) + _ONE
            two = (two ^ _mixed(values[at] + _FOUR)) * _THREE
        length = np.uint64(ends[piece] - begins[piece])
        high[piece] = _mixed(one ^ length)
        low[piece] = (_mixed(two + length) & ~np.uint64(LENGTH_MASK)) | length
    return high, low
