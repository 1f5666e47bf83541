"""What stands behind every hit and miss: last uses here and elsewhere, resets, who holds the blocks now, what removed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `segments`; replicas, lookups, and rows of `reset_at_us` and `removal_at_us`, -1 for none.
LOOKUP, FIRST, END, CHAIN, AT, ZONE, OWN, OWN_RESET, RESIDENT, ELSE, ELSE_RESET, REMOVAL = range(12)
HIT, MISSED, COMPUTED = range(3)
SEGMENTS_FULL = -1

# Columns of `nodes`: blocks of a chain up to TOP were last touched by USER; deeper ones hang at BELOW.
_TOP, _USER, _BELOW = range(3)
# Columns of `gone`: blocks from what is resident up to UPTO left by removal BY, -1 for a reset; deeper ones at UNDER.
_UPTO, _BY, _UNDER = range(3)
# Columns of `pairs`.
_NODE, _HELD, _EPOCH, _GONE, _CURSOR, _REACH = range(6)
# Columns of `state`, one row per replica.
_RESETS, _LAST, _LAST_AT, _SEEN_BY, _DEPTH = range(5)

_NEVER = 1 << 62


@njit(cache=True, nogil=True)
def list_blocks(
    chain: NDArray[np.int32],
    position: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    blocks: NDArray[np.int32],
) -> None:
    """Write the blocks of every chain one after the other.

    Args:
        chain: int32[n], chain of each block.
        position: int32[n], its position in the chain.
        chain_first: int64[c], blocks of all chains before it.
        blocks: int32[n], out. O(n).
    """
    for block in range(chain.shape[0]):
        blocks[chain_first[chain[block]] + position[block]] = block


@njit(cache=True, nogil=True)
def collect_segments(
    order: NDArray[np.int32],
    slot_of: NDArray[np.int32],
    replica: NDArray[np.int32],
    admitted_us: NDArray[np.int64],
    touched_blocks: NDArray[np.int32],
    keyed_blocks: NDArray[np.int32],
    cap_blocks: NDArray[np.int32],
    hit_blocks: NDArray[np.int32],
    flight_end: NDArray[np.int32],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    entry_pair: NDArray[np.int32],
    pair_start: NDArray[np.int32],
    pair_replica: NDArray[np.int32],
    piece_offset: NDArray[np.int64],
    piece_end: NDArray[np.int32],
    piece_previous: NDArray[np.int32],
    live_from_us: NDArray[np.int64],
    live_to_us: NDArray[np.int64],
    rank: NDArray[np.int32],
    reset_at_us: NDArray[np.int64],
    reset_replica: NDArray[np.int32],
    removal_before: NDArray[np.int64],
    removal_own: NDArray[np.bool_],
    removal_at_us: NDArray[np.int64],
    removal_pair: NDArray[np.int32],
    removal_resident: NDArray[np.int32],
    ttl_us: int,
    nodes: NDArray[np.int32],
    gone: NDArray[np.int32],
    pairs: NDArray[np.int32],
    state: NDArray[np.int64],
    segment_offset: NDArray[np.int64],
    segments: NDArray[np.int32],
) -> int:
    """Cut the full blocks of every lookup into segments of equal evidence, and write the evidence down.

    A segment never crosses the hit or the cap boundary. Every block of a lookup lies in exactly one. Order at equal times:
    removals by growth and releases, resets, the lookup, what its own admission removes, its touch.

    - Here: pieces of ``last_touches`` say who used a block last on this replica.
    - Elsewhere, for missed blocks: every other replica keeps its own list of (end, last user) per chain. What it holds is
      a prefix of the chain: all it ever touched, less what removals and resets took and, with a TTL, what expired. The
      holder is the live replica that holds most of this path, then the latest user, then the smallest name. Where
      the replica itself never used the block, the last user elsewhere is written down too, wherever it was.
    - Removals: per chain and replica a list of what left, shallow blocks first; a touch drops what it brings back.

    Args:
        order: int32[m], lookup of each slot, see ``last_touches``.
        slot_of: int32[m], the inverse.
        replica: int32[m], by lookup; lookups are numbered in order of admission over all replicas.
        admitted_us: int64[m].
        touched_blocks: int32[m], 0 where the lookup was refused.
        keyed_blocks: int32[m], blocks to be cut into segments, 0 where the lookup was refused.
        cap_blocks: int32[m], blocks that may hit.
        hit_blocks: int32[m], blocks that did.
        flight_end: int32[m], end of the missed blocks that somebody was computing, 0 for none; segments end there.
        path_offset: int64[m + 1].
        path_chain: int32[e].
        chain_depth: int32[c].
        chain_length: int32[c].
        entry_pair: int32[e], see ``pair_entries``, as the next two.
        pair_start: int32[c + 1].
        pair_replica: int32[pairs].
        piece_offset: int64[m + 1], by slot, see ``last_touches``, as the next two.
        piece_end: int32[pieces].
        piece_previous: int32[pieces].
        live_from_us: int64[replicas].
        live_to_us: int64[replicas], the moment at which it is gone.
        rank: int32[replicas], place of its name in the order of names.
        reset_at_us: int64[k], never falling.
        reset_replica: int32[k].
        removal_before: int64[r], never falling: the first lookup that is not admitted before the removal.
        removal_own: bool[r]: that lookup's own admission removed the blocks.
        removal_at_us: int64[r].
        removal_pair: int32[r], -1 where the replica never touched the chain.
        removal_resident: int32[r], blocks of the chain that are resident after the removal.
        ttl_us: -1 for none.
        nodes: int32[e + 1, 3]; scratch.
        gone: int32[r + e + 1, 3]; scratch.
        pairs: int32[pairs, 6], filled with -1; scratch.
        state: int64[replicas, 5], filled with -1; scratch.
        segment_offset: int64[m + 1], out, by lookup.
        segments: int32[any, 12], out.

    Returns:
        The number of segments, or ``SEGMENTS_FULL``. O(e + pieces + missed entries · replicas), amortised.
    """
    several = state.shape[0] > 1
    n = n_nodes = n_gone = reset = removal = 0
    spare = spare_gone = -1
    for i in range(slot_of.shape[0]):
        now = admitted_us[i]
        mine = replica[i]
        full = keyed_blocks[i]
        cap = cap_blocks[i]
        hit = hit_blocks[i]
        flight = flight_end[i]
        segment_offset[i] = n
        p = piece_offset[slot_of[i]]

        for phase in range(2):
            # Before the lookup: resets, and what others removed. After it: what its admission removed.
            while True:
                at = _NEVER
                if removal < removal_before.shape[0] and (
                    removal_before[removal] < i
                    or (removal_before[removal] == i and (phase == 1 or not removal_own[removal]))
                ):
                    at = removal_at_us[removal]
                if reset < reset_at_us.shape[0] and reset_at_us[reset] <= now and reset_at_us[reset] < at:
                    r = reset_replica[reset]
                    state[r, _RESETS] += 1
                    state[r, _LAST] = reset
                    state[r, _LAST_AT] = reset_at_us[reset]
                    reset += 1
                    continue
                if at == _NEVER:
                    break
                pair = removal_pair[removal]
                if pair >= 0 and pairs[pair, _EPOCH] == state[pair_replica[pair], _RESETS]:
                    held = pairs[pair, _HELD]
                    if removal_resident[removal] < held:
                        if spare_gone >= 0:
                            new = spare_gone
                            spare_gone = gone[new, _UNDER]
                        else:
                            new = n_gone
                            n_gone += 1
                        gone[new, _UPTO] = held
                        gone[new, _BY] = removal
                        gone[new, _UNDER] = pairs[pair, _GONE]
                        pairs[pair, _GONE] = new
                        pairs[pair, _HELD] = removal_resident[removal]
                removal += 1
            if phase == 1 or full == 0:
                continue

            # How far down this path every other replica holds it.
            if several and hit < full:
                for e in range(path_offset[i], path_offset[i + 1]):
                    c = path_chain[e]
                    depth = chain_depth[c]
                    if depth >= full:
                        break
                    stop = min(chain_length[c], full - depth)
                    if depth + stop <= hit:
                        continue
                    for pair in range(pair_start[c], pair_start[c + 1]):
                        r = pair_replica[pair]
                        pairs[pair, _REACH] = 0
                        if (
                            r == mine
                            or pairs[pair, _EPOCH] != state[r, _RESETS]
                            or not live_from_us[r] <= now < live_to_us[r]
                        ):
                            continue
                        reach = min(stop, pairs[pair, _HELD])
                        if ttl_us >= 0:
                            valid = 0
                            node = pairs[pair, _NODE]
                            while (
                                node >= 0
                                and valid < reach
                                and now - admitted_us[nodes[node, _USER]] <= ttl_us
                            ):
                                valid = nodes[node, _TOP]
                                node = nodes[node, _BELOW]
                            reach = min(reach, valid)
                        if reach > 0:
                            pairs[pair, _REACH] = reach
                            if state[r, _SEEN_BY] != i:
                                state[r, _SEEN_BY] = i
                                state[r, _DEPTH] = 0
                            state[r, _DEPTH] = max(state[r, _DEPTH], depth + reach)

            row = -1
            for e in range(path_offset[i], path_offset[i + 1]):
                c = path_chain[e]
                depth = chain_depth[c]
                if depth >= full:
                    break
                stop = min(chain_length[c], full - depth)
                begin, behind = pair_start[c], pair_start[c + 1]
                shared = behind - begin > 1 and depth + stop > hit
                if shared:
                    for pair in range(begin, behind):
                        pairs[pair, _CURSOR] = pairs[pair, _NODE]
                at = 0
                while at < stop:
                    while piece_end[p] <= depth + at:
                        p += 1
                    end = min(stop, piece_end[p] - depth)
                    own = order[piece_previous[p]] if piece_previous[p] >= 0 else -1
                    zone = HIT
                    if depth + at >= cap:
                        zone = COMPUTED
                    elif depth + at >= hit:
                        zone = MISSED
                        end = min(end, cap - depth)
                        if depth + at < flight:
                            end = min(end, flight - depth)
                    else:
                        end = min(end, hit - depth)
                    # Uses only get older further down a chain, so whoever comes first stays first to the end of its node.
                    elsewhere = resident = tied = -1
                    used_us = held_us = now
                    user_end = held_end = held_reach = stop
                    if zone != HIT and shared:
                        for pair in range(begin, behind):
                            r = pair_replica[pair]
                            node = pairs[pair, _CURSOR]
                            while node >= 0 and nodes[node, _TOP] <= at:
                                node = nodes[node, _BELOW]
                            pairs[pair, _CURSOR] = node
                            if node < 0 or r == mine:
                                continue
                            user = nodes[node, _USER]
                            at_us = admitted_us[user]
                            if own < 0 and (
                                elsewhere < 0
                                or at_us > used_us
                                or (at_us == used_us and rank[r] < rank[replica[elsewhere]])
                            ):
                                elsewhere = user
                                used_us = at_us
                                user_end = nodes[node, _TOP]
                            if at >= pairs[pair, _REACH]:
                                continue
                            if resident < 0 or state[r, _DEPTH] > state[resident, _DEPTH]:
                                tied = -1
                            elif state[r, _DEPTH] < state[resident, _DEPTH]:
                                continue
                            else:
                                tied = r
                                if at_us < held_us or (at_us == held_us and rank[r] > rank[resident]):
                                    continue
                            resident = r
                            held_us = at_us
                            held_end = nodes[node, _TOP]
                            held_reach = pairs[pair, _REACH]
                        if elsewhere >= 0:
                            end = min(end, user_end)
                        if resident >= 0:
                            end = min(end, held_reach)
                            if tied >= 0:
                                end = min(end, held_end)
                    if (
                        row < 0
                        or segments[row, ZONE] != zone
                        or segments[row, OWN] != own
                        or segments[row, ELSE] != elsewhere
                        or segments[row, RESIDENT] != resident
                        or depth + at == flight
                    ):
                        if n == segments.shape[0]:
                            return SEGMENTS_FULL
                        row = n
                        n += 1
                        segments[row, LOOKUP] = i
                        segments[row, FIRST] = depth + at
                        segments[row, ZONE] = zone
                        segments[row, OWN] = own
                        segments[row, OWN_RESET] = -1
                        if own >= 0 and state[mine, _LAST] >= 0 and state[mine, _LAST_AT] > admitted_us[own]:
                            segments[row, OWN_RESET] = state[mine, _LAST]
                        segments[row, RESIDENT] = resident
                        segments[row, ELSE] = elsewhere
                        segments[row, ELSE_RESET] = -1
                        if elsewhere >= 0:
                            r = replica[elsewhere]
                            if state[r, _LAST] >= 0 and state[r, _LAST_AT] > admitted_us[elsewhere]:
                                segments[row, ELSE_RESET] = state[r, _LAST]
                        segments[row, REMOVAL] = -1
                        pair = entry_pair[e]
                        held = pairs[pair, _HELD]
                        if zone != HIT and own >= 0:
                            # What a reset took that no removal had taken before is not on the list: no block up to `held`.
                            lost = pairs[pair, _GONE] if at >= held else -1
                            while lost >= 0 and gone[lost, _UPTO] <= at:
                                lost = gone[lost, _UNDER]
                            if lost >= 0:
                                segments[row, REMOVAL] = gone[lost, _BY]
                    segments[row, END] = depth + end
                    segments[row, CHAIN] = c
                    segments[row, AT] = end - 1
                    at = end

        for e in range(path_offset[i], path_offset[i + 1]):
            c = path_chain[e]
            if chain_depth[c] >= touched_blocks[i]:
                break
            stop = min(chain_length[c], touched_blocks[i] - chain_depth[c])
            pair = entry_pair[e]
            lost = pairs[pair, _GONE]
            while lost >= 0 and gone[lost, _UPTO] <= stop:
                under = gone[lost, _UNDER]
                gone[lost, _UNDER] = spare_gone
                spare_gone = lost
                lost = under
            if pairs[pair, _EPOCH] != state[mine, _RESETS]:
                if pairs[pair, _HELD] > stop:
                    if spare_gone >= 0:
                        new = spare_gone
                        spare_gone = gone[new, _UNDER]
                    else:
                        new = n_gone
                        n_gone += 1
                    gone[new, _UPTO] = pairs[pair, _HELD]
                    gone[new, _BY] = -1
                    gone[new, _UNDER] = lost
                    lost = new
                pairs[pair, _HELD] = stop
                pairs[pair, _EPOCH] = state[mine, _RESETS]
            else:
                pairs[pair, _HELD] = max(pairs[pair, _HELD], stop)
            pairs[pair, _GONE] = lost
            if several:
                node = pairs[pair, _NODE]
                while node >= 0 and nodes[node, _TOP] <= stop:
                    below = nodes[node, _BELOW]
                    nodes[node, _BELOW] = spare
                    spare = node
                    node = below
                if spare >= 0:
                    new = spare
                    spare = nodes[new, _BELOW]
                else:
                    new = n_nodes
                    n_nodes += 1
                nodes[new, _TOP] = stop
                nodes[new, _USER] = i
                nodes[new, _BELOW] = node
                pairs[pair, _NODE] = new
    segment_offset[slot_of.shape[0]] = n
    return n
