"""Which running request is retracted when output finds no room in the pool of a radix tree, and what is left of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_lists_kernel import heap_drop
from prefixledger.replay.sglang_flight_kernel import end_computing
from prefixledger.replay.sglang_nodes_kernel import (
    EVENTS,
    FIRST_US,
    LEFT_OUTPUT,
    LEFT_US,
    LOCKED,
    NEXT,
    NODE,
    OWN,
    OWN_SLOTS,
    QUEUED_US,
    SHOWN,
    SLOTS,
    TOKENS,
    TURN,
    WAITING,
    WAITING_LAST,
    unlock,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Kinds of events, in the order in which they come at equal times.
INSERT, GROW, RELEASE = range(3)


@part
def output_so_far(requests: NDArray[np.int64], finished_us: NDArray[np.int64], row: int, now: int) -> int:
    """Return the output tokens since the last admission of a request that decodes: one with the prefill, one a step. O(1)."""
    steps, first_us = requests[row, LEFT_OUTPUT] - 1, requests[row, FIRST_US]
    lasts_us = finished_us[row] - first_us
    if steps <= 0:
        return 0
    over = ((now - first_us) * steps + lasts_us - 1) // lasts_us if lasts_us > 0 else 0
    got: int = min(1 + over, steps)
    return got


@part
def next_growth_us(
    requests: NDArray[np.int64], finished_us: NDArray[np.int64], row: int, block_size: int
) -> int:
    """Return when the output of a request needs its next slot, -1 where what it has is enough. O(1)."""
    steps = requests[row, LEFT_OUTPUT] - 1
    step = requests[row, SLOTS] * block_size - requests[row, TOKENS]
    if step >= steps:
        return -1
    first_us = requests[row, FIRST_US]
    grow_us: int = first_us + step * (finished_us[row] - first_us) // steps
    return grow_us


@part
def retract(
    prompt_tokens: NDArray[np.int64],
    nodes: NDArray[np.int64],
    requests: NDArray[np.int64],
    heap_at: NDArray[np.int64],
    heap_what: NDArray[np.int64],
    leaf_at: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
    pool: NDArray[np.int64],
    finished_us: NDArray[np.int64],
    retracted: NDArray[np.int32],
    grows: int,
    now: int,
    capacity: int,
    block_size: int,
) -> int:
    """Release requests that decode, without inserting what they generated, until there is room or it is ``grows`` itself.

    Rules: SGLang (``ScheduleBatch.retract_decode``): the one with the least output goes first, of several the one with the
    longest prompt, then the one admitted last; the last that decodes is left. Each goes to the end of the queue, and is
    prefilled anew with prompt and output so far.

    Returns:
        How many were retracted, or that a table is full. O(running) each.
    """
    n = requests.shape[0]
    count = 0
    victim = -1
    while pool[OWN] + pool[LOCKED] >= capacity and victim != grows:
        victim = -1
        decoding = least = 0
        for i in range(pool[EVENTS]):
            row = heap_what[i] - RELEASE * n
            if row < 0 or requests[row, SHOWN] == 0:
                continue
            decoding += 1
            length = (
                requests[row, TOKENS] - prompt_tokens[row] + output_so_far(requests, finished_us, row, now)
            )
            if victim >= 0:
                longer = prompt_tokens[row] - prompt_tokens[victim]
                later = requests[row, TURN] > requests[victim, TURN]
                if length > least or (length == least and (longer < 0 or (longer == 0 and not later))):
                    continue
            victim, least = row, length
        if decoding < 2:  # somebody must go on
            break
        got = output_so_far(requests, finished_us, victim, now)
        steps, lasts_us = requests[victim, LEFT_OUTPUT] - 1, finished_us[victim] - requests[victim, FIRST_US]
        requests[victim, LEFT_US] = finished_us[victim] - max(requests[victim, FIRST_US], now)
        if steps > 0:
            requests[victim, LEFT_US] = (steps - got) * lasts_us // steps
        requests[victim, TOKENS] = min(requests[victim, TOKENS] + got, capacity * block_size)
        requests[victim, LEFT_OUTPUT] -= got
        requests[victim, SHOWN] = 0
        requests[victim, QUEUED_US] = now
        pool[EVENTS] = heap_drop(heap_at, heap_what, pool[EVENTS], RELEASE * n + victim)
        pool[EVENTS] = heap_drop(heap_at, heap_what, pool[EVENTS], GROW * n + victim)
        end_computing(requests, pool, victim)
        requests[victim, NEXT] = -1
        if pool[WAITING] < 0:
            pool[WAITING] = victim
        else:
            requests[pool[WAITING_LAST], NEXT] = victim
        pool[WAITING_LAST] = victim
        pool[OWN] -= requests[victim, OWN_SLOTS]
        requests[victim, OWN_SLOTS] = 0
        retracted[victim] += 1
        count += 1
        status = unlock(nodes, leaf_at, leaf_node, pool, requests[victim, NODE])
        if status < 0:
            return int(status)
    return count
