"""Passes up and down the forest of one source, one after another over nodes whose parent comes first."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def roots_of(parent):  # type: ignore[no-untyped-def]
    """Return the namespace index of every node.

    Args:
        parent: int64[n], smaller than its own index, or -1 - namespace index.

    Returns:
        int64[n]. O(n).
    """
    root = np.empty(parent.shape[0], np.int64)
    for node in range(parent.shape[0]):
        above = parent[node]
        root[node] = -1 - above if above < 0 else root[above]
    return root


@njit(cache=True, nogil=True)
def rows_below(parent, last, rows):  # type: ignore[no-untyped-def]
    """Count, for every node, the rows whose path runs through it, and find the first of them.

    Args:
        parent: int64[n], smaller than its own index, or negative.
        last: int64[m], last node of a row's path, negative for an empty path.
        rows: int64[m], number of each row, rising.

    Returns:
        (int64[n], int64[n]): count, and the smallest row number (2**62 where no row passes). O(n + m).
    """
    count = np.zeros(parent.shape[0], np.int64)
    first = np.full(parent.shape[0], 1 << 62, np.int64)
    for at in range(last.shape[0]):
        node = last[at]
        if node >= 0:
            count[node] += 1
            first[node] = min(first[node], rows[at])
    for node in range(parent.shape[0] - 1, -1, -1):
        above = parent[node]
        if above >= 0:
            count[above] += count[node]
            first[above] = min(first[above], first[node])
    return count, first


@njit(cache=True, nogil=True)
def spread_down(parent, marked):  # type: ignore[no-untyped-def]
    """Mark everything below marked nodes, in place.

    Args:
        parent: int64[n], smaller than its own index, or negative.
        marked: bool[n], changed in place. O(n).
    """
    for node in range(parent.shape[0]):
        if parent[node] >= 0 and marked[parent[node]]:
            marked[node] = True


@njit(cache=True, nogil=True)
def renumber(parent, keep):  # type: ignore[no-untyped-def]
    """Close the gaps that dropped nodes leave; what is kept must keep its parent.

    Args:
        parent: int64[n], smaller than its own index, or -1 - namespace index.
        keep: bool[n].

    Returns:
        (int64[n], int64[k]): new number of each node (-1 where dropped), and the parents of the kept ones. O(n).
    """
    number = np.full(parent.shape[0], -1, np.int64)
    above_kept = np.empty(keep.sum(), np.int64)
    count = 0
    for node in range(parent.shape[0]):
        if keep[node]:
            above = parent[node]
            above_kept[count] = above if above < 0 else number[above]
            number[node] = count
            count += 1
    return number, above_kept


@njit(cache=True, nogil=True)
def sums_down(parent, value):  # type: ignore[no-untyped-def]
    """Add up, for every node, the values of all nodes from the root to it.

    Args:
        parent: int64[n], smaller than its own index, or negative.
        value: int64[n].

    Returns:
        int64[n]. O(n).
    """
    total = np.empty(parent.shape[0], np.int64)
    for node in range(parent.shape[0]):
        above = parent[node]
        total[node] = value[node] + (total[above] if above >= 0 else 0)
    return total
