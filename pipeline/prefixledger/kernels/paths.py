"""Walks up a forest for many nodes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def climb(parent: NDArray[np.int64], node: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes so many steps above others, -1 above the first of a path.

    Args:
        parent: int64[n], negative for the first node of a path.
        node: int64[m].
        steps: int64[m], none more than there are nodes on the path. O(sum of steps), one pass over the nodes that
            still move for each step.
    """
    at, left = node.copy(), steps.copy()
    moving = np.flatnonzero(left > 0)
    while moving.size:
        at[moving] = np.maximum(parent[at[moving]], -1)
        left[moving] -= 1
        moving = moving[left[moving] > 0]
    return at


def expand_paths(
    parent: NDArray[np.int64], node: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the last nodes of the paths to some nodes, one path after the other, in order from the root.

    Args:
        parent: int64[n], negative for the first node of a path.
        node: int64[m], where each path ends; not looked at where its count is 0.
        counts: int64[m], how many nodes of each path are wanted, none more than it has.

    Returns:
        int64[sum of counts].
    """
    begins = np.cumsum(counts) - counts
    out = np.empty(int(counts.sum()), np.int64)
    at, left = node.copy(), counts.copy()
    moving = np.flatnonzero(left > 0)
    while moving.size:
        left[moving] -= 1
        out[begins[moving] + left[moving]] = at[moving]
        at[moving] = parent[at[moving]]
        moving = moving[left[moving] > 0]
    return out
