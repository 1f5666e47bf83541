"""Nodes of a radix tree with their locks: how an access walks, and what locks hold.

A link of 0 means the root, row 0 of ``nodes``. A node is blocks [LO, HI) of the path of the request that inserted it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_lists_kernel import heap_push

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `nodes`. Blocks from KEYED on have no known key; ENTRY is the entry of its owner's path that has block LO;
# USER the latest lookup whose path has it; STAMP its last access, -1 in a row that is not in use; DEAD: a reset or the TTL
# took its keys, and it only waits for its locks.
PARENT, OWNER, LO, HI, KEYED, ENTRY, CHILDREN, LOCKS, USER, STAMP, DEAD = range(11)
NODE_COLUMNS = 11
# Columns of `requests`: the node up to which it locks and the entry of its path behind it, slots outside the tree, slots in
# all, resets before its admission, its deepest node with blocks of unknown key, blocks whose keys it has or will have in the
# tree, and its place in the list of requests that compute what the tree does not show. Then what it is at since it was last
# admitted: tokens to prefill, output to come, when the first token of it comes, whether its prompt is shown, its turn; and of
# a retracted one, which lies in the list of those that wait, since when, and the time that its output still takes. At last the
# blocks that its next insert shows, the blocks that it hit, and when it was admitted last.
(
    NODE,
    PLACE,
    OWN_SLOTS,
    SLOTS,
    EPOCH,
    TAIL,
    REACH,
    NEXT,
    PREV,
    TOKENS,
    LEFT_OUTPUT,
    FIRST_US,
    SHOWN,
    TURN,
    QUEUED_US,
    LEFT_US,
    SHOWS,
    HITS,
    START_US,
) = range(19)
REQUEST_COLUMNS = 19
# Entries of `pool`: the replica; blocks of the tree, those of them that are locked, slots outside the tree; events to come,
# entries of the order of eviction; the last access; removals listed; spare rows of `nodes`, rows ever used; where the last
# walk ended on its path; first and last of the requests that compute something; whether what goes makes room for an admission;
# first and last of the retracted requests that wait; the row that was admitted last, first admissions only.
(
    REPLICA,
    SIZE,
    LOCKED,
    OWN,
    EVENTS,
    LEAVES,
    CLOCK,
    REMOVED,
    SPARE,
    TOP,
    PLACE_REACHED,
    FIRST,
    LAST,
    ADMITS,
    WAITING,
    WAITING_LAST,
    ADMITTED,
) = range(17)
POOL_ENTRIES = 17
NODES_FULL, REMOVALS_FULL, LEAVES_FULL = -1, -2, -3


@part
def empty_tables(nodes: NDArray[np.int64], pool: NDArray[np.int64]) -> None:
    """Begin with a tree of which there is but the root; listed removals stay. O(1)."""
    for column in range(NODE_COLUMNS):
        nodes[0, column] = 0
    pool[SIZE] = pool[LOCKED] = pool[OWN] = pool[EVENTS] = pool[LEAVES] = pool[CLOCK] = pool[SPARE] = 0
    pool[TOP] = 1
    pool[FIRST] = pool[LAST] = pool[WAITING] = pool[WAITING_LAST] = pool[ADMITTED] = -1


@part
def new_node(nodes: NDArray[np.int64], pool: NDArray[np.int64]) -> int:
    """Return a row for a node; 0 where the table is full. O(1)."""
    x: int = pool[SPARE]
    if x != 0:
        pool[SPARE] = nodes[x, PARENT]
    else:
        x = pool[TOP]
        if x == nodes.shape[0]:
            return 0
        pool[TOP] = x + 1
    return x


@part
def drop_node(nodes: NDArray[np.int64], pool: NDArray[np.int64], x: int) -> None:
    """Give back the room and the row of a node that is no longer in the tree. O(1)."""
    pool[SIZE] -= nodes[x, HI] - nodes[x, LO]
    nodes[x, STAMP] = -1
    nodes[x, PARENT] = pool[SPARE]
    pool[SPARE] = x


@part
def offer(
    nodes: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    x: int,
) -> int:
    """Put a node in the order of eviction if it is a leaf that nobody locks; an older entry of it is void.

    Returns:
        0, or that the table is full. O(log leaves).
    """
    if x == 0 or nodes[x, CHILDREN] != 0 or nodes[x, LOCKS] != 0:
        return 0
    if pool[LEAVES] == leaf_at.shape[0]:
        return LEAVES_FULL
    heap_push(leaf_at, leaf_node, pool[LEAVES], nodes[x, STAMP], x)
    pool[LEAVES] += 1
    return 0


@part
def locked_hits(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    row: int,
    limit: int,
) -> int:
    """Return how many of the first ``limit`` blocks of a path are locked in the tree. O(path entries)."""
    base = path_offset[row]
    depth = k = 0
    while depth < limit:
        c = path_chain[base + k]
        x = start_of[chain_first[c] + depth - chain_depth[c]]
        if x == 0 or nodes[x, LOCKS] == 0:
            break
        owner = path_offset[nodes[x, OWNER]]
        stop = min(nodes[x, KEYED], limit)
        while True:
            end = chain_depth[c] + chain_length[c]
            depth = min(end, stop)
            if end <= stop:
                k += 1
            if depth == stop:
                break
            c = path_chain[base + k]
            if path_chain[owner + k] != c:
                break
        if depth < nodes[x, HI]:
            break
    return depth


@part
def access(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    x: int,
    place: int,
    limit: int,
) -> int:
    """Walk a path on from node x, as far as it is in the tree and at most ``limit`` blocks deep.

    A node in which the walk ends is split; both halves carry the time of the access, the lower one was not used.

    ``x`` is a node on the path of ``row``, ``place`` the entry of that path which has the block behind it, ``limit`` at most
    its keyed blocks.

    Returns:
        The node that ends where the walk does, or which table is full; ``PLACE_REACHED`` is the entry behind it.
        O(path entries).
    """
    base = path_offset[row]
    depth = nodes[x, HI]
    k = place
    while depth < limit:
        c = path_chain[base + k]
        y = start_of[chain_first[c] + depth - chain_depth[c]]
        if y == 0:
            break
        nodes[y, STAMP] = pool[CLOCK]
        owner = path_offset[nodes[y, OWNER]]
        stop = min(nodes[y, KEYED], limit)
        while True:  # up to here both paths are the same, so they have the same entries
            end = chain_depth[c] + chain_length[c]
            depth = min(end, stop)
            if end <= stop:
                k += 1
            if depth == stop:
                break
            c = path_chain[base + k]
            if path_chain[owner + k] != c:
                break
        x = y
        if depth < nodes[y, HI]:
            x = new_node(nodes, pool)
            if x == 0:
                return NODES_FULL
            for column in range(NODE_COLUMNS):
                nodes[x, column] = nodes[y, column]
            nodes[x, HI] = depth
            nodes[x, KEYED] = depth
            nodes[x, CHILDREN] = 1
            first = path_chain[owner + nodes[y, ENTRY]]
            start_of[chain_first[first] + nodes[y, LO] - chain_depth[first]] = x
            nodes[y, PARENT] = x
            nodes[y, LO] = depth
            nodes[y, ENTRY] = k
            if depth < nodes[y, KEYED]:
                c = path_chain[owner + k]
                start_of[chain_first[c] + depth - chain_depth[c]] = y
            if offer(nodes, leaf_at, leaf_node, pool, y) != 0:
                return LEAVES_FULL
            limit = depth
        nodes[x, USER] = max(nodes[x, USER], row)
    pool[PLACE_REACHED] = k
    return x


@part
def lock(nodes: NDArray[np.int64], pool: NDArray[np.int64], x: int, above: int) -> None:
    """Lock the nodes from x up to one that is locked already, the root at last. O(nodes)."""
    while x != above:
        if nodes[x, LOCKS] == 0:
            pool[LOCKED] += nodes[x, HI] - nodes[x, LO]
        nodes[x, LOCKS] += 1
        x = nodes[x, PARENT]


@part
def unlock(
    nodes: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    x: int,
) -> int:
    """Unlock the nodes from x up to the root; what only waited for that is gone with its last lock.

    Returns:
        0, or that the table is full. O(nodes + log leaves).
    """
    while x != 0:
        above = nodes[x, PARENT]
        nodes[x, LOCKS] -= 1
        if nodes[x, LOCKS] == 0:
            pool[LOCKED] -= nodes[x, HI] - nodes[x, LO]
            if nodes[x, DEAD] != 0:
                drop_node(nodes, pool, x)
            elif offer(nodes, leaf_at, leaf_node, pool, x) != 0:
                return LEAVES_FULL
        x = above
    return 0
