"""What a lower tier holds, and what lookups read from it, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# An event is 8 * number + kind: of a lookup, a removal, a release (its lookup), a reset (0), a prompt that is shown apart
# from its lookup (that lookup).
LOOKUP, REMOVAL, RELEASE, RESET, SHOWN = range(5)
KINDS = 8
THROUGH, SELECTIVE, ON_EVICT = range(3)
# Columns of `gone`: position of the event among all, chain, first block of the chain and end of what is gone.
G_EVENT, G_CHAIN, G_FIRST, G_END = range(4)
GONE_FULL = -1


@njit(cache=True, nogil=True)
def replay_tier(
    events: NDArray[np.int64],
    domain_start: NDArray[np.int64],
    keyed_blocks: NDArray[np.int32],
    cap_blocks: NDArray[np.int32],
    hit_blocks: NDArray[np.int32],
    stored_blocks: NDArray[np.int32],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    chain_of: NDArray[np.int32],
    removal_chain: NDArray[np.int32],
    removal_first: NDArray[np.int32],
    removal_end: NDArray[np.int32],
    capacity: int,
    write: int,
    inclusive: bool,
    min_blocks: int,
    chunk_blocks: int,
    output: bool,
    shown_apart: bool,
    log: bool,
    after: NDArray[np.int32],
    before: NDArray[np.int32],
    above: NDArray[np.bool_],
    host_blocks: NDArray[np.int32],
    gone: NDArray[np.int32],
) -> int:
    """Replay one tier after the other: an LRU of blocks, the least recently written or used goes first.

    - A lookup reads on where its hits above end, block after block, up to its cap; fewer than ``min_blocks`` are not read,
      nor what is less than a chunk of ``chunk_blocks``, counted from the head of the prompt.
    - Then all full blocks of the prompt count as used, deepest first. Used blocks that the tier holds are refreshed;
      the others are written under ``THROUGH``, chunks whole, and if they were hits under ``SELECTIVE`` (the second use). An
      exclusive tier gives up all of them: they are above now. ``shown_apart``, where the cache above shows a prompt at the
      end of its prefill: a lookup uses what it hits and reads, and the prompt follows then.
    - At the release of a request the same goes for the blocks that its output filled, none of which was a hit; without
      ``output`` they are not written.
    - Blocks that the cache above removes are written under ``ON_EVICT``, deepest first, where the tier lacks them.

    Blocks are numbered chain by chain. Time O(blocks of all prompts).

    Args:
        events: int64[e], by tier, in order of time.
        domain_start: int64[tiers + 1], where the events of each tier begin.
        keyed_blocks: int32[m], full blocks of each prompt with a key, 0 where it was refused.
        cap_blocks: int32[m], blocks that may hit.
        hit_blocks: int32[m], blocks that hit above.
        stored_blocks: int32[m], full blocks of prompt and output that were keyed up to the release.
        path_offset: int64[m + 1].
        path_chain: int32[entries].
        chain_depth: int32[c].
        chain_length: int32[c].
        chain_first: int64[c], number of the first block of each chain.
        chain_of: int32[n], the chain of each block.
        removal_chain: int32[r].
        removal_first: int32[r], first block of the chain that left the cache above.
        removal_end: int32[r].
        capacity: Blocks of a tier.
        write: ``THROUGH``, ``SELECTIVE`` or ``ON_EVICT``.
        inclusive: Whether blocks that are read stay in the tier.
        min_blocks: The least that is read.
        chunk_blocks: Blocks of a chunk, 1 for none.
        output: Whether output is written at its release.
        shown_apart: Whether prompts have events of their own, ``SHOWN``.
        log: Whether to list the blocks that are neither above nor in the tier any more.
        after: int32[n + 1]; scratch: ring of the tier's blocks, the latest behind n; -1: not in it.
        before: int32[n + 1]; scratch.
        above: bool[n]; scratch.
        host_blocks: int32[m], out: blocks that hit in the tier.
        gone: int32[any, 4], out.

    Returns:
        Rows of ``gone``, or ``GONE_FULL``.
    """
    n = chain_of.shape[0]
    found = 0
    for domain in range(domain_start.shape[0] - 1):
        after[:] = -1
        after[n] = before[n] = n
        above[:] = False
        held = 0
        for at in range(domain_start[domain], domain_start[domain + 1]):
            number, kind = events[at] // KINDS, events[at] % KINDS
            if kind == RESET:
                after[:n] = -1
                after[n] = before[n] = n
                above[:] = False
                held = 0
                continue
            # The blocks [lo, hi) of a path, and how many of them are written even where the tier lacks them.
            lo = hi = written = 0
            entry = entry_end = 0
            if kind == REMOVAL:
                lo, hi = removal_first[number], removal_end[number]
                entry_end = 1
                if write == ON_EVICT:
                    written = hi
            else:
                entry, entry_end = path_offset[number], path_offset[number + 1]
                hi = keyed_blocks[number]
                reach = hit_blocks[number] + host_blocks[number]
                if kind == RELEASE:
                    lo, hi = hi // chunk_blocks * chunk_blocks, stored_blocks[number]
                elif kind == LOOKUP:
                    hits = hit_blocks[number]
                    for e in range(entry, entry_end):
                        c = path_chain[e]
                        depth = chain_depth[c]
                        if reach < depth or reach >= hi:
                            break
                        stop = min(depth + chain_length[c], hi)
                        offset = chain_first[c] - depth
                        while reach < stop and after[offset + reach] >= 0:
                            reach += 1
                    reach = min(reach // chunk_blocks * chunk_blocks, cap_blocks[number])
                    if reach - hits < min_blocks:
                        reach = hits
                    reach = max(reach, hits)
                    host_blocks[number] = reach - hits
                if kind == LOOKUP and shown_apart:
                    hi = reach
                elif write == SELECTIVE and kind != RELEASE:
                    written = reach
                elif write == THROUGH and (output or kind != RELEASE):
                    written = hi // chunk_blocks * chunk_blocks
            if capacity == 0:
                written = 0

            # All of it is above now, or on its way there, before the first of it makes anything go.
            if kind != REMOVAL and log:
                for e in range(entry, entry_end):
                    c = path_chain[e]
                    depth = chain_depth[c]
                    for position in range(max(lo, depth), min(hi, depth + chain_length[c])):
                        above[chain_first[c] - depth + position] = True
            for e in range(entry_end - 1, entry - 1, -1):
                if kind == REMOVAL:
                    c = removal_chain[number]
                    depth = 0
                else:
                    c = path_chain[e]
                    depth = chain_depth[c]
                offset = chain_first[c] - depth
                for position in range(min(hi, depth + chain_length[c]) - 1, max(lo, depth) - 1, -1):
                    x = offset + position
                    lost = -1
                    if kind == REMOVAL:
                        above[x] = False
                        if after[x] >= 0:
                            continue
                    if after[x] >= 0:
                        after[before[x]] = after[x]
                        before[after[x]] = before[x]
                        if not inclusive:
                            after[x] = -1
                            held -= 1
                            continue
                    elif position < written:
                        held += 1
                        if held > capacity:
                            held -= 1
                            y = int(before[n])
                            after[before[y]] = n
                            before[n] = before[y]
                            after[y] = -1
                            if not above[y]:
                                lost = y
                    else:
                        if kind != REMOVAL:
                            continue
                        lost = x
                    if lost != x:
                        after[x] = after[n]
                        before[x] = n
                        before[after[n]] = x
                        after[n] = x
                    if lost >= 0 and log:
                        c_lost = chain_of[lost]
                        place = lost - chain_first[c_lost]
                        last = found - 1
                        if (
                            found > 0
                            and gone[last, G_EVENT] == at
                            and gone[last, G_CHAIN] == c_lost
                            and gone[last, G_FIRST] == place + 1
                        ):
                            gone[last, G_FIRST] = place
                            continue
                        if found == gone.shape[0]:
                            return GONE_FULL
                        gone[found, G_EVENT] = at
                        gone[found, G_CHAIN] = c_lost
                        gone[found, G_FIRST] = place
                        gone[found, G_END] = place + 1
                        found += 1
    return found
