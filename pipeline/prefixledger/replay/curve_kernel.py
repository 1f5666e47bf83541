"""How large a cache each piece of a lookup needed, under the vLLM rule, exactly and for all capacities at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Columns of `state`, one row per replica.
TOTAL, TAIL, GHOSTS, TIDY_AT = range(4)
# Columns of `steps`.
QUERY, CAPACITY, BLOCKS = range(3)
STEPS_FULL = -1

_FEW_GHOSTS = 32
_NEVER = np.int32(2**31 - 1)


@njit(cache=True, nogil=True)
def needed_capacity(
    order: NDArray[np.int32],
    slot_of: NDArray[np.int32],
    replica: NDArray[np.int32],
    replica_start: NDArray[np.int64],
    admitted_us: NDArray[np.int64],
    touched_blocks: NDArray[np.int32],
    room_blocks: NDArray[np.int32],
    slots: NDArray[np.int32],
    tail: NDArray[np.bool_],
    piece_offset: NDArray[np.int64],
    piece_end: NDArray[np.int32],
    piece_previous: NDArray[np.int32],
    stays: NDArray[np.int32],
    ghost_offset: NDArray[np.int64],
    ghost_older: NDArray[np.int32],
    ghost_younger: NDArray[np.int32],
    ttl_us: int,
    query_offset: NDArray[np.int64],
    query_slot: NDArray[np.int32],
    query_end: NDArray[np.int32],
    query_blocks: NDArray[np.int32],
    whole: bool,
    tree: NDArray[np.int64],
    owned: NDArray[np.int32],
    extra: NDArray[np.int32],
    older: NDArray[np.int32],
    younger: NDArray[np.int32],
    threshold: NDArray[np.int32],
    state: NDArray[np.int64],
    needed: NDArray[np.int64],
    steps: NDArray[np.int64],
) -> int:
    """Answer, for pieces of prompts, with which capacity they would have been hits.

    The stack of a replica, most recent first, holds every block at its last use, earlier uses below, and within one
    lookup shallow blocks above deep ones; a Fenwick tree over the lookups counts what stands above. On top of that:

    - A prompt with a partial tail takes one slot more while it runs. Depth never falls, and a prompt without a tail puts a
      new copy on top of everything, so only the last lookup before the question can matter: one slot more if it has a tail.
    - An older copy of a block that was computed anew stays in the stack where it is.
    - When copies collapse (see ``last_touches``), a ghost at slot y with the next older copy at slot o is dead room for
      what lies below o, always, and for what lies in (o, y] at capacities that still held the older copy: at least its own
      needed capacity at that moment. Ghosts are kept as room at o plus a conditional part; once everything below y
      needs more than the threshold, the room moves to y and the conditional part ends.
    - A reset changes nothing here: what stood in the stack before it is below everything used after it.

    Exact for every capacity that admits every prompt. A copy that had expired when the copies collapsed makes no ghost, so
    ghosts depend on the TTL.

    Args:
        order: int32[m], lookups grouped by replica, each group in order of admission; a *slot* is a place in it.
        slot_of: int32[m], the inverse.
        replica: int32[m], of each lookup; lookups are numbered in order of admission over all replicas.
        replica_start: int64[replicas + 1], first slot of each replica.
        admitted_us: int64[m].
        touched_blocks: int32[m], see ``last_touches``.
        room_blocks: int32[m], ``touched_blocks`` plus full blocks without a known key.
        slots: int32[m], ``ceil(prompt_tokens / block_size)``; 0 for a lookup that takes no part.
        tail: bool[m], whether the prompt ends in a partial block.
        piece_offset: int64[m + 1], by slot; this and the next seven as ``last_touches`` made them.
        piece_end: int32[pieces].
        piece_previous: int32[pieces].
        stays: int32[m].
        ghost_offset: int64[m + 1].
        ghost_older: int32[ghosts].
        ghost_younger: int32[ghosts].
        ttl_us: -1 for none.
        query_offset: int64[m + 1], by lookup: its questions, asked before it touches anything.
        query_slot: int32[k], slot that last touched the blocks in question, on any replica; -1: no question.
        query_end: int32[k], position after the last block in question.
        query_blocks: int32[k], blocks in question.
        whole: True: fill ``needed``; False: fill ``steps``.
        tree: int64[m], zeros; scratch.
        owned: int32[m], scratch.
        extra: int32[m], zeros; scratch.
        older: int32[ghosts]; scratch, as the next two: per replica the ghosts that still depend on the capacity.
        younger: int32[ghosts].
        threshold: int32[ghosts].
        state: int64[replicas, 4], zeros; scratch.
        needed: int64[k], out: capacity with which all the blocks in question are hits and neither lookup is refused; -1.
        steps: int64[any, 3], out: question, capacity, n: the first of n blocks needs that capacity, each next one 1 more.

    Returns:
        The number of steps, or ``STEPS_FULL``. O((pieces + questions) log m), and O(conditional ghosts) per question.
    """
    n_steps = 0
    for i in range(slot_of.shape[0]):
        s = slot_of[i]
        r = replica[i]
        base = replica_start[r]
        kept = ghost_offset[base]  # where this replica's ghosts begin
        fresh = kept + state[r, GHOSTS]

        # Questions first, then the thresholds of the ghosts that this lookup makes: all see the stack before it.
        first_ghost = query_offset[i + 1]
        for k in range(query_offset[i], first_ghost + ghost_offset[s + 1] - ghost_offset[s]):
            if k < first_ghost:
                q = query_slot[k]
                if q < 0:
                    if whole:
                        needed[k] = -1
                    continue
                asked = replica[order[q]]
            else:
                q = ghost_older[ghost_offset[s] + k - first_ghost]
                if ttl_us >= 0 and admitted_us[i] - admitted_us[order[q]] > ttl_us:
                    continue
                asked = r
            start = replica_start[asked]
            above = state[asked, TOTAL] + extra[q]
            j = q - start + 1
            while j > 0:
                above -= tree[start + j - 1]
                j &= j - 1
            target = above + state[asked, TAIL]
            left = 1
            if k < first_ghost:
                target += query_end[k] - (touched_blocks[order[q]] - owned[q])
                if not whole:
                    left = query_blocks[k]
                    target -= left - 1
            while left > 0:
                capacity = target
                following = _NEVER
                if state[asked, GHOSTS] > 0:
                    # Unsigned and without branches, so that eight ghosts are tested at once: 0.2 ns each, else 1.6.
                    first = np.uint64(ghost_offset[start])
                    last = np.uint64(ghost_offset[start] + state[asked, GHOSTS])
                    while True:
                        known, limit, room = np.int32(q), np.int32(capacity), np.int32(0)
                        following = _NEVER
                        for g in range(first, last):
                            between = (older[g] < known) & (known <= younger[g])
                            counts = threshold[g] <= limit
                            room += np.int32(between & counts)
                            following = min(following, threshold[g] if between & (not counts) else _NEVER)
                        if target + room == capacity:
                            break
                        capacity = target + room
                if k >= first_ghost:
                    older[fresh] = q
                    younger[fresh] = ghost_younger[ghost_offset[s] + k - first_ghost]
                    threshold[fresh] = capacity
                    fresh += 1
                    break
                if whole:
                    needed[k] = max(capacity, slots[i], slots[order[q]])
                    break
                if n_steps == steps.shape[0]:
                    return STEPS_FULL
                reached = min(left, following - capacity)
                steps[n_steps, QUERY] = k
                steps[n_steps, CAPACITY] = capacity
                steps[n_steps, BLOCKS] = reached
                n_steps += 1
                left -= reached
                target += reached
        state[r, GHOSTS] = fresh - kept

        # The touch: blocks leave the lookups that used them last, an older copy stays.
        end = replica_start[r + 1] - base
        begin = 0
        for p in range(piece_offset[s], piece_offset[s + 1]):
            q = piece_previous[p]
            moved = piece_end[p] - begin
            begin = piece_end[p]
            if q < 0:
                continue
            owned[q] -= moved
            if q == stays[s]:
                extra[q] += 1
                moved -= 1
            state[r, TOTAL] -= moved
            j = q - base + 1
            while moved > 0 and j <= end:
                tree[base + j - 1] -= moved
                j += j & -j
        owned[s] = touched_blocks[i]
        state[r, TOTAL] += room_blocks[i]
        j = s - base + 1
        while j <= end:
            tree[base + j - 1] += room_blocks[i]
            j += j & -j
        if slots[i] > 0:
            state[r, TAIL] = tail[i]

        # Once in a while, settle the ghosts that no longer depend on the capacity.
        if state[r, GHOSTS] >= max(state[r, TIDY_AT], _FEW_GHOSTS):
            rest = kept
            for g in range(kept, kept + state[r, GHOSTS]):
                o, y = older[g], younger[g]
                above = state[r, TOTAL] + extra[y]
                j = y - base + 1
                while j > 0:
                    above -= tree[base + j - 1]
                    j &= j - 1
                if threshold[g] > above:
                    older[rest] = o
                    younger[rest] = y
                    threshold[rest] = threshold[g]
                    rest += 1
                    continue
                extra[o] -= 1
                extra[y] += 1
                j = o - base + 1
                while j <= end:
                    tree[base + j - 1] -= 1
                    j += j & -j
                j = y - base + 1
                while j <= end:
                    tree[base + j - 1] += 1
                    j += j & -j
            state[r, GHOSTS] = rest - kept
            state[r, TIDY_AT] = 2 * state[r, GHOSTS]
    return n_steps
