"""What inserts, eviction, expiry and resets do to the radix tree of one replica while requests run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_lists_kernel import heap_pop
from prefixledger.replay.sglang_nodes_kernel import (
    ADMITS,
    ADMITTED,
    CHILDREN,
    CLOCK,
    DEAD,
    ENTRY,
    HI,
    KEYED,
    LEAVES,
    LO,
    LOCKS,
    NODE,
    NODES_FULL,
    OWN,
    OWN_SLOTS,
    OWNER,
    PARENT,
    PLACE,
    PLACE_REACHED,
    REMOVALS_FULL,
    REMOVED,
    REPLICA,
    SIZE,
    STAMP,
    TAIL,
    TOP,
    USER,
    access,
    drop_node,
    lock,
    new_node,
    offer,
)
from prefixledger.replay.sglang_tree_kernel import (
    R_ADMITS,
    R_AFTER,
    R_CHAIN,
    R_EXPIRED,
    R_HI,
    R_LO,
    R_LOOKUP,
    R_REPLICA,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@part
def insert(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    full: int,
    keyed: int,
) -> int:
    """Bring the first ``full`` blocks of a running request into the tree, ``keyed`` of them with a known key, and lock them.

    Its slots go into the tree, or are free at once where others brought the same blocks first.

    Returns:
        0, or which table is full. O(nodes of the path + path entries + log leaves).
    """
    above = int(requests[row, NODE])
    pool[CLOCK] += 1
    x = above
    while x != 0:
        nodes[x, STAMP] = pool[CLOCK]
        x = int(nodes[x, PARENT])
    x = access(
        path_offset,
        path_chain,
        chain_depth,
        chain_length,
        chain_first,
        nodes,
        start_of,
        leaf_at,
        leaf_node,
        pool,
        row,
        above,
        requests[row, PLACE],
        keyed,
    )
    if x < 0:
        return x
    place = pool[PLACE_REACHED]
    depth = nodes[x, HI]
    if depth < full:
        leaf = new_node(nodes, pool)
        if leaf == 0:
            return NODES_FULL
        pool[CLOCK] += 1  # the engine makes the leaf after it has split the node beside it
        nodes[leaf, PARENT] = x
        nodes[leaf, OWNER] = row
        nodes[leaf, LO] = depth
        nodes[leaf, HI] = full
        nodes[leaf, KEYED] = max(depth, keyed)
        nodes[leaf, ENTRY] = place
        nodes[leaf, CHILDREN] = nodes[leaf, LOCKS] = nodes[leaf, DEAD] = 0
        nodes[leaf, USER] = row
        nodes[leaf, STAMP] = pool[CLOCK]
        nodes[x, CHILDREN] += 1
        pool[SIZE] += full - depth
        base, end = path_offset[row], path_offset[row + 1]
        if depth < keyed:
            c = path_chain[base + place]
            start_of[chain_first[c] + depth - chain_depth[c]] = leaf
            while keyed >= chain_depth[c] + chain_length[c]:
                place += 1
                if base + place == end:
                    break
                c = path_chain[base + place]
        if keyed < full:
            requests[row, TAIL] = leaf
        x = leaf
    given = full - nodes[above, HI]
    pool[OWN] -= given
    requests[row, OWN_SLOTS] -= given
    lock(nodes, pool, x, above)
    requests[row, NODE] = x
    requests[row, PLACE] = place
    return 0


@part
def remove_leaf(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    x: int,
    row: int,
    at_us: int,
    log: bool,
) -> int:
    """Take a leaf out of the tree; row -1: it expired. One that is locked keeps its room until its locks are gone.

    Returns:
        0, or which table is full. O(chains of the node + log leaves).
    """
    lo, keyed, owner = nodes[x, LO], nodes[x, KEYED], nodes[x, OWNER]
    above = nodes[x, PARENT]
    base = path_offset[owner]
    k = nodes[x, ENTRY]
    if lo < keyed:
        c = path_chain[base + k]
        start_of[chain_first[c] + lo - chain_depth[c]] = 0
    if nodes[x, HI] > keyed:
        goes_on = above != 0 and nodes[above, OWNER] == owner and nodes[above, HI] > nodes[above, KEYED]
        requests[owner, TAIL] = above if goes_on else 0
    if log and lo < keyed:
        last = k
        while chain_depth[path_chain[base + last]] + chain_length[path_chain[base + last]] < keyed:
            last += 1
        for entry in range(last, k - 1, -1):
            i = pool[REMOVED]
            if i == removals.shape[0]:
                return REMOVALS_FULL
            c = path_chain[base + entry]
            removals[i, R_LOOKUP] = row
            removals[i, R_REPLICA] = pool[REPLICA]
            removals[i, R_CHAIN] = c
            removals[i, R_LO] = max(lo - chain_depth[c], 0)
            removals[i, R_HI] = min(keyed - chain_depth[c], chain_length[c])
            removals[i, R_EXPIRED] = row < 0
            removals[i, R_ADMITS] = pool[ADMITS]
            removals[i, R_AFTER] = pool[ADMITTED]
            removal_at_us[i] = at_us
            pool[REMOVED] = i + 1
    if nodes[x, LOCKS] != 0:
        nodes[x, DEAD] = 1
    else:
        drop_node(nodes, pool, x)
    nodes[above, CHILDREN] -= 1
    status: int = offer(nodes, leaf_at, leaf_node, pool, above)
    return status


@part
def evict(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    need: int,
    capacity: int,
    row: int,
    at_us: int,
    log: bool,
) -> int:
    """Remove whole leaves that nobody locks, the one accessed longest ago first, until ``need`` slots fit.

    Returns:
        0, or which table is full. O(nodes removed · log leaves), amortised.
    """
    while pool[SIZE] + pool[OWN] + need > capacity:
        at, x = leaf_at[0], int(leaf_node[0])
        heap_pop(leaf_at, leaf_node, pool[LEAVES])
        pool[LEAVES] -= 1
        if nodes[x, STAMP] != at or nodes[x, CHILDREN] != 0 or nodes[x, LOCKS] != 0 or nodes[x, DEAD] != 0:
            continue  # it was accessed again, has a child, is locked or gone
        status = remove_leaf(
            path_offset,
            path_chain,
            chain_depth,
            chain_length,
            chain_first,
            nodes,
            start_of,
            requests,
            leaf_at,
            leaf_node,
            removals,
            removal_at_us,
            pool,
            x,
            row,
            at_us,
            log,
        )
        if status < 0:
            return int(status)
    return 0


@part
def last_used(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    row: int,
) -> int:
    """Return the deepest node that a row was the last to use, 0 if there is none. O(path entries)."""
    x: int = requests[row, TAIL]
    if x != 0:
        return x
    base = path_offset[row]
    depth = k = 0
    while base + k < path_offset[row + 1]:
        c = path_chain[base + k]
        y = start_of[chain_first[c] + depth - chain_depth[c]]
        if y == 0 or nodes[y, USER] < row:
            break
        x = y
        if nodes[y, KEYED] < nodes[y, HI]:
            break
        depth = nodes[y, HI]
        while base + k < path_offset[row + 1]:
            c = path_chain[base + k]
            if chain_depth[c] + chain_length[c] > depth:
                break
            k += 1
    if x != 0 and nodes[x, USER] != row:
        return 0
    return x


@part
def expire(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    at_us: int,
    log: bool,
) -> int:
    """Remove all that a row was the last to use: the deep end of its path.

    Returns:
        0, or which table is full. O(path entries + log leaves).
    """
    x = last_used(
        path_offset, path_chain, chain_depth, chain_length, chain_first, nodes, start_of, requests, row
    )
    while x != 0 and nodes[x, USER] == row:
        above = int(nodes[x, PARENT])
        status = remove_leaf(
            path_offset,
            path_chain,
            chain_depth,
            chain_length,
            chain_first,
            nodes,
            start_of,
            requests,
            leaf_at,
            leaf_node,
            removals,
            removal_at_us,
            pool,
            x,
            -1,
            at_us,
            log,
        )
        if status < 0:
            return int(status)
        x = above
    return 0


@part
def forget_all(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    pool: NDArray[np.int64],
) -> None:
    """Empty the tree; what is locked keeps its room until its locks are gone. O(nodes)."""
    for x in range(1, pool[TOP]):
        if nodes[x, STAMP] < 0 or nodes[x, DEAD] != 0:
            continue
        if nodes[x, LO] < nodes[x, KEYED]:
            c = path_chain[path_offset[nodes[x, OWNER]] + nodes[x, ENTRY]]
            start_of[chain_first[c] + nodes[x, LO] - chain_depth[c]] = 0
        if nodes[x, LOCKS] != 0:
            nodes[x, DEAD] = 1
        else:
            drop_node(nodes, pool, x)
    pool[LEAVES] = 0
