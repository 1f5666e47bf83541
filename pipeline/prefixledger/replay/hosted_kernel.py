"""Hosted prompt caches: entries at marks, found by walking back from marks, readable and alive for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel
from prefixledger.replay.hosted_entries_kernel import (
    EPOCH,
    MARK,
    ORDINAL,
    READABLE,
    READY,
    USED,
    alive,
    ends_interval,
    in_flight,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `segments`; lookups, replicas and rows of `reset_at_us`, -1 for none.
# KEPT is the mark that decided how long the entry behind it was kept.
LOOKUP, FIRST, END, END_BLOCK, CLASS, OWN, OWN_RESET, RESIDENT, ELSE, ELSE_RESET, KEPT = range(11)
COLUMNS = 11
# What became of a piece, the best that one of the entries behind it could do.
(
    HIT, IN_FLIGHT, EXPIRED, INVALIDATED, MISROUTED, ELSEWHERE, OUT_OF_REACH, BELOW_MINIMUM, NO_BREAKPOINT, COLD
) = range(10)  # fmt: skip
SEGMENTS_FULL = -1

# Columns of `state`, one row per replica.
_RESETS, _LAST = range(2)
STATE_COLUMNS = 2
_NO_TIME = -(1 << 63)


@kernel
def replay_hosted(
    at_us: NDArray[np.int64],
    replica: NDArray[np.int32],
    prompt_tokens: NDArray[np.int64],
    last_block: NDArray[np.int64],
    keyed_blocks: NDArray[np.int32],
    ready_us: NDArray[np.int64],
    latest_us: NDArray[np.int64],
    readable_us: NDArray[np.int64],
    read_blocks: NDArray[np.int32],
    wanted_blocks: NDArray[np.int32],
    minimum_blocks: NDArray[np.int32],
    look_back: NDArray[np.int32],
    refresh: NDArray[np.bool_],
    takes_ttl: NDArray[np.bool_],
    answer_entry: NDArray[np.int32],
    answer_ready_us: NDArray[np.int64],
    mark_offset: NDArray[np.int64],
    mark_entry: NDArray[np.int32],
    mark_ordinal: NDArray[np.int32],
    mark_ttl_us: NDArray[np.int64],
    every_tokens: NDArray[np.int64],
    first_tokens: NDArray[np.int64],
    entry_parent: NDArray[np.int32],
    entry_depth: NDArray[np.int32],
    entry_block: NDArray[np.int32],
    parent: NDArray[np.int64],
    reset_at_us: NDArray[np.int64],
    reset_replica: NDArray[np.int32],
    live_from_us: NDArray[np.int64],
    live_to_us: NDArray[np.int64],
    rank: NDArray[np.int32],
    block_size: int,
    us_per_token: float,
    waits: bool,
    explain: bool,
    entries: NDArray[np.int32],
    entry_ready: NDArray[np.int64],
    asked: NDArray[np.bool_],
    seen: NDArray[np.bool_],
    state: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    segments: NDArray[np.int32],
) -> int:
    """Replay one pool of a hosted cache, one lookup after the other in order of arrival.

    A lookup stores one entry at each of its marks that is not below the minimum. It reads the deepest entry on its path
    that an earlier lookup stored, that lies at most ``look_back`` positions before one of its marks (the mark counted),
    that was used at most the ``mark_ttl_us`` of the mark that stored it ago, start to start, and whose writer has begun
    to answer. A read refreshes the entry and all that lie above it and still live, where ``refresh`` says so, and gives them
    the lifetime of the first mark behind them, where ``takes_ttl`` says so; a write refreshes what lives and replaces what
    does not, its lifetime included. The end of an answer is stored like the last mark. At equal times resets come first.

    A missed block is explained by the best entry that reaches behind it: one that cannot be read yet, one that
    expired, one that a reset took, one on another replica, one out of reach, one that was below the minimum when it
    was asked for; else it was served before but nothing was stored behind it, or it is new.

    Args:
        at_us: int64[m], start of each lookup, never falling.
        replica: int32[m].
        prompt_tokens: int64[m].
        last_block: int64[m], last keyed block, -1 for none.
        keyed_blocks: int32[m], blocks down to it.
        ready_us: int64[m], first token, ``-2**63`` where it is not known.
        latest_us: int64[m], end of the answer, which bounds what is estimated, ``-2**63`` where it is not known.
        readable_us: int64[m], when what a lookup stores can be read for sure, ``-2**63``: from its first token on.
        read_blocks: int32[m], what it read by its usage, -1 where the log does not say.
        wanted_blocks: int32[m], what it read or wrote by its usage, -1 where the log does not say.
        minimum_blocks: int32[m], depth from which on entries are stored.
        look_back: int32[m], -1 for no limit.
        refresh: bool[m], whether a use starts the lifetime anew.
        takes_ttl: bool[m], whether that lifetime is the one that the reader asks for.
        answer_entry: int32[m], entry at the end of the prompt and its answer, -1 for none.
        answer_ready_us: int64[m], when that can be read, ``-2**63``: with the prompt.
        mark_offset: int64[m + 1].
        mark_entry: int32[k], entries at the marks of each lookup, ascending in depth, at least one block deep.
        mark_ordinal: int32[k], position of each mark in its prompt, -1 where it is not known: then it is in reach.
        mark_ttl_us: int64[k], lifetime of what is stored there, -1 for none.
        every_tokens: int64[m], where more is stored: above each mark every so many tokens; 0: nowhere.
        first_tokens: int64[m], the first such place, below that.
        entry_parent: int32[e], see ``find_parents``.
        entry_depth: int32[e], blocks from the start of the prompt.
        entry_block: int32[e].
        parent: int64[blocks].
        reset_at_us: int64[r], never falling.
        reset_replica: int32[r].
        live_from_us: int64[replicas].
        live_to_us: int64[replicas].
        rank: int32[replicas], place of each name, which decides ties.
        block_size: Tokens per block.
        us_per_token: Time until the first token per token that is not read, where it is not known.
        waits: Whether entries cannot be read before the first token.
        explain: Whether to write segments.
        entries: int32[e * replicas, 4], filled with -1; scratch.
        entry_ready: int64[e * replicas, 2]; scratch.
        asked: bool[e], false; scratch.
        seen: bool[blocks], false; scratch.
        state: int64[replicas, 2], filled with 0 and -1; scratch.
        hit_blocks: int32[m], out.
        segments: int32[any, 11], out: blocks up to the deepest stored mark of each lookup, in order.

    Returns:
        Number of segments, or ``SEGMENTS_FULL``. O(blocks + marks above the lookups · replicas).
    """
    replicas = state.shape[0]
    n = reset = 0
    for i in range(at_us.shape[0]):
        now = at_us[i]
        mine = replica[i]
        while reset < reset_at_us.shape[0] and reset_at_us[reset] <= now:
            state[reset_replica[reset], _RESETS] += 1
            state[reset_replica[reset], _LAST] = reset
            reset += 1

        known = keyed_blocks[i]  # how much any lookup had before; whoever wants hits alone need not know
        known_block = last_block[i]
        while explain and known_block >= 0 and not seen[known_block]:
            seen[known_block] = True
            known_block = parent[known_block]
            known -= 1

        first_mark, end_mark = mark_offset[i], mark_offset[i + 1]
        cap = -1
        if end_mark > first_mark and entry_depth[mark_entry[end_mark - 1]] >= minimum_blocks[i]:
            cap = mark_entry[end_mark - 1]
        hit = -1
        begin = n
        if cap >= 0:
            hi = entry_depth[cap]
            hi_block = int(entry_block[cap])
            own = own_reset = resident = other = other_reset = kept = -1
            if known < hi:
                if n == segments.shape[0]:
                    return SEGMENTS_FULL
                segments[n, LOOKUP] = i
                segments[n, FIRST] = known
                segments[n, END] = hi
                segments[n, END_BLOCK] = hi_block
                segments[n, CLASS] = COLD
                segments[n, OWN] = segments[n, OWN_RESET] = segments[n, RESIDENT] = -1
                segments[n, ELSE] = segments[n, ELSE_RESET] = segments[n, KEPT] = -1
                n += 1
                hi = known
                hi_block = known_block
            kind = NO_BREAKPOINT
            entry = cap
            while entry >= 0 and hi > 0:
                depth = entry_depth[entry]
                found = COLD
                new_own = new_reset = new_other = new_other_reset = new_kept = -1
                new_resident = resident
                row = entry * replicas + mine
                used = entries[row, USED]
                if used >= 0 or replicas > 1 or asked[entry]:
                    ordinal = -1
                    for r in range(replicas):
                        if entries[entry * replicas + r, USED] >= 0:
                            ordinal = entries[entry * replicas + r, ORDINAL]
                    near = look_back[i] < 0 or ordinal < 0
                    if not near:
                        for j in range(first_mark, end_mark):
                            if entry_depth[mark_entry[j]] >= depth and (
                                mark_ordinal[j] < 0 or 0 <= mark_ordinal[j] - ordinal < look_back[i]
                            ):
                                near = True
                    if used >= 0:
                        new_own = used
                        new_kept = entries[row, MARK]
                        ttl_us = mark_ttl_us[new_kept]
                        if not near:
                            found = OUT_OF_REACH
                        elif entries[row, EPOCH] != state[mine, _RESETS]:
                            found = INVALIDATED
                            new_reset = state[mine, _LAST]
                        elif ttl_us >= 0 and now - at_us[used] > ttl_us:
                            found = EXPIRED
                        elif waits and in_flight(
                            entry_ready, row, now, depth, read_blocks[i], wanted_blocks[i]
                        ):
                            found = IN_FLIGHT
                        else:
                            found = HIT
                    if found != HIT and replicas > 1:
                        holder = latest = -1
                        for r in range(replicas):
                            there = entries[entry * replicas + r, USED]
                            if r == mine or there < 0:
                                continue
                            lives = entries[entry * replicas + r, EPOCH] == state[r, _RESETS]
                            ttl_us = mark_ttl_us[entries[entry * replicas + r, MARK]]
                            if (
                                near
                                and lives
                                and (ttl_us < 0 or now - at_us[there] <= ttl_us)
                                and live_from_us[r] <= now < live_to_us[r]
                                and (
                                    holder < 0
                                    or at_us[there] > at_us[entries[entry * replicas + holder, USED]]
                                    or (
                                        at_us[there] == at_us[entries[entry * replicas + holder, USED]]
                                        and rank[r] < rank[holder]
                                    )
                                )
                            ):
                                holder = r
                            if (
                                latest < 0
                                or at_us[there] > at_us[entries[entry * replicas + latest, USED]]
                                or (
                                    at_us[there] == at_us[entries[entry * replicas + latest, USED]]
                                    and rank[r] < rank[latest]
                                )
                            ):
                                latest = r
                        if new_resident < 0:
                            new_resident = holder
                        if used < 0 and latest >= 0:
                            if not near:
                                found = OUT_OF_REACH
                            elif holder >= 0:
                                found = MISROUTED
                            else:
                                found = ELSEWHERE
                                new_other = entries[entry * replicas + latest, USED]
                                new_kept = entries[entry * replicas + latest, MARK]
                                if entries[entry * replicas + latest, EPOCH] != state[latest, _RESETS]:
                                    new_other_reset = state[latest, _LAST]
                    if found == COLD and asked[entry]:
                        found = BELOW_MINIMUM
                better = found < kind or (
                    found == kind
                    and found in (EXPIRED, INVALIDATED, ELSEWHERE)
                    and max(new_own, new_other) > max(own, other)
                )
                if better or new_resident != resident:
                    if explain and depth < hi:
                        if n == segments.shape[0]:
                            return SEGMENTS_FULL
                        segments[n, LOOKUP] = i
                        segments[n, FIRST] = depth
                        segments[n, END] = hi
                        segments[n, END_BLOCK] = hi_block
                        segments[n, CLASS] = kind
                        segments[n, OWN] = own
                        segments[n, OWN_RESET] = own_reset
                        segments[n, RESIDENT] = resident
                        segments[n, ELSE] = other
                        segments[n, ELSE_RESET] = other_reset
                        segments[n, KEPT] = kept
                        n += 1
                    hi = depth
                    hi_block = int(entry_block[entry])
                    resident = new_resident
                    if better:
                        kind = found
                        own = new_own
                        own_reset = new_reset
                        other = new_other
                        other_reset = new_other_reset
                        kept = new_kept
                    if found == HIT:
                        hit = entry
                        resident = -1
                        break
                entry = entry_parent[entry]
            if explain and hi > 0:
                if n == segments.shape[0]:
                    return SEGMENTS_FULL
                segments[n, LOOKUP] = i
                segments[n, FIRST] = 0
                segments[n, END] = hi
                segments[n, END_BLOCK] = hi_block
                segments[n, CLASS] = kind
                segments[n, OWN] = own
                segments[n, OWN_RESET] = own_reset
                segments[n, RESIDENT] = resident
                segments[n, ELSE] = other
                segments[n, ELSE_RESET] = other_reset
                segments[n, KEPT] = kept
                n += 1
            low, high = begin, n - 1  # they were found from the tail to the head
            while low < high:
                for column in range(COLUMNS):
                    held = segments[low, column]
                    segments[low, column] = segments[high, column]
                    segments[high, column] = held
                low += 1
                high -= 1

        hit_blocks[i] = entry_depth[hit] if hit >= 0 else 0
        entry = hit if refresh[i] else -1
        behind = end_mark - 1
        while entry >= 0:
            row = entry * replicas + mine
            if alive(entries, row, mark_ttl_us, at_us, now, state[mine, _RESETS]):
                entries[row, USED] = i
                if takes_ttl[i]:
                    while behind > first_mark and entry_depth[mark_entry[behind - 1]] >= entry_depth[entry]:
                        behind -= 1
                    entries[row, MARK] = behind
            entry = entry_parent[entry]
        ready = ready_us[i]
        if ready == _NO_TIME:
            ready = now + int(us_per_token * (prompt_tokens[i] - hit_blocks[i] * block_size) + 0.5)
            if latest_us[i] != _NO_TIME:
                ready = min(ready, latest_us[i])
        readable = max(ready, readable_us[i])
        for j in range(first_mark, end_mark):
            entry = mark_entry[j]
            while entry >= 0:
                asked[entry] = True
                row = entry * replicas + mine
                lives = alive(entries, row, mark_ttl_us, at_us, now, state[mine, _RESETS])
                if entry_depth[entry] >= minimum_blocks[i]:
                    # What it read where it was logged was stored before: the usage of others tells nothing of a copy
                    # that is stored only here, under a shorter lifetime.
                    surely = ready if read_blocks[i] >= entry_depth[entry] else readable
                    if lives:
                        entry_ready[row, READY] = min(entry_ready[row, READY], ready)
                        entry_ready[row, READABLE] = min(entry_ready[row, READABLE], surely)
                        if takes_ttl[i]:
                            entries[row, MARK] = j
                    else:
                        entry_ready[row, READY] = ready
                        entry_ready[row, READABLE] = surely
                        entries[row, ORDINAL] = mark_ordinal[j]
                        entries[row, MARK] = j
                    if refresh[i] or not lives:
                        entries[row, USED] = i
                        entries[row, EPOCH] = state[mine, _RESETS]
                every, at_first = every_tokens[i], first_tokens[i]
                entry = entry_parent[entry] if every > 0 else -1
                while entry >= 0 and not ends_interval(entry_depth[entry], every, at_first, block_size):
                    entry = entry_parent[entry]
        entry = answer_entry[i]
        if entry >= 0 and end_mark > first_mark and entry_depth[entry] >= minimum_blocks[i]:
            block = int(entry_block[entry])
            while explain and block >= 0 and not seen[block]:
                seen[block] = True
                block = parent[block]
            row = entry * replicas + mine
            lives = alive(entries, row, mark_ttl_us, at_us, now, state[mine, _RESETS])
            answered = max(ready, answer_ready_us[i])
            if not lives:
                entry_ready[row] = answered
                entries[row, ORDINAL] = -1
                entries[row, MARK] = end_mark - 1
            entry_ready[row, READY] = min(entry_ready[row, READY], answered)
            entry_ready[row, READABLE] = min(entry_ready[row, READABLE], answered)
            if refresh[i] or not lives:
                entries[row, USED] = i
                entries[row, EPOCH] = state[mine, _RESETS]
            asked[entry] = True
    return n
