"""Kernels over the forest of blocks: which blocks prompts share, and the pieces of a prompt between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def head_block(parent: NDArray[np.int64], head_blocks: int) -> NDArray[np.int64]:
    """Return, for each block, the block that ends the head of its prompt.

    Args:
        parent: int64[n], parent of each block, -1 for the first block of a prompt; ``parent[b] < b``.
        head_blocks: Blocks in the head, at least 1.

    Returns:
        int64[n]: the ancestor at depth ``head_blocks``, or the block itself where it is not that deep. O(n).
    """
    n = parent.size
    depth = np.empty(n, np.int32)
    head = np.empty(n, np.int64)
    for b in range(n):
        p = parent[b]
        if p < 0:
            depth[b] = 1
            head[b] = b
            continue
        depth[b] = depth[p] + 1
        head[b] = b if depth[b] <= head_blocks else head[p]
    return head


@njit(cache=True, nogil=True)
def find_shared(
    parent: NDArray[np.int64], last_block: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Find the blocks that prompts share: at least 2 used children, or at least 2 prompts that end there.

    Args:
        parent: int64[n], as in ``head_block``.
        last_block: int64[m], last full block of each lookup, -1 below one block.

    Returns:
        ``owner`` int64[n]: the deepest shared block on the path down to and including the block, -1 if there
        is none; ``depth`` int32[n]: blocks on that path. Blocks of no lookup count for nothing. O(n + m).
    """
    n = parent.size
    ends = np.zeros(n, np.int64)
    children = np.zeros(n, np.int64)
    for i in range(last_block.size):
        if last_block[i] >= 0:
            ends[last_block[i]] += 1
    for b in range(n - 1, -1, -1):
        if (ends[b] > 0 or children[b] > 0) and parent[b] >= 0:
            children[parent[b]] += 1
    owner = np.empty(n, np.int64)
    depth = np.empty(n, np.int32)
    for b in range(n):
        p = parent[b]
        depth[b] = 1 if p < 0 else depth[p] + 1
        if children[b] >= 2 or ends[b] >= 2:
            owner[b] = b
        else:
            owner[b] = -1 if p < 0 else owner[p]
    return owner, depth


@njit(cache=True, nogil=True)
def cut_pieces(
    parent: NDArray[np.int64],
    owner: NDArray[np.int64],
    depth: NDArray[np.int32],
    last_block: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cut every prompt behind each shared block on its path.

    Args:
        parent: int64[n], as in ``head_block``.
        owner: int64[n], as ``find_shared`` gives it.
        depth: int32[n], as ``find_shared`` gives it.
        last_block: int64[m], last full block of each lookup, -1 below one block.

    Returns:
        ``lookup``, ``node``, ``first_block``, ``n_blocks``, each int64[pieces]: pieces from the head down,
        each owned by the shared block it ends with; what follows the last one has node -1. O(n + pieces).
    """
    n = parent.size
    m = last_block.size
    above = np.empty(n, np.int64)  # shared blocks strictly above a shared block
    for b in range(n):
        above[b] = 0
        if owner[b] == b and parent[b] >= 0 and owner[parent[b]] >= 0:
            above[b] = above[owner[parent[b]]] + 1
    total = 0
    for i in range(m):
        b = last_block[i]
        if b >= 0:
            total += (owner[b] != b) + (above[owner[b]] + 1 if owner[b] >= 0 else 0)
    lookup = np.empty(total, np.int64)
    node = np.empty(total, np.int64)
    first = np.empty(total, np.int64)
    length = np.empty(total, np.int64)
    end = 0
    for i in range(m):
        b = last_block[i]
        if b < 0:
            continue
        s = owner[b]
        end += (s != b) + (above[s] + 1 if s >= 0 else 0)
        at = end - 1
        if s != b:
            lookup[at] = i
            node[at] = -1
            first[at] = depth[s] if s >= 0 else 0
            length[at] = depth[b] - first[at]
            at -= 1
        while s >= 0:
            up = owner[parent[s]] if parent[s] >= 0 else -1
            lookup[at] = i
            node[at] = s
            first[at] = depth[up] if up >= 0 else 0
            length[at] = depth[s] - first[at]
            at -= 1
            s = up
    return lookup, node, first, length
