"""Finds the requests that used some shared block last."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def last_users(order, group, last_block, parent, uses):  # type: ignore[no-untyped-def]
    """Mark the rows that are the last of their group to use some block that other rows use, too.

    Args:
        order: int64[m], rows from the latest to the earliest within each group; the groups one after another.
        group: int64[n], 1 or more, group of each row.
        last_block: int64[n], last full block of each row, -1 where it has none.
        parent: int64[k], of each block, smaller than its own index, -1 for the first of a prompt.
        uses: int64[k], rows that have each block.

    Returns:
        bool[n]. O(m + blocks that each group uses): below a block that is marked already all are.
    """
    kept = np.zeros(group.shape[0], np.bool_)
    used_by = np.zeros(parent.shape[0], np.int64)
    for at in range(order.shape[0]):
        row = order[at]
        block = last_block[row]
        while block >= 0 and used_by[block] != group[row]:
            used_by[block] = group[row]
            if uses[block] > 1:
                kept[row] = True
            block = parent[block]
    return kept
