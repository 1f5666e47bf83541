"""When output needs its next block, who makes room when it finds none, and what is left of that one's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_lists_kernel import heap_drop, heap_push
from prefixledger.replay.extent_moves_kernel import EPOCH, EXTENTS_FULL, release
from prefixledger.replay.extent_pool_kernel import FREE, HEAP, PAUSED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `decode`: what a request is at since it was last admitted (tokens to prefill, output to come, first output
# token, release; of a preempted one the time that its output still takes), its turn, and whom it was preempted after.
TOKENS, OUTPUT, FIRST_US, END_US, TURN, STACK = range(6)
DECODE_COLUMNS = 6


@part
def plan_growth(
    heap_at: NDArray[np.int64],
    heap_what: NDArray[np.int64],
    decode: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    slots: int,
    full: int,
    block_size: int,
) -> None:
    """Note when the next output token needs a slot or fills a block, if one does. O(log running)."""
    step = min(slots * block_size + 1, (full + 1) * block_size) - decode[row, TOKENS] - 1
    if step < decode[row, OUTPUT] - 1:
        first_us = decode[row, FIRST_US]
        grow_us = first_us + step * (decode[row, END_US] - first_us) // (decode[row, OUTPUT] - 1)
        heap_push(heap_at, heap_what, pool[HEAP], grow_us, row)
        pool[HEAP] += 1


@part
def make_room(
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    user_first: NDArray[np.int32],
    heap_at: NDArray[np.int64],
    heap_what: NDArray[np.int64],
    decode: NDArray[np.int64],
    pool: NDArray[np.int64],
    preempted: NDArray[np.int32],
    grows: int,
    now: int,
    most_tokens: int,
    epoch: int,
    in_line: bool,
) -> int:
    """Release the request that was admitted last, until there is room or it is ``grows`` itself.

    Each goes on top of the preempted ones that wait. Its first output token came with the prefill, one more with each
    decode step that is over: those are prefilled with the prompt when it is admitted again, ``most_tokens`` at most.

    Returns:
        How many were released, or that a table is full. O(running + extents) each.
    """
    n = requests.shape[0]
    released = 0
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
        released += 1
        alive = requests[last, EPOCH] == epoch
        if release(chains, extents, cells, requests, user_first, pool, last, alive, -1, in_line) != 0:
            return EXTENTS_FULL
    return released
