"""SGLang's classic radix tree while requests run: exact hits, admissions and removals, one replica after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel
from prefixledger.replay.extent_lists_kernel import heap_pop, heap_push
from prefixledger.replay.extents_kernel import AS_DECODED, AT_RELEASE, IGNORE
from prefixledger.replay.sglang_flight_kernel import begin, computing, end_computing, shown_us
from prefixledger.replay.sglang_moves_kernel import evict, expire, forget_all, insert
from prefixledger.replay.sglang_nodes_kernel import (
    ADMITS,
    ADMITTED,
    CLOCK,
    EPOCH,
    EVENTS,
    HI,
    LEFT_OUTPUT,
    LEFT_US,
    LOCKED,
    NEXT,
    NODE,
    OWN,
    OWN_SLOTS,
    QUEUED_US,
    REACH,
    REMOVED,
    REPLICA,
    SHOWN,
    SHOWS,
    SIZE,
    SLOTS,
    TOKENS,
    WAITING,
    access,
    empty_tables,
    lock,
    locked_hits,
    unlock,
)
from prefixledger.replay.sglang_retract_kernel import GROW, INSERT, RELEASE, next_growth_us, retract

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RESET, _ADMIT, _NOTHING = range(RELEASE + 1, RELEASE + 4)
_NEVER = 1 << 62


@kernel
def replay_running(  # noqa: D417, PLR0911 - what it shares with `replay_extents` is described there
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
    most_running: int,
    ttl_us: int,
    output: int,
    hit_saves_us: float,
    chunk_blocks: int,
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
    retracted: NDArray[np.int32],
    recompute_tokens: NDArray[np.int64],
) -> int:
    """Replay the lookups of one pool.

    Rules: SGLang 0.5.23 (``RadixCache``), a page being one block; nodes, splits and eviction as in ``replay_radix``. What
    is in the tree, and the slots of running requests outside it, share one capacity. A request matches when it is
    admitted, at most up to its last token, and locks that path until it ends; its other slots are its own. At the end of
    its prefill it inserts the full blocks of its prompt, when it ends those of prompt and output: an access of the path
    each, what is new makes one node, slots of what had come in meanwhile are free at once, and the lock goes on to the
    end; a prompt longer than a chunk is inserted chunk by chunk, each after its share of the prefill. What is short is evicted, whole unlocked leaves, the one accessed longest ago first.

    First come, first served: the head of the queue is matched when it fits, that is when its slots but those that are
    locked already fit beside what is locked and owned; it is tried again after an insert or a release. A prompt larger
    than the cache is refused when its turn comes. Output that finds no room: all or nothing ``AT_RELEASE``; ``AS_DECODED``
    requests are retracted, see ``retract``; the last that decodes, one that fills the whole cache, and any under a TTL, which
    no engine has, stop growing instead. What a retracted request does later stands outside the books. At equal times: inserts, growth, releases, resets, admissions; the first
    three by (time, row). With a TTL a block cannot be matched once it was last used by an admission more than ``ttl_us``
    ago; a request older than that, or than a reset, inserts nothing more; what is locked keeps its room to the end.

    Time O(path entries + nodes walked + running requests · lookups), memory by live nodes and one number per block.

    Args:
        rows: From here to ``log`` as for ``extents_kernel.replay_extents``, without ``in_line``.
        chunk_blocks: Blocks of a prompt that are computed, and then inserted, in one go.
        chain_depth: int32[c], blocks above each chain.
        chain_first: int64[c], blocks of all chains before each.
        nodes: int64[any, 11]; scratch.
        start_of: int32[blocks], zeros; scratch: the node that begins with each block.
        requests: int64[n, 19], zeros; scratch.
        heap_at: int64[3 n]; scratch.
        heap_what: int64[3 n]; scratch: row, plus n times the kind of event.
        leaf_at: int64[any]; scratch.
        leaf_node: int64[any]; scratch.
        pool: int64[17]; scratch.
        removals: int32[any, 8], out, by replica and time, see ``replay_radix``.
        removal_at_us: int64[any], out; for expired blocks the last moment at which they were valid.
        hit_blocks: From here to ``first_eviction_us`` as there.
        in_flight: int32[n], out, filled with -1: the running request that computes what this one misses first.
        in_flight_end: int32[n], out, zeros: how deep it does.
        stored_blocks: int64[n], out, filled with -1: blocks with a known key that it inserted; -1 where a reset or the TTL
            overtook its first prefill.
        retracted: int32[n], out, zeros: how often.
        recompute_tokens: int64[n], out, zeros: tokens computed again after that.

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
            resumed = pool[WAITING] >= 0 and (
                head == end or arrival_us[rows[head]] >= requests[pool[WAITING], QUEUED_US]
            )
            if not blocked and (resumed or head < end):
                at = now if resumed else max(arrival_us[rows[head]], now)
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
                row = pool[WAITING] if resumed else rows[head]
                tokens = requests[row, TOKENS] if resumed else prompt_tokens[row]
                slots = (tokens + block_size - 1) // block_size
                if slots > capacity:
                    refused[row] = True
                    hit_blocks[row] = 0
                    admitted_us[row] = finished_us[row] = now
                    head += 1
                    continue
                keyed = min(output_keyed_blocks[row], tokens // block_size) if resumed else keyed_blocks[row]
                limit = min((tokens - 1) // block_size, keyed, reach_blocks[row])
                room = capacity - pool[OWN] - pool[LOCKED]
                blocked = running >= most_running
                if slots > room and not blocked:
                    locked = locked_hits(
                        path_offset, path_chain, chain_depth, chain_length, chain_first, nodes, start_of, row, limit
                    )  # fmt: skip
                    blocked = slots - locked > room
                if blocked:
                    continue
                if resumed:
                    pool[WAITING] = requests[row, NEXT]
                head += int(not resumed)
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
                if hits < limit and not resumed:
                    computing(
                        path_offset, path_chain, chain_depth, chain_length, requests, admitted_us, in_flight,
                        in_flight_end, pool, row, hits, limit, epoch, -_NEVER if ttl_us < 0 else now - ttl_us,
                    )  # fmt: skip
                need = slots - hits
                prefill = prefill_us[row] * tokens // prompt_tokens[row] if resumed else prefill_us[row]
                first_us = now + prefill - min(prefill, int(hits * hit_saves_us + 0.5))
                if resumed:
                    finished_us[row] = first_us + requests[row, LEFT_US]
                    recompute_tokens[row] += tokens - hits * block_size
                else:
                    finished_us[row] = first_us + hold_us[row] - prefill
                    hit_blocks[row] = hits
                    admitted_us[row], pool[ADMITTED] = now, row
                    requests[row, TOKENS], requests[row, LEFT_OUTPUT] = tokens, output_tokens[row]
                reach = keyed_blocks[row] if output == IGNORE else output_keyed_blocks[row]
                begin(requests, pool, row, x, epoch, first_us, slots, reach, now, hits, chunk_blocks)
                heap_push(
                    heap_at, heap_what, pool[EVENTS], shown_us(requests, row, block_size), INSERT * n + row
                )
                heap_push(heap_at, heap_what, pool[EVENTS] + 1, finished_us[row], RELEASE * n + row)
                pool[EVENTS] += 2
            else:
                row = heap_what[0] - action * n
                heap_pop(heap_at, heap_what, pool[EVENTS])
                pool[EVENTS] -= 1
            alive = requests[row, EPOCH] == epoch and (ttl_us < 0 or now - admitted_us[row] <= ttl_us)
            tokens = prompt_tokens[row]
            if action == INSERT:
                tokens = min(requests[row, TOKENS], requests[row, SHOWS] * block_size)
            room = capacity - pool[OWN] - pool[LOCKED]
            if action == GROW:
                if room < 1 and ttl_us < 0 and requests[row, SLOTS] < capacity:
                    status = retract(
                        prompt_tokens, nodes, requests, heap_at, heap_what, leaf_at, leaf_node, pool, finished_us,
                        retracted, row, now, capacity, block_size,
                    )  # fmt: skip
                    if status < 0:
                        return status
                    running -= status
                    blocked = blocked and status == 0
                    if requests[row, SHOWN] == 0:
                        continue
                    room = capacity - pool[OWN] - pool[LOCKED]
                if room < 1:  # it stops growing
                    requests[row, REACH] = min(requests[row, REACH], requests[row, SLOTS])
                    continue
                need = 1
                requests[row, SLOTS] += 1
            elif action == RELEASE:
                if output != IGNORE and output_tokens[row] > 1:
                    tokens += output_tokens[row] - 1
                if output == AS_DECODED:
                    tokens = min(tokens, requests[row, SLOTS] * block_size)
                elif output == AT_RELEASE:
                    need = (tokens + block_size - 1) // block_size - requests[row, SLOTS]
                    if need > room:
                        need = 0
                        tokens = prompt_tokens[row]
            if output == AS_DECODED and action in (GROW, _ADMIT):
                grow_us = next_growth_us(requests, finished_us, row, block_size)
                if grow_us >= 0:
                    heap_push(heap_at, heap_what, pool[EVENTS], grow_us, GROW * n + row)
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

            if action in (INSERT, RELEASE):
                blocked = False
                if alive:
                    full = tokens // block_size
                    keyed = min(keyed_blocks[row], full)
                    if output != IGNORE and (action == RELEASE or retracted[row] > 0):
                        keyed = min(output_keyed_blocks[row], full)
                    status = insert(
                        path_offset, path_chain, chain_depth, chain_length, chain_first, nodes, start_of, requests,
                        leaf_at, leaf_node, pool, row, full, keyed,
                    )  # fmt: skip
                    if status < 0:
                        return status
                    whole = tokens == requests[row, TOKENS] and retracted[row] == 0
                    if whole if action == INSERT else stored_blocks[row] >= 0:
                        stored_blocks[row] = keyed
                if action == INSERT and tokens < requests[row, TOKENS]:
                    requests[row, SHOWS] += chunk_blocks
                    next_us = shown_us(requests, row, block_size)
                    heap_push(heap_at, heap_what, pool[EVENTS], next_us, INSERT * n + row)
                    pool[EVENTS] += 1
                elif action == INSERT:
                    requests[row, SHOWN] = 1
                    if not (alive and requests[row, REACH] > keyed):
                        end_computing(requests, pool, row)
            if action == RELEASE:
                running -= 1
                requests[row, SHOWN] = 0
                end_computing(requests, pool, row)
                pool[OWN] -= requests[row, OWN_SLOTS]
                status = unlock(nodes, leaf_at, leaf_node, pool, requests[row, NODE])
                if status < 0:
                    return status
        forget_all(path_offset, path_chain, chain_depth, chain_first, nodes, start_of, pool)
    listed: int = pool[REMOVED]
    return listed
