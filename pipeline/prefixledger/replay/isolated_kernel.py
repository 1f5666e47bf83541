"""Gives every group of prompts blocks of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def copy_paths(
    parent: NDArray[np.int64],
    last_block: NDArray[np.int64],
    group: NDArray[np.int64],
    order: NDArray[np.int64],
    stamp: NDArray[np.int64],
    number: NDArray[np.int64],
    path: NDArray[np.int64],
    source: NDArray[np.int64],
    owner: NDArray[np.int64],
    new_parent: NDArray[np.int64],
    new_last: NDArray[np.int64],
) -> int:
    """Copy the blocks of each group's prompts; O(lookups + copied blocks).

    Args:
        parent: int64[n], a smaller number than its own, negative for the first block of a prompt.
        last_block: int64[m], of each lookup, -1 for none.
        group: int64[m], from 0.
        order: int64[m], the lookups group by group.
        stamp: int64[n], zeros; scratch: the group + 1 that copied each block last.
        number: int64[n]; scratch: its number there.
        path: int64[n]; scratch.
        source: int64[k], out: the block that each copy is of; of size 0 nothing is written but counted.
        owner: int64[k], out: its group.
        new_parent: int64[k], out, -1 for the first block of a prompt.
        new_last: int64[m], out.

    Returns:
        k, how many copies there are.
    """
    count = 0
    write = source.size > 0
    for at in range(order.size):
        lookup = order[at]
        block, mine, deep = last_block[lookup], group[lookup] + 1, 0
        while block >= 0 and stamp[block] != mine:
            path[deep] = block
            deep += 1
            block = parent[block]
        above = number[block] if block >= 0 else -1
        for step in range(deep - 1, -1, -1):
            block = path[step]
            stamp[block], number[block] = mine, count
            if write:
                source[count], owner[count], new_parent[count] = block, mine - 1, above
            above = count
            count += 1
        if write:
            new_last[lookup] = above
    return count
