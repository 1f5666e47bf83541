"""Finds the records of a log that need not be moved to bring it into order of time."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def longest_ascent(times):  # type: ignore[no-untyped-def]
    """Mark a longest subsequence that never goes back (patience sorting).

    Args:
        times: int64[n].

    Returns:
        bool[n], its members. O(n log n), and 24 bytes for each time.
    """
    n = times.shape[0]
    end = np.empty(n, np.int64)  # smallest last time of an ascent of each length
    at = np.empty(n, np.int64)
    previous = np.empty(n, np.int64)
    longest = 0
    for position in range(n):
        time = times[position]
        low, high = 0, longest
        while low < high:
            middle = (low + high) >> 1
            if end[middle] <= time:
                low = middle + 1
            else:
                high = middle
        previous[position] = at[low - 1] if low > 0 else -1
        end[low] = time
        at[low] = position
        if low == longest:
            longest += 1
    stays = np.zeros(n, np.bool_)
    position = at[longest - 1] if longest > 0 else -1
    while position >= 0:
        stays[position] = True
        position = previous[position]
    return stays
