"""The vLLM cache replayed on extents of chains: exact hits, admission times and removals, to the end or up to a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel
from prefixledger.replay.extent_lists_kernel import heap_pop, heap_push, pinned_hits, reaches_a_key
from prefixledger.replay.extent_moves_kernel import (
    ENTRY,
    EPOCH,
    FULL,
    NAMELESS,
    SLOTS,
    UNKEYED,
    forget_all,
    key_blocks,
    pin_hits,
    release,
    remove_blocks,
)
from prefixledger.replay.extent_pool_kernel import (
    ADMITS,
    ADMITTED,
    AGE,
    BLANK,
    BLOCKED,
    EXPIRED,
    FREE,
    HEAD,
    HEAP,
    NOW,
    PAUSED,
    REMOVED,
    RESET,
    RUNNING,
    TURNS,
    open_pool,
)
from prefixledger.replay.extent_preempt_kernel import (
    END_US,
    FIRST_US,
    OUTPUT,
    STACK,
    TOKENS,
    TURN,
    make_room,
    plan_growth,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IGNORE, AT_RELEASE, AS_DECODED = range(3)
_NOTHING, _ADMIT, _RESET, _GROW, _RELEASE = range(5)
NEVER = 1 << 62


@kernel
def replay_extents(
    rows: NDArray[np.int32],
    row_start: NDArray[np.int64],
    arrival_us: NDArray[np.int64],
    prompt_tokens: NDArray[np.int64],
    keyed_blocks: NDArray[np.int64],
    reach_blocks: NDArray[np.int64],
    hold_us: NDArray[np.int64],
    prefill_us: NDArray[np.int64],
    output_tokens: NDArray[np.int64],
    output_keyed_blocks: NDArray[np.int64],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    reset_start: NDArray[np.int64],
    reset_at_us: NDArray[np.int64],
    reset_force: NDArray[np.bool_],
    row_end: NDArray[np.int64],
    block_size: int,
    capacity: int,
    most_running: int,
    ttl_us: int,
    output: int,
    hit_saves_us: float,
    in_line: bool,
    log: bool,
    until_us: int,
    all_chains: NDArray[np.int32],
    all_extents: NDArray[np.int32],
    all_cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    all_heap_at: NDArray[np.int64],
    all_heap_what: NDArray[np.int64],
    user_first: NDArray[np.int32],
    decode: NDArray[np.int64],
    pools: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    admitted_us: NDArray[np.int64],
    finished_us: NDArray[np.int64],
    refused: NDArray[np.bool_],
    reset_ignored: NDArray[np.bool_],
    first_eviction_us: NDArray[np.int64],
    preempted: NDArray[np.int32],
    recompute_tokens: NDArray[np.int64],
) -> int:
    """Replay the lookups of one pool, up to a moment; called again with the same tables it goes on from there.

    With tables for each replica, lookups may be added at the ends of their queues between two calls.

    The oldest copies of a chain's resident blocks lie in its primary list, extents that tile ``[0, LENGTH)``; younger
    copies wait in the side list, oldest first. A lookup reads ``LENGTH``; a pin splits the extent in which a request
    stops; a release joins extents again where nothing came between. Blank slots are only counted: they always go first.
    ``in_line`` only those are blank that were never used, or that lost their key while they were free.

    Rules: vLLM 0.33 (``BlockPool``, ``KVCacheManager``). At equal times: growth, releases, resets, admissions; growth
    and releases by (time, row). The head of the queue is tried again after a release or a preemption only. A prompt larger
    than the cache is refused when its turn comes. With a TTL a copy loses its key, and a free one its place, once it was last used by an
    admission more than ``ttl_us`` ago, pinned or not; a request older than that, or than a reset, keys nothing more.
    Output that finds no room: all or nothing ``AT_RELEASE``. ``AS_DECODED`` the request that was admitted last is
    preempted: its blocks are released, keys and all, and it stands at the head of those that wait until prompt and output
    so far fit again; that is looked up and prefilled anew, and only what output is left follows. A request that fills the
    whole cache, and any under a TTL, which no engine has, stops growing instead.

    Time O(path entries + pieces moved + output blocks), amortised; memory by live extents, never by capacity.

    Args:
        rows: int32[any], the queue of each replica: its rows in order of arrival.
        row_start: int64[replicas + 1], where each replica's queue starts in ``rows``.
        arrival_us: int64[n], not falling within a replica.
        prompt_tokens: int64[n], at least 1.
        keyed_blocks: int64[n], full blocks of the prompt with a known key; further full blocks only take room.
        reach_blocks: int64[n], blocks that are looked up at all; none behind them hits, also when it is resumed.
        hold_us: int64[n], from admission to release if nothing is hit.
        prefill_us: int64[n], the part of it before the first output token.
        output_tokens: int64[n].
        output_keyed_blocks: int64[n], like ``keyed_blocks`` for prompt + output.
        path_offset: int64[n + 1], row i walks ``path_chain[path_offset[i]:path_offset[i + 1]]``, root first.
        path_chain: int32[entries].
        chain_length: int32[chains], blocks of each chain.
        reset_start: int64[replicas + 1], where each replica's resets start.
        reset_at_us: int64[resets], not falling within a replica.
        reset_force: bool[resets], false: ignored while a request runs on the replica.
        row_end: int64[replicas], where each replica's queue ends.
        block_size: Tokens per block.
        capacity: Usable blocks per replica.
        most_running: Requests that may run on a replica at a time; the next waits for a release as for room.
        ttl_us: -1 for none.
        output: ``IGNORE``, ``AT_RELEASE`` or ``AS_DECODED``.
        hit_saves_us: How much a hit block shortens the prefill.
        in_line: Whether freed slots without a key go behind all others (vLLM up to 0.22), else before them (from 0.24 on).
        log: Whether to fill ``removals``.
        until_us: Last moment that is replayed, all of it; ``NEVER``: to the end.
        all_chains: int32[t, chains, 8], zeros; scratch, t = 1 for one replica after the other to the end, else replicas.
        all_extents: int32[t, any, 16]; scratch.
        all_cells: int32[t, any, 4]; scratch.
        requests: int32[n, 8]; scratch.
        all_heap_at: int64[t, 2 n]; scratch.
        all_heap_what: int64[t, 2 n]; scratch: row for growth, n + row for a release.
        user_first: int32[n], zeros; scratch, used with a TTL only: head of the row's list of blocks, deepest first.
        decode: int64[n, 6]; scratch, used ``AS_DECODED`` only.
        pools: int64[replicas, 16], zeros; what each replica is at.
        removals: int32[any, 9], out, by replica and time: lookup (-1 expired), replica, chain, lo, hi, blocks of the chain
            that are resident after it, expired, row admitted last, by an admission.
        removal_at_us: int64[any], out; for expired blocks the last moment at which they were valid.
        hit_blocks: int32[n], out, zeros.
        admitted_us: int64[n], out.
        finished_us: int64[n], out.
        refused: bool[n], out, zeros.
        reset_ignored: bool[resets], out, zeros.
        first_eviction_us: int64[replicas], out, filled with -1.
        preempted: int32[n], out, zeros: how often.
        recompute_tokens: int64[n], out, zeros: tokens computed again after that.

    Returns:
        The number of removals, or which scratch array was too small.
    """
    n = arrival_us.shape[0]
    removed = epoch = 0
    for replica in range(row_end.shape[0]):
        table = min(replica, all_chains.shape[0] - 1)
        chains, extents, cells = all_chains[table], all_extents[table], all_cells[table]
        heap_at, heap_what, pool = all_heap_at[table], all_heap_what[table], pools[replica]
        reset_end, end = reset_start[replica + 1], row_end[replica]
        if pool[AGE] == 0:
            open_pool(extents, cells, pool, replica, capacity, row_start, reset_start, epoch + 1)
        pool[REMOVED] = removed
        epoch, running, turn, blocked = pool[AGE], pool[RUNNING], pool[TURNS], pool[BLOCKED] != 0
        head, to_expire, reset, now = pool[HEAD], pool[EXPIRED], pool[RESET], pool[NOW]
        while True:
            at = NEVER
            action = _NOTHING
            resumed = pool[PAUSED] >= 0
            if not blocked and (resumed or head < end):
                at = now if resumed else max(arrival_us[rows[head]], now)
                action = _ADMIT
            if reset < reset_end and reset_at_us[reset] <= at:
                at = reset_at_us[reset]
                action = _RESET
            if pool[HEAP] > 0 and heap_at[0] <= at:
                at = heap_at[0]
                action = _GROW if heap_what[0] < n else _RELEASE
            if at > until_us:
                at = until_us
                action = _NOTHING
            if ttl_us >= 0 and to_expire < head and admitted_us[rows[to_expire]] + ttl_us < at:
                row = rows[to_expire]
                to_expire += 1
                at = admitted_us[row] + ttl_us
                status = remove_blocks(
                    chains, extents, user_first, removals, removal_at_us, pool, row, at, -1, ttl_us, log
                )
                if status != 0:
                    return status
                continue
            if action == _NOTHING:
                break
            now = at
            pool[ADMITS] = action == _ADMIT
            if action == _RESET:
                if running > 0 and not reset_force[reset]:
                    reset_ignored[reset] = True
                else:
                    epoch += 1
                    forget_all(extents, pool)
                    while to_expire < head:
                        user_first[rows[to_expire]] = 0
                        to_expire += 1
                reset += 1
                continue

            # What the step asks for: slots, and blocks to key from the row's place on its path.
            need = n_keyed = 0
            if action == _ADMIT:
                row = pool[PAUSED] if resumed else rows[head]
                tokens = decode[row, TOKENS] if resumed else prompt_tokens[row]
                slots = (tokens + block_size - 1) // block_size
                if slots > capacity:
                    refused[row] = True
                    admitted_us[row] = finished_us[row] = now
                    head += 1
                    continue
                full = tokens // block_size
                keyed = min(output_keyed_blocks[row], full) if resumed else keyed_blocks[row]
                limit = min((tokens - 1) // block_size, keyed, reach_blocks[row])
                entry = path_offset[row]
                blocked = running >= most_running
                if slots > pool[FREE] and not blocked:  # hits that others pin need no room
                    pinned = pinned_hits(path_chain, chain_length, chains, extents, entry, limit, epoch)
                    blocked = slots - pinned > pool[FREE]
                if blocked:
                    continue
                if resumed:
                    pool[PAUSED] = decode[row, STACK]
                else:
                    head += 1
                running += 1
                requests[row, ENTRY] = entry
                hits = pin_hits(
                    path_chain, chain_length, chains, extents, cells, requests, user_first, pool, row, limit, epoch,
                    ttl_us,
                )  # fmt: skip
                if hits < 0:
                    return hits
                need = slots - hits
                n_keyed = keyed - hits
                requests[row, UNKEYED] = slots - full
                requests[row, NAMELESS] = full - keyed
                requests[row, EPOCH] = epoch
                prefill = prefill_us[row] * tokens // prompt_tokens[row] if resumed else prefill_us[row]
                first_us = now + prefill - min(prefill, int(hits * hit_saves_us + 0.5))
                if resumed:
                    finished_us[row] = first_us + decode[row, END_US]
                    recompute_tokens[row] += tokens - hits * block_size
                else:
                    finished_us[row] = first_us + hold_us[row] - prefill
                    hit_blocks[row], pool[ADMITTED] = hits, row
                    admitted_us[row] = now
                if output == AS_DECODED:
                    if not resumed:
                        decode[row, TOKENS], decode[row, OUTPUT] = tokens, output_tokens[row]
                    decode[row, FIRST_US] = first_us
                    decode[row, END_US] = finished_us[row]
                    decode[row, TURN] = turn
                    turn += 1
                heap_push(heap_at, heap_what, pool[HEAP], finished_us[row], n + row)
                pool[HEAP] += 1
            else:
                row = heap_what[0] if action == _GROW else heap_what[0] - n
                heap_pop(heap_at, heap_what, pool[HEAP])
                pool[HEAP] -= 1
                slots = requests[row, SLOTS]
                full = requests[row, FULL]
                # After a reset, or once its own blocks have expired, it keys nothing more.
                alive = requests[row, EPOCH] == epoch and (ttl_us < 0 or now - admitted_us[row] <= ttl_us)
                if action == _GROW:
                    to_slot, to_full = slots * block_size + 1, (full + 1) * block_size
                    if to_slot <= to_full:
                        if pool[FREE] == 0:
                            if ttl_us >= 0 or slots == capacity:
                                continue  # it stops growing
                            status = make_room(
                                chains,
                                extents,
                                cells,
                                requests,
                                user_first,
                                heap_at,
                                heap_what,
                                decode,
                                pool,
                                preempted,
                                row,
                                now,
                                capacity * block_size,
                                epoch,
                                in_line,
                            )
                            if status < 0:
                                return status
                            running -= status
                            blocked = False
                            if pool[PAUSED] == row:
                                continue
                        need = 1
                        slots += 1
                        requests[row, UNKEYED] += 1
                    if to_full <= to_slot:
                        if alive:
                            requests[row, UNKEYED] -= 1
                            if full < output_keyed_blocks[row]:
                                n_keyed = 1
                            else:
                                requests[row, NAMELESS] += 1
                        full += 1
                elif output == AT_RELEASE and output_tokens[row] > 0:
                    tokens = prompt_tokens[row] + output_tokens[row] - 1
                    need = (tokens + block_size - 1) // block_size - slots
                    if need > pool[FREE]:
                        need = 0
                    else:
                        requests[row, UNKEYED] += need
                        if alive:
                            n_keyed = output_keyed_blocks[row] - keyed_blocks[row]
                            nameless = tokens // block_size - output_keyed_blocks[row]
                            requests[row, UNKEYED] -= n_keyed + nameless - requests[row, NAMELESS]
                            requests[row, NAMELESS] = nameless
            if output == AS_DECODED and action != _RELEASE and decode[row, OUTPUT] > 1:
                plan_growth(heap_at, heap_what, decode, pool, row, slots, full, block_size)
            requests[row, SLOTS] = slots
            requests[row, FULL] = full

            status = 0
            pool[FREE] -= need
            if need > pool[BLANK]:
                evicted = need - pool[BLANK]
                if first_eviction_us[replica] < 0 and (not in_line or reaches_a_key(extents, evicted)):
                    first_eviction_us[replica] = now
                pool[BLANK] = 0
                status = remove_blocks(
                    chains, extents, user_first, removals, removal_at_us, pool, row, now, evicted, ttl_us, log
                )
            else:
                pool[BLANK] -= need
            if status == 0 and n_keyed > 0:
                status = key_blocks(
                    path_chain,
                    chain_length,
                    chains,
                    extents,
                    cells,
                    requests,
                    user_first,
                    row,
                    n_keyed,
                    epoch,
                    ttl_us,
                )
            if status != 0:
                return status
            if action == _RELEASE:
                running -= 1
                blocked = False
                status = release(
                    chains, extents, cells, requests, user_first, pool, row, alive, ttl_us, in_line
                )
                if status != 0:
                    return status
        removed = pool[REMOVED]
        pool[AGE], pool[RUNNING], pool[TURNS], pool[BLOCKED] = epoch, running, turn, blocked
        pool[HEAD], pool[EXPIRED], pool[RESET], pool[NOW] = head, to_expire, reset, now
    return removed
