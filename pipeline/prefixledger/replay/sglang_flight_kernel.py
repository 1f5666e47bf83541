"""The running requests of one replica that compute what its radix tree does not show yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.sglang_nodes_kernel import (
    CLOCK,
    EPOCH,
    FIRST,
    FIRST_US,
    HITS,
    LAST,
    NEXT,
    NODE,
    OWN_SLOTS,
    PLACE,
    PLACE_REACHED,
    PREV,
    REACH,
    SHOWS,
    SLOTS,
    START_US,
    TOKENS,
    TURN,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@part
def computing(
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    requests: NDArray[np.int64],
    admitted_us: NDArray[np.int64],
    in_flight: NDArray[np.int32],
    in_flight_end: NDArray[np.int32],
    pool: NDArray[np.int64],
    row: int,
    hits: int,
    cap: int,
    epoch: int,
    oldest_us: int,
) -> None:
    """Note which running request computes the most of what a lookup misses, the earliest of equals. O(running + entries).

    It hits ``hits`` blocks of the ``cap`` that it may, and ``PLACE_REACHED`` is the entry of its path that has the next one.
    Who was admitted before the last reset, ``epoch``, or before ``oldest_us`` inserts nothing more.
    """
    base = path_offset[row]
    best = hits
    j = pool[FIRST]
    while j >= 0:
        other = j
        j = requests[other, NEXT]
        reach = min(requests[other, REACH], cap)
        if reach <= best or requests[other, EPOCH] != epoch or admitted_us[other] < oldest_us:
            continue
        k = pool[PLACE_REACHED]
        depth = hits
        first, end = path_offset[other], path_offset[other + 1]
        while depth < reach and first + k < end and path_chain[first + k] == path_chain[base + k]:
            depth = min(chain_depth[path_chain[base + k]] + chain_length[path_chain[base + k]], reach)
            k += 1
        if depth > best:
            best = depth
            in_flight[row] = other
            in_flight_end[row] = depth


@part
def begin(
    requests: NDArray[np.int64],
    pool: NDArray[np.int64],
    row: int,
    x: int,
    epoch: int,
    first_us: int,
    slots: int,
    reach: int,
    now: int,
    hits: int,
    chunk_blocks: int,
) -> None:
    """Admit a row whose walk ended at node x, and append it to the list of those that compute what the tree lacks. O(1)."""
    requests[row, START_US] = now
    requests[row, HITS] = hits
    requests[row, SHOWS] = hits + chunk_blocks
    requests[row, NODE] = x
    requests[row, PLACE] = pool[PLACE_REACHED]
    requests[row, OWN_SLOTS] = 0
    requests[row, SLOTS] = slots
    requests[row, EPOCH] = epoch
    requests[row, REACH] = reach
    requests[row, FIRST_US] = first_us
    requests[row, TURN] = pool[CLOCK]
    last = pool[LAST]
    requests[row, PREV] = last
    requests[row, NEXT] = -1
    if last >= 0:
        requests[last, NEXT] = row
    else:
        pool[FIRST] = row
    pool[LAST] = row


@part
def shown_us(requests: NDArray[np.int64], row: int, block_size: int) -> int:
    """Return when a row has computed what its next insert shows: chunks take their share of the prefill. O(1)."""
    first_us, start_us = requests[row, FIRST_US], requests[row, START_US]
    computed = (requests[row, SHOWS] - requests[row, HITS]) * block_size
    needed = requests[row, TOKENS] - requests[row, HITS] * block_size
    at_us: int = first_us if computed >= needed else start_us + (first_us - start_us) * computed // needed
    return at_us


@part
def end_computing(requests: NDArray[np.int64], pool: NDArray[np.int64], row: int) -> None:
    """Take a row out of that list; nothing where it is out already. O(1)."""
    before, after = requests[row, PREV], requests[row, NEXT]
    if before == row:
        return
    if before >= 0:
        requests[before, NEXT] = after
    else:
        pool[FIRST] = after
    if after >= 0:
        requests[after, PREV] = before
    else:
        pool[LAST] = before
    requests[row, PREV] = row
