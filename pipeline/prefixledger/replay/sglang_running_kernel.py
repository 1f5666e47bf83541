"""SGLang's classic radix tree while requests run: exact hits, admissions and removals, one replica after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.replay.extent_lists_kernel import heap_pop, heap_push
from prefixledger.replay.extents_kernel import AS_DECODED, AT_RELEASE, IGNORE
from prefixledger.replay.jit import kernel
from prefixledger.replay.sglang_flight_kernel import begin_computing, computing, end_computing
from prefixledger.replay.sglang_moves_kernel import evict, expire, forget_all, insert
from prefixledger.replay.sglang_nodes_kernel import (
    ADMITS,
    CLOCK,
    EPOCH,
    EVENTS,
    HI,
    LOCKED,
    NODE,
    OWN,
    OWN_SLOTS,
    PLACE,
    PLACE_REACHED,
    REACH,
    REMOVED,
    REPLICA,
    SIZE,
    SLOTS,
    access,
    empty_tables,
    lock,
    locked_hits,
    unlock,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INSERT, _GROW, _RELEASE, _RESET, _ADMIT, _NOTHING = range(6)
_NEVER = 1 << 62


@kernel
def replay_running(
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
    block_size: int,
    capacity: int,
    ttl_us: int,
    output: int,
    hit_saves_us: float,
    log: bool,
    chain_depth: NDArray[np.int32],
    chain_first: NDArray[np.int64],
    nodes: NDArray[np.int64],
    start_of: NDArray[np.int32],
    requests: NDArray[np.int64],
    heap_at: NDArray[np.int64],
    heap_what: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    admitted_us: NDArray[np.int64],
    finished_us: NDArray[np.int64],
    refused: NDArray[np.bool_],
    reset_ignored: NDArray[np.bool_],
    first_eviction_us: NDArray[np.int64],
    in_flight: NDArray[np.int32],
    in_flight_end: NDArray[np.int32],
    stored_blocks: NDArray[np.int64],
) -> int:
    """Replay the lookups of one pool.

    Rules: SGLang 0.5.23 (``RadixCache``), a page being one block; nodes, splits and eviction as in ``replay_radix``. What
    is in the tree, and the slots of running requests outside it, share one capacity. A request matches when it is
    admitted, at most up to its last token, and locks that path until it ends; its other slots are its own. At the end of
    its prefill it inserts the full blocks of its prompt, when it ends those of prompt and output: an access of the path
    each, what is new makes one node, slots of what had come in meanwhile are free at once, and the lock goes on to the
    end. What is short is evicted, whole unlocked leaves, the one accessed longest ago first.

    First come, first served: the head of the queue is matched when it fits, that is when its slots but those that are
    locked already fit beside what is locked and owned; it is tried again after an insert or a release. A prompt larger
    than the cache is refused when its turn comes. Output that finds no room: all or nothing ``AT_RELEASE``;
    ``AS_DECODED`` the request stops growing. At equal times: inserts, growth, releases, resets, admissions; the first
    three by (time, row). With a TTL a block cannot be matched once it was last used by an admission more than ``ttl_us``
    ago; a request older than that, or than a reset, inserts nothing more; what is locked keeps its room to the end.

    Time O(path entries + nodes walked + running requests · lookups), memory by live nodes and one number per block.

    Args:
        rows: int32[n], rows grouped by replica, in order of arrival; within a replica they ascend.
        row_start: int64[replicas + 1], where each replica's rows start in ``rows``.
        arrival_us: int64[n], not falling within a replica.
        prompt_tokens: int64[n], at least 1.
        keyed_blocks: int64[n], full blocks of the prompt with a known key; nobody can match further ones.
        reach_blocks: int64[n], blocks that are matched at all.
        hold_us: int64[n], from admission to release if nothing is hit.
        prefill_us: int64[n], the part of it before the first output token.
        output_tokens: int64[n].
        output_keyed_blocks: int64[n], like ``keyed_blocks`` for prompt + output.
        path_offset: int64[n + 1], row i walks ``path_chain[path_offset[i]:path_offset[i + 1]]`` from the root.
        path_chain: int32[entries].
        chain_length: int32[c], blocks of each chain.
        reset_start: int64[replicas + 1], where each replica's resets start.
        reset_at_us: int64[resets], not falling within a replica.
        reset_force: bool[resets], false: ignored while a request runs on the replica.
        block_size: Tokens per block.
        capacity: Blocks per replica.
        ttl_us: -1 for none.
        output: ``IGNORE``, ``AT_RELEASE`` or ``AS_DECODED``.
        hit_saves_us: How much a hit block shortens the prefill.
        log: Whether to fill ``removals``.
        chain_depth: int32[c], blocks above each chain.
        chain_first: int64[c], blocks of all chains before each.
        nodes: int64[any, 11]; scratch.
        start_of: int32[blocks], zeros; scratch: the node that begins with each block.
        requests: int64[n, 9], zeros; scratch.
        heap_at: int64[3 n]; scratch.
        heap_what: int64[3 n]; scratch: row, plus n times the kind of event.
        leaf_at: int64[any]; scratch.
        leaf_node: int64[any]; scratch.
        pool: int64[14]; scratch.
        removals: int32[any, 7], out, by replica and time, see ``replay_radix``.
        removal_at_us: int64[any], out; for expired blocks the last moment at which they were valid.
        hit_blocks: int32[n], out.
        admitted_us: int64[n], out.
        finished_us: int64[n], out.
        refused: bool[n], out, zeros.
        reset_ignored: bool[resets], out, zeros.
        first_eviction_us: int64[replicas], out, filled with -1.
        in_flight: int32[n], out, filled with -1: the running request that computes what this one misses first.
        in_flight_end: int32[n], out, zeros: how deep it does.
        stored_blocks: int64[n], out, zeros: blocks with a known key that it inserted.

    Returns:
        The number of removals, or which scratch array was too small.
    """
    n = rows.shape[0]
    pool[REMOVED] = 0
    epoch = 0
    for replica in range(row_start.shape[0] - 1):
        end = row_start[replica + 1]
        reset, reset_end = reset_start[replica], reset_start[replica + 1]
        pool[REPLICA] = replica
        empty_tables(nodes, pool)
        epoch += 1
        running = 0
        head = to_expire = row_start[replica]
        blocked = False
        now = -_NEVER
        while True:
            at = _NEVER
            action = _NOTHING
            if head < end and not blocked:
                at = max(arrival_us[rows[head]], now)
                action = _ADMIT
            if reset < reset_end and reset_at_us[reset] <= at:
                at = reset_at_us[reset]
                action = _RESET
            if pool[EVENTS] > 0 and heap_at[0] <= at:
                at = heap_at[0]
                action = heap_what[0] // n
            if ttl_us >= 0 and to_expire < head and (action != _NOTHING or log):
                row = rows[to_expire]
                expired_us = admitted_us[row] + ttl_us
                if action == _NOTHING or expired_us < at:
                    to_expire += 1
                    status = expire(
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
                        row,
                        expired_us,
                        log,
                    )
                    if status < 0:
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
                    forget_all(path_offset, path_chain, chain_depth, chain_first, nodes, start_of, pool)
                    to_expire = head
                reset += 1
                continue

            # What the step asks for: slots of its own, then what it brings into the tree.
            need = 0
            if action == _ADMIT:
                row = rows[head]
                slots = (prompt_tokens[row] + block_size - 1) // block_size
                if slots > capacity:
                    refused[row] = True
                    hit_blocks[row] = 0
                    admitted_us[row] = finished_us[row] = now
                    head += 1
                    continue
                limit = min((prompt_tokens[row] - 1) // block_size, keyed_blocks[row], reach_blocks[row])
                room = capacity - pool[OWN] - pool[LOCKED]
                if slots > room:
                    locked = locked_hits(
                        path_offset,
                        path_chain,
                        chain_depth,
                        chain_length,
                        chain_first,
                        nodes,
                        start_of,
                        row,
                        limit,
                    )
                    if slots - locked > room:
                        blocked = True
                        continue
                head += 1
                running += 1
                pool[CLOCK] += 1
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
                    0,
                    0,
                    limit,
                )
                if x < 0:
                    return x
                lock(nodes, pool, x, 0)
                hits = nodes[x, HI]
                if hits < limit:
                    computing(
                        path_offset,
                        path_chain,
                        chain_depth,
                        chain_length,
                        requests,
                        admitted_us,
                        in_flight,
                        in_flight_end,
                        pool,
                        row,
                        hits,
                        limit,
                        epoch,
                        -_NEVER if ttl_us < 0 else now - ttl_us,
                    )
                need = slots - hits
                saved = min(prefill_us[row], int(hits * hit_saves_us + 0.5))
                hit_blocks[row] = hits
                admitted_us[row] = now
                finished_us[row] = now + hold_us[row] - saved
                requests[row, NODE] = x
                requests[row, PLACE] = pool[PLACE_REACHED]
                requests[row, OWN_SLOTS] = 0
                requests[row, EPOCH] = epoch
                requests[row, REACH] = keyed_blocks[row] if output == IGNORE else output_keyed_blocks[row]
                requests[row, SLOTS] = slots
                begin_computing(requests, pool, row)
                heap_push(heap_at, heap_what, pool[EVENTS], now + prefill_us[row] - saved, _INSERT * n + row)
                heap_push(heap_at, heap_what, pool[EVENTS] + 1, finished_us[row], _RELEASE * n + row)
                pool[EVENTS] += 2
            else:
                row = heap_what[0] - action * n
                heap_pop(heap_at, heap_what, pool[EVENTS])
                pool[EVENTS] -= 1
            alive = requests[row, EPOCH] == epoch and (ttl_us < 0 or now - admitted_us[row] <= ttl_us)
            tokens = prompt_tokens[row]
            room = capacity - pool[OWN] - pool[LOCKED]
            if action == _GROW:
                if room < 1:  # it stops growing
                    requests[row, REACH] = min(requests[row, REACH], requests[row, SLOTS])
                    continue
                need = 1
                requests[row, SLOTS] += 1
            elif action == _RELEASE:
                if output != IGNORE and output_tokens[row] > 1:
                    tokens += output_tokens[row] - 1
                if output == AS_DECODED:
                    tokens = min(tokens, requests[row, SLOTS] * block_size)
                elif output == AT_RELEASE:
                    need = (tokens + block_size - 1) // block_size - requests[row, SLOTS]
                    if need > room:
                        need = 0
                        tokens = prompt_tokens[row]
            if output == AS_DECODED and action in (_GROW, _ADMIT) and output_tokens[row] > 1:
                step = requests[row, SLOTS] * block_size - prompt_tokens[row]
                if step < output_tokens[row] - 1:
                    saved = min(prefill_us[row], int(hit_blocks[row] * hit_saves_us + 0.5))
                    first_us = admitted_us[row] + prefill_us[row] - saved
                    grow_us = first_us + step * (finished_us[row] - first_us) // (output_tokens[row] - 1)
                    heap_push(heap_at, heap_what, pool[EVENTS], grow_us, _GROW * n + row)
                    pool[EVENTS] += 1

            if pool[SIZE] + pool[OWN] + need > capacity and need > 0:
                if first_eviction_us[replica] < 0:
                    first_eviction_us[replica] = now
                status = evict(
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
                    need,
                    capacity,
                    row,
                    now,
                    log,
                )
                if status < 0:
                    return status
            pool[OWN] += need
            requests[row, OWN_SLOTS] += need

            if action in (_INSERT, _RELEASE):
                blocked = False
                if alive:
                    full = tokens // block_size
                    keyed = keyed_blocks[row]
                    if action == _RELEASE and output != IGNORE:
                        keyed = min(output_keyed_blocks[row], full)
                    status = insert(
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
                        pool,
                        row,
                        full,
                        keyed,
                    )
                    if status < 0:
                        return status
                    stored_blocks[row] = keyed
                if action == _INSERT and not (alive and requests[row, REACH] > keyed_blocks[row]):
                    end_computing(requests, pool, row)
            if action == _RELEASE:
                running -= 1
                end_computing(requests, pool, row)
                pool[OWN] -= requests[row, OWN_SLOTS]
                status = unlock(nodes, leaf_at, leaf_node, pool, requests[row, NODE])
                if status < 0:
                    return status
        forget_all(path_offset, path_chain, chain_depth, chain_first, nodes, start_of, pool)
    listed: int = pool[REMOVED]
    return listed
