"""Kernels that cut a forest into subtrees of bounded size."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def subtree_blocks(parent, size):  # type: ignore[no-untyped-def]
    """Count the blocks of every subtree.

    Args:
        parent: int64[k], smaller than its own index, negative for a root.
        size: int64[k], ones; overwritten.

    O(k): children come behind their parents, so one pass from the end adds each to the one above.
    """
    for node in range(parent.shape[0] - 1, -1, -1):
        above = parent[node]
        if above >= 0:
            size[above] += size[node]


@njit(cache=True, nogil=True)
def cut_subtrees(parent, size, most, top):  # type: ignore[no-untyped-def]
    """Name the subtree that every block belongs to.

    Args:
        parent: int64[k].
        size: int64[k], blocks of every subtree.
        most: Largest subtree that is left whole.
        top: int64[k], first block of the subtree, -1 for blocks above all of them; written.

    O(k). What is above is closed towards the root: a larger subtree hangs below larger ones alone.
    """
    for node in range(parent.shape[0]):
        above = parent[node]
        if size[node] > most:
            top[node] = -1
        elif above < 0 or top[above] < 0:
            top[node] = node
        else:
            top[node] = top[above]
