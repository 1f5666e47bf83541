"""Cuts a forest of blocks into chains, and writes down the chains on the way to each request's last block."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count_children(parent, children):  # type: ignore[no-untyped-def]
    """Count the children of every block, and the chains of the forest.

    Args:
        parent: int64[n], smaller than its own index; -1 for the first block of a prompt.
        children: int32[n], zeros, filled in place.

    Returns:
        int: blocks whose parent has other children too, or that have none; each begins a chain. O(n).
    """
    begins = 0
    for block in range(parent.shape[0]):
        above = parent[block]
        if above < 0:
            begins += 1
        else:
            children[above] += 1
            if children[above] == 2:  # the first child continued the chain until now
                begins += 2
            elif children[above] > 2:
                begins += 1
    return begins


@njit(cache=True, nogil=True)
def cut_chains(parent, children, chain, position, chain_parent, chain_depth, chain_length):  # type: ignore[no-untyped-def]
    """Number the chains in order of their first block.

    Args:
        parent: int64[n], smaller than its own index; -1 for the first block of a prompt.
        children: int32[n], see ``count_children``.
        chain: int32[n], out: chain of each block.
        position: int32[n], out: its position in the chain, from 0.
        chain_parent: int32[c], out: chain above, -1 for a root.
        chain_depth: int32[c], out: blocks above the chain.
        chain_length: int32[c], zeros, out: blocks in it. O(n).
    """
    chains = np.int32(0)
    for block in range(parent.shape[0]):
        above = parent[block]
        if above >= 0 and children[above] == 1:
            mine = chain[above]
            chain[block] = mine
            position[block] = position[above] + 1
            chain_length[mine] += 1
            continue
        if above >= 0:
            chain_parent[chains] = chain[above]
            chain_depth[chains] = chain_depth[chain[above]] + position[above] + 1
        else:
            chain_parent[chains] = -1
            chain_depth[chains] = 0
        chain[block] = chains
        position[block] = 0
        chain_length[chains] = 1
        chains += 1


@njit(cache=True, nogil=True)
def count_path_entries(chain, chain_parent, last_block, offset):  # type: ignore[no-untyped-def]
    """Count the chains on the path of each request.

    Args:
        chain: int32[n], chain of each block.
        chain_parent: int32[c], -1 for a root.
        last_block: int64[m], -1 where the request has no full block.
        offset: int64[m + 1], out: where the chains of each request begin. O(path entries).
    """
    entries = np.int64(0)
    for request in range(last_block.shape[0]):
        offset[request] = entries
        block = last_block[request]
        at = chain[block] if block >= 0 else np.int32(-1)
        while at >= 0:
            entries += 1
            at = chain_parent[at]
    offset[last_block.shape[0]] = entries


@njit(cache=True, nogil=True)
def fill_path_entries(chain, chain_parent, last_block, offset, entries):  # type: ignore[no-untyped-def]
    """Write the chains on the path of each request, the root first.

    Args:
        chain: int32[n], chain of each block.
        chain_parent: int32[c], -1 for a root.
        last_block: int64[m], -1 where the request has no full block.
        offset: int64[m + 1], see ``count_path_entries``.
        entries: int32[e], out. O(e).
    """
    for request in range(last_block.shape[0]):
        at = offset[request + 1]
        step = chain[last_block[request]] if last_block[request] >= 0 else np.int32(-1)
        while step >= 0:
            at -= 1
            entries[at] = step
            step = chain_parent[step]
