"""The vLLM cache over a lower tier whose blocks are read but not cached above again, slot by slot and block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel, part
from prefixledger.replay.below_kernel import (
    CHUNK,
    KEEPS_OUTPUT,
    SHARED,
    WRITE,
    empty_below,
    evict,
    list_read,
    reach_below,
    use_below,
)
from prefixledger.replay.extent_lists_kernel import heap_drop, heap_pop, heap_push
from prefixledger.replay.extent_pool_kernel import (
    ADMITS,
    ADMITTED,
    AGE,
    BLANK,
    BLOCKED,
    FREE,
    HEAD,
    HEAP,
    NOW,
    PAUSED,
    REMOVED,
    REPLICA,
    RESET,
    RUNNING,
    TURNS,
)
from prefixledger.replay.extent_preempt_kernel import (
    END_US,
    FIRST_US,
    OUTPUT,
    STACK,
    TOKENS,
    TURN,
    plan_growth,
)
from prefixledger.replay.extents_kernel import AS_DECODED, AT_RELEASE, NEVER
from prefixledger.replay.slots_kernel import (
    CELLS_FULL,
    COMING,
    DEPTH,
    ENTRY,
    EPOCH,
    FIRST,
    FIRST_EPOCH,
    FULL,
    LENGTH,
    OLDER,
    SLOT,
    SLOTS,
    STORED,
    count_hits,
    forget_all,
    hold_slots,
    key_deepest,
    pin_hits,
    release,
)
from prefixledger.replay.tier_kernel import SELECTIVE, THROUGH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NOTHING, _ADMIT, _RESET, _GROW, _RELEASE = range(5)
_RANK = (9, 2, 1, 0, 0)


@part
def make_room(
    slots: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    heap_at: NDArray[np.int64],
    heap_what: NDArray[np.int64],
    decode: NDArray[np.int64],
    pool: NDArray[np.int64],
    preempted: NDArray[np.int32],
    grows: int,
    most_tokens: int,
    in_line: bool,
) -> None:
    """Preempt the request that was admitted last, until there is room or it is ``grows`` itself, see ``replay_extents``."""
    n, now = requests.shape[0], pool[NOW]
    last = -1
    while pool[FREE] == 0 and last != grows:
        last = -1
        for i in range(pool[HEAP]):
            row = heap_what[i] - n
            if row >= 0 and (last < 0 or decode[row, TURN] > decode[last, TURN]):
                last = row
        pool[HEAP] = heap_drop(heap_at, heap_what, pool[HEAP], n + last)
        pool[HEAP] = heap_drop(heap_at, heap_what, pool[HEAP], last)
        steps, first_us = decode[last, OUTPUT] - 1, decode[last, FIRST_US]
        lasts_us = decode[last, END_US] - first_us
        got = 0
        left_us = decode[last, END_US] - max(first_us, now)
        if steps > 0:
            if now >= first_us:
                over = ((now - first_us) * steps + lasts_us - 1) // lasts_us if lasts_us > 0 else 0
                got = min(1 + over, steps)
            left_us = (steps - got) * lasts_us // steps
        decode[last, TOKENS] = min(decode[last, TOKENS] + got, most_tokens)
        decode[last, OUTPUT] -= got
        decode[last, END_US] = left_us
        decode[last, STACK] = pool[PAUSED]
        pool[PAUSED] = last
        preempted[last] += 1
        pool[RUNNING] -= 1
        pool[BLOCKED] = 0
        release(slots, cells, requests, pool, last, in_line)


@kernel
def replay_unpromoted(
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
    reset_start: NDArray[np.int64],
    reset_at_us: NDArray[np.int64],
    reset_force: NDArray[np.bool_],
    chains: NDArray[np.int64],
    rules: NDArray[np.int64],
    first_replica: int,
    block_size: int,
    capacity: int,
    most_running: int,
    output: int,
    hit_saves_us: float,
    in_line: bool,
    all_slots: NDArray[np.int32],
    all_blocks: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    all_heap_at: NDArray[np.int64],
    all_heap_what: NDArray[np.int64],
    decode: NDArray[np.int64],
    pools: NDArray[np.int64],
    ring: NDArray[np.int32],
    gone: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    admitted_us: NDArray[np.int64],
    finished_us: NDArray[np.int64],
    refused: NDArray[np.bool_],
    reset_ignored: NDArray[np.bool_],
    first_eviction_us: NDArray[np.int64],
    preempted: NDArray[np.int32],
    recompute_tokens: NDArray[np.int64],
    host_blocks: NDArray[np.int32],
) -> int:
    """Replay the replicas that share a tier, in time; where none is shared, one replica.

    The cache above goes by the rules of ``replay_extents``, without a TTL, the tier by those of ``tier_kernel.replay_tier``,
    inclusive. What the tier has behind the hits above is read into slots of the request that get no key and are blank at its
    release. What it computes behind them is keyed as ever: blocks whose parent is not there, which no lookup reaches before
    somebody computes the parent. So the residency of a path has holes, and it is kept block by block.

    A preempted request reads again when it is admitted again; the tier takes no notice of it then, nor do the books. At
    equal times: growth, releases, resets, admissions, these by row over all replicas.

    Args:
        rows: int32[any], the queue of each replica: its rows in order of arrival.
        row_start: int64[replicas + 1].
        arrival_us: int64[n].
        prompt_tokens: int64[n].
        keyed_blocks: int64[n].
        reach_blocks: int64[n].
        hold_us: int64[n].
        prefill_us: int64[n].
        output_tokens: int64[n].
        output_keyed_blocks: int64[n].
        path_offset: int64[n + 1].
        path_chain: int32[entries].
        reset_start: int64[replicas + 1].
        reset_at_us: int64[resets].
        reset_force: bool[resets].
        chains: int64[c, 3]: number of the first block, depth, length.
        rules: int64[6], of the tier.
        first_replica: Replicas from here on share the tier, as many as there are ``pools``.
        block_size: Tokens per block.
        capacity: Usable blocks per replica.
        most_running: Requests that may run on a replica at a time.
        output: ``IGNORE``, ``AT_RELEASE`` or ``AS_DECODED``.
        hit_saves_us: How much a block that hits above shortens the prefill.
        in_line: Whether freed slots without a key go behind all others.
        all_slots: int32[replicas of the tier, any, 6], zeros; scratch.
        all_blocks: int32[replicas of the tier, blocks, 3], zeros; scratch.
        cells: int32[any, 2], zeros; scratch.
        requests: int32[n, 8]; scratch.
        all_heap_at: int64[replicas of the tier, 2 n]; scratch.
        all_heap_what: int64[replicas of the tier, 2 n]; scratch.
        decode: int64[n, 6]; scratch, used ``AS_DECODED`` only.
        pools: int64[replicas of the tier, 16], zeros; scratch.
        ring: int32[blocks + 2, 3]; scratch, with the chain of each block.
        gone: int64[any, 8], out, in order of time: who took the last place, replica, chain, first, end, row admitted last, by
            an admission, when. Of a shared tier what left a cache above it, else what left both.
        hit_blocks: int32[n], out, zeros: hits above.
        admitted_us: int64[n], out.
        finished_us: int64[n], out.
        refused: bool[n], out, zeros.
        reset_ignored: bool[resets], out, zeros.
        first_eviction_us: int64[replicas], out, filled with -1.
        preempted: int32[n], out, zeros.
        recompute_tokens: int64[n], out, zeros.
        host_blocks: int32[n], out, zeros: blocks read from the tier.

    Returns:
        Rows of ``gone``, or which table was too small. O(blocks of all prompts and outputs).
    """
    n = arrival_us.shape[0]
    empty_below(ring)
    cells[0, SLOT] = 1
    for r in range(pools.shape[0]):
        pool, replica = pools[r], first_replica + r
        all_slots[r, 0, OLDER] = 1
        pool[REPLICA], pool[FREE], pool[BLANK], pool[NOW] = replica, capacity, capacity, -NEVER
        pool[ADMITTED], pool[PAUSED] = -1, -1
        pool[HEAD], pool[RESET] = row_start[replica], reset_start[replica]
    removed = 0
    while True:
        # Who acts next: the earliest, then by kind of action, then by row.
        now, action, who, chosen = NEVER, _NOTHING, 0, 0
        for r in range(pools.shape[0]):
            pool, replica = pools[r], first_replica + r
            at, kind, row = NEVER, _NOTHING, 0
            if not pool[BLOCKED] and (pool[PAUSED] >= 0 or pool[HEAD] < row_start[replica + 1]):
                row = rows[pool[HEAD]] if pool[PAUSED] < 0 else pool[PAUSED]
                at = max(arrival_us[row], pool[NOW])
                kind = _ADMIT
            if pool[RESET] < reset_start[replica + 1] and reset_at_us[pool[RESET]] <= at:
                at, kind, row = reset_at_us[pool[RESET]], _RESET, 0
            if pool[HEAP] > 0 and all_heap_at[r, 0] <= at:
                at, row = all_heap_at[r, 0], all_heap_what[r, 0]
                kind = _GROW if row < n else _RELEASE
            before = _RANK[kind] < _RANK[action] or (_RANK[kind] == _RANK[action] and row < who)
            if kind != _NOTHING and (at < now or (at == now and before)):
                now, action, who, chosen = at, kind, row, r
        if action == _NOTHING:
            return removed
        pool, slots, blocks = pools[chosen], all_slots[chosen], all_blocks[chosen]
        heap_at, heap_what = all_heap_at[chosen], all_heap_what[chosen]
        pool[NOW], pool[REMOVED], pool[ADMITS] = now, removed, action == _ADMIT
        if action == _RESET:
            reset = pool[RESET]
            pool[RESET] += 1
            if pool[RUNNING] > 0 and not reset_force[reset]:
                reset_ignored[reset] = True
                continue
            pool[AGE] += 1
            forget_all(slots, blocks, pool)
            if not rules[SHARED]:
                empty_below(ring)
            continue

        row = who - n if action == _RELEASE else who
        first_entry, end_entry = path_offset[row], path_offset[row + 1]
        if action == _ADMIT:
            resumed = pool[PAUSED] >= 0
            tokens = decode[row, TOKENS] if resumed else prompt_tokens[row]
            goal, filled = (tokens + block_size - 1) // block_size, tokens // block_size
            if goal > capacity:
                refused[row] = True
                admitted_us[row] = finished_us[row] = now
                pool[HEAD] += 1
                continue
            keyed = min(output_keyed_blocks[row], filled) if resumed else keyed_blocks[row]
            limit = min((tokens - 1) // block_size, keyed, reach_blocks[row])
            hits, pinned = count_hits(path_chain, chains, slots, blocks, first_entry, end_entry, limit)
            if (
                pool[RUNNING] >= most_running or goal - pinned > pool[FREE]
            ):  # hits that others pin need no room
                pool[BLOCKED] = 1
                continue
            reach = reach_below(path_chain, chains, ring, rules, first_entry, end_entry, hits, keyed, limit)
            pool[RUNNING] += 1
            requests[row, EPOCH], requests[row, STORED], requests[row, ENTRY] = pool[AGE], keyed, first_entry
            if pin_hits(path_chain, chains, slots, blocks, cells, requests, pool, row, hits) != 0:
                return CELLS_FULL
            if resumed:
                pool[PAUSED] = decode[row, STACK]
            else:
                pool[HEAD] += 1
                pool[ADMITTED], requests[row, FIRST_EPOCH] = row, pool[AGE]
                for entry in range(first_entry, end_entry):
                    c = path_chain[entry]
                    depth = chains[c, DEPTH]
                    for index in range(max(hits, depth), min(keyed, depth + chains[c, LENGTH])):
                        blocks[chains[c, FIRST] - depth + index, COMING] = row + 1
                written = reach if rules[WRITE] == SELECTIVE else 0
                if rules[WRITE] == THROUGH:
                    written = keyed // rules[CHUNK] * rules[CHUNK]
                status = use_below(
                    path_chain, chains, blocks, ring, rules, pool, gone, first_entry, end_entry, 0, keyed, written, row
                )  # fmt: skip
                if status != 0:
                    return status
            size, keyed_from = hits, reach
            prefill = prefill_us[row] * tokens // prompt_tokens[row] if resumed else prefill_us[row]
            first_us = now + prefill - min(prefill, int(hits * hit_saves_us + 0.5))
            if resumed:
                finished_us[row] = first_us + decode[row, END_US]
                recompute_tokens[row] += tokens - reach * block_size
            else:
                finished_us[row] = first_us + hold_us[row] - prefill
                hit_blocks[row], host_blocks[row], admitted_us[row] = hits, reach - hits, now
            if output == AS_DECODED:
                if not resumed:
                    decode[row, TOKENS], decode[row, OUTPUT] = tokens, output_tokens[row]
                decode[row, FIRST_US], decode[row, END_US] = first_us, finished_us[row]
                decode[row, TURN] = pool[TURNS]
                pool[TURNS] += 1
            heap_push(heap_at, heap_what, pool[HEAP], finished_us[row], n + row)
            pool[HEAP] += 1
        else:
            heap_pop(heap_at, heap_what, pool[HEAP])
            pool[HEAP] -= 1
            size, full = int(requests[row, SLOTS]), int(requests[row, FULL])
            goal, filled = size, full
            if action == _GROW:
                to_slot, to_full = size * block_size + 1, (full + 1) * block_size
                if to_slot <= to_full:
                    if pool[FREE] == 0:
                        if size == capacity:
                            continue  # it stops growing
                        make_room(
                            slots, cells, requests, heap_at, heap_what, decode, pool, preempted, row,
                            capacity * block_size, in_line,
                        )  # fmt: skip
                        if pool[PAUSED] == row:
                            continue
                    goal += 1
                if to_full <= to_slot:
                    filled += 1
            elif output == AT_RELEASE and output_tokens[row] > 0:
                tokens = prompt_tokens[row] + output_tokens[row] - 1
                if (tokens + block_size - 1) // block_size - size <= pool[FREE]:
                    goal, filled = (tokens + block_size - 1) // block_size, tokens // block_size
            keyed_from, keyed = size, min(output_keyed_blocks[row], filled)

        status = evict(chains, slots, blocks, ring, rules, pool, gone, first_eviction_us, goal - size, row)
        alive = requests[row, EPOCH] == pool[AGE]  # a request that a reset overtook keys nothing more
        if status == 0 and action != _ADMIT and alive and size > full and filled > full:
            known = full < output_keyed_blocks[row]
            key_deepest(path_chain, chains, slots, blocks, cells, requests, row, known)
        if status == 0:
            keyed_to, unknown_to = (keyed, filled) if alive else (0, 0)
            status = hold_slots(
                path_chain, chains, slots, blocks, cells, requests, row, size, keyed_from, keyed_to, unknown_to, goal
            )  # fmt: skip
        if status != 0:
            return status
        if action == _ADMIT and not resumed and reach > size:
            status = list_read(
                path_chain, chains, blocks, ring, rules, pool, gone, first_entry, end_entry, size, reach, row
            )  # fmt: skip
            if status != 0:
                return status
        if alive:
            requests[row, STORED] = max(requests[row, STORED], keyed)
        requests[row, SLOTS], requests[row, FULL] = goal, filled
        if action != _RELEASE:
            if output == AS_DECODED and decode[row, OUTPUT] > 1:
                plan_growth(heap_at, heap_what, decode, pool, row, goal, filled, block_size)
        else:
            pool[RUNNING] -= 1
            pool[BLOCKED] = 0
            release(slots, cells, requests, pool, row, in_line)
            lo, hi = keyed_blocks[row], requests[row, STORED]
            if hi > lo and requests[row, FIRST_EPOCH] == pool[AGE]:
                keeps = rules[WRITE] == THROUGH and rules[KEEPS_OUTPUT]
                lo, written = (
                    lo // rules[CHUNK] * rules[CHUNK],
                    hi // rules[CHUNK] * rules[CHUNK] if keeps else 0,
                )
                status = use_below(
                    path_chain, chains, blocks, ring, rules, pool, gone, first_entry, end_entry, lo, hi, written, row
                )  # fmt: skip
                if status != 0:
                    return status
        removed = pool[REMOVED]
