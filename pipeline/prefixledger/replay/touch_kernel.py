"""Who used each block last, on each replica: the decomposition that evidence and curves are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `nodes`: blocks of a chain up to TOP were last touched in SLOT; deeper ones hang at BELOW.
TOP, SLOT, BELOW = range(3)
# Columns of `keys`: blocks with more than one copy. POSITION in the chain, SLOT of the youngest copy, list of older ones.
POSITION, YOUNGEST, OLDER, DEEPER = range(4)
# Columns of `copies`.
MADE, NEXT_OLDER = range(2)
PIECES_FULL, GHOSTS_FULL = -1, -2


@njit(cache=True, nogil=True)
def pair_entries(
    order: NDArray[np.int32],
    replica: NDArray[np.int32],
    refused: NDArray[np.bool_],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    latest: NDArray[np.int32],
    pair_start: NDArray[np.int32],
    pair_replica: NDArray[np.int32],
    entry_pair: NDArray[np.int32],
) -> int:
    """Number the (chain, replica) pairs that are ever touched, by chain, then by replica.

    Args:
        order: int32[m], lookups grouped by replica, the smallest first.
        replica: int32[m], of each lookup.
        refused: bool[m], lookups that touch nothing.
        path_offset: int64[m + 1], lookup i walks ``path_chain[path_offset[i]:path_offset[i + 1]]``.
        path_chain: int32[e].
        latest: int32[c], scratch.
        pair_start: int32[c + 1], out: the pairs of chain k are ``pair_start[k]`` to ``pair_start[k + 1]``.
        pair_replica: int32[e], out: the first as many as there are pairs; ascending within a chain.
        entry_pair: int32[e], out: pair of each path entry, -1 for those of refused lookups.

    Returns:
        The number of pairs. O(e + c), without a sort: lookups come grouped by replica.
    """
    latest[:] = -1
    pair_start[:] = 0
    for i in order:
        if not refused[i]:
            for e in range(path_offset[i], path_offset[i + 1]):
                c = path_chain[e]
                if latest[c] != replica[i]:
                    latest[c] = replica[i]
                    pair_start[c + 1] += 1
    for c in range(latest.shape[0]):
        pair_start[c + 1] += pair_start[c]
        latest[c] = pair_start[c] - 1
    for i in order:
        for e in range(path_offset[i], path_offset[i + 1]):
            entry_pair[e] = -1
            if not refused[i]:
                c = path_chain[e]
                pair = latest[c]
                if pair < pair_start[c] or pair_replica[pair] != replica[i]:
                    pair += 1
                    latest[c] = pair
                    pair_replica[pair] = replica[i]
                entry_pair[e] = pair
    return int(pair_start[latest.shape[0]])


@njit(cache=True, nogil=True)
def last_touches(
    order: NDArray[np.int32],
    epoch_start: NDArray[np.int32],
    touched_blocks: NDArray[np.int32],
    keyed_blocks: NDArray[np.int32],
    cap_blocks: NDArray[np.int32],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    entry_pair: NDArray[np.int32],
    pair_node: NDArray[np.int32],
    pair_key: NDArray[np.int32],
    nodes: NDArray[np.int32],
    keys: NDArray[np.int32],
    copies: NDArray[np.int32],
    piece_offset: NDArray[np.int64],
    piece_end: NDArray[np.int32],
    piece_previous: NDArray[np.int32],
    stays: NDArray[np.int32],
    ghost_offset: NDArray[np.int64],
    ghost_older: NDArray[np.int32],
    ghost_younger: NDArray[np.int32],
) -> int:
    """Cut every lookup into pieces that the same earlier lookup of the replica used last.

    A *slot* is the place of a lookup in ``order``: all of a replica's lookups in order of admission. Each (chain, replica)
    keeps a list of (end, slot), shallow blocks first; a touch drops what it covers and puts one node in front. Resets
    leave the lists alone, they are facts of their own.

    Copies (vLLM): a prompt that ends with a block computes that last block again beside the copies that are there. The
    next lookup that may hit the block uses the oldest copy that is left, and the younger ones become ghosts: dead room at
    every capacity that still holds the next older one. Both are emitted as slots, since room is a matter of the stack.

    Args:
        order: int32[m], lookups grouped by replica, each group in order of admission.
        epoch_start: int32[m], by slot: first slot of the replica with no reset between it and this slot.
        touched_blocks: int32[m], blocks that the lookup uses, 0 for a refused one; at least ``keyed_blocks``, more where
            keyed output is cached. The path covers them.
        keyed_blocks: int32[m], full blocks of the prompt with a known key.
        cap_blocks: int32[m], blocks that may hit; the block at ``cap_blocks``, if it is keyed, is computed anew.
        path_offset: int64[m + 1].
        path_chain: int32[e].
        chain_depth: int32[c], blocks above the chain.
        chain_length: int32[c].
        entry_pair: int32[e], see ``pair_entries``.
        pair_node: int32[pairs], filled with -1; scratch.
        pair_key: int32[pairs], filled with -1; scratch.
        nodes: int32[e + 1, 3]; scratch.
        keys: int32[any at least the lookups that compute a block anew, 4]; scratch.
        copies: int32[as many, 2]; scratch.
        piece_offset: int64[m + 1], out, by slot.
        piece_end: int32[any], out: position in the prompt after the piece's last block.
        piece_previous: int32[any], out: slot that used the piece last, -1 if none did. Falls along a lookup.
        stays: int32[m], out, by slot: slot at which the older copy of the block computed anew stays, -1 if there is none.
        ghost_offset: int64[m + 1], out, by slot.
        ghost_older: int32[any], out: slot of the next older copy of a ghost that this lookup makes.
        ghost_younger: int32[any], out: slot of the ghost.

    Returns:
        The number of pieces, or which of the outputs was too small. O(e) amortised.
    """
    spare = -1
    n_nodes = n_keys = n_copies = n_pieces = n_ghosts = 0
    for s in range(order.shape[0]):
        i = order[s]
        piece_offset[s] = n_pieces
        ghost_offset[s] = n_ghosts
        stays[s] = -1
        touched = touched_blocks[i]
        anew = cap_blocks[i] if cap_blocks[i] < keyed_blocks[i] else -1
        anew_pair = anew_at = anew_slot = -1
        previous = -2
        for e in range(path_offset[i], path_offset[i + 1]):
            c = path_chain[e]
            depth = chain_depth[c]
            if depth >= touched:
                break
            stop = min(chain_length[c], touched - depth)
            pair = entry_pair[e]

            key = pair_key[pair]
            if key >= 0:
                limit = min(stop, cap_blocks[i] - depth)
                while key >= 0 and keys[key, POSITION] < limit:
                    younger = keys[key, YOUNGEST]
                    copy = keys[key, OLDER]
                    while copy >= 0 and copies[copy, MADE] >= epoch_start[s]:
                        if n_ghosts == ghost_older.shape[0]:
                            return GHOSTS_FULL
                        ghost_older[n_ghosts] = copies[copy, MADE]
                        ghost_younger[n_ghosts] = younger
                        n_ghosts += 1
                        younger = copies[copy, MADE]
                        copy = copies[copy, NEXT_OLDER]
                    key = keys[key, DEEPER]
                pair_key[pair] = key

            node = pair_node[pair]
            at = 0
            while at < stop:
                end = stop
                slot = -1
                if node >= 0:
                    end = min(stop, nodes[node, TOP])
                    slot = nodes[node, SLOT]
                if slot != previous:
                    if n_pieces == piece_end.shape[0]:
                        return PIECES_FULL
                    piece_previous[n_pieces] = slot
                    n_pieces += 1
                    previous = slot
                piece_end[n_pieces - 1] = depth + end
                if depth + at <= anew < depth + end:
                    anew_pair = pair
                    anew_at = anew - depth
                    anew_slot = slot
                at = end
                if node >= 0 and nodes[node, TOP] <= stop:
                    below = nodes[node, BELOW]
                    nodes[node, BELOW] = spare
                    spare = node
                    node = below
            if spare >= 0:
                new = spare
                spare = nodes[new, BELOW]
            else:
                new = n_nodes
                n_nodes += 1
            nodes[new, TOP] = stop
            nodes[new, SLOT] = s
            nodes[new, BELOW] = node
            pair_node[pair] = new

        if anew_slot >= epoch_start[s]:  # an older copy may be there: it stays where it is
            stays[s] = anew_slot
            key = pair_key[anew_pair]  # shallower keys of this chain have just gone
            older = -1
            if key < 0 or keys[key, POSITION] != anew_at:
                keys[n_keys, POSITION] = anew_at
                keys[n_keys, DEEPER] = key
                key = n_keys
                pair_key[anew_pair] = key
                n_keys += 1
            else:
                older = keys[key, OLDER]  # those from before a reset are left out when the copies collapse
            copies[n_copies, MADE] = anew_slot
            copies[n_copies, NEXT_OLDER] = older
            keys[key, OLDER] = n_copies
            keys[key, YOUNGEST] = s
            n_copies += 1
    piece_offset[order.shape[0]] = n_pieces
    ghost_offset[order.shape[0]] = n_ghosts
    return n_pieces
