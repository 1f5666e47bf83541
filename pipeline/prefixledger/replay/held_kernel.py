"""Counts the blocks that running requests hold, moment by moment, over chains."""

from __future__ import annotations

import numpy as np
from numba import njit

RELEASED, PREFILLED, ADMITTED = range(3)
"""What happens to a request; of equal times a release comes first."""


_NEVER_US = 1 << 62


@njit(cache=True, nogil=True)
def _own_blocks(row, at_us, prompt_tokens, output_tokens, first_us, end_us, keyed_blocks, block_size):  # type: ignore[no-untyped-def]
    """Return the blocks of a request that no other can share, and when it needs one more.

    They are what is left of its prompt behind the keys, and its output so far. Output token s, from 0, needs its slot
    s / (tokens - 1) of the way from the end of the prefill to the release; the last one never has KV.
    """
    tokens, steps = prompt_tokens[row], output_tokens[row] - 1
    span = end_us[row] - first_us[row]
    if steps > 0 and at_us >= first_us[row]:
        tokens += min(steps, ((at_us - first_us[row] + 1) * steps - 1) // span + 1)
    blocks = (tokens + block_size - 1) // block_size
    step = blocks * block_size - prompt_tokens[row]
    due_us = first_us[row] + step * span // steps if step < steps else _NEVER_US
    return blocks - keyed_blocks[row], due_us


@njit(cache=True, nogil=True)
def _longest(running, n, chain, last_chain, last_blocks):  # type: ignore[no-untyped-def]
    """Return how far the running requests that end in a chain reach into it. O(running)."""
    longest = 0
    for i in range(n):
        if last_chain[running[i]] == chain:
            longest = max(longest, last_blocks[running[i]])
    return longest


@njit(cache=True, nogil=True)
def count_held(  # type: ignore[no-untyped-def]
    event_row, event_kind, event_us, replica, prompt_tokens, output_tokens, first_us, end_us, keyed_blocks,
    path_offset, path_chain, chain_depth, chain_length, block_size, from_us, width_us, peak, twice_block_us,
):  # fmt: skip
    """Write the most blocks held, and their integral over time, by replica and slice of time.

    A keyed block of a prompt counts once however many requests hold it: of a chain that is the longest part that any
    covers. Between two events the count only grows, with output, so its largest values are at their ends.

    Args:
        event_row: int64[e], row of the request; three events a row, in order of replica, time and kind.
        event_kind: int64[e].
        event_us: int64[e].
        replica: int64[n], of each row.
        prompt_tokens: int64[n].
        output_tokens: int64[n], 0 where output takes no room while it is generated.
        first_us: int64[n], end of the prefill.
        end_us: int64[n], release, later than the admission.
        keyed_blocks: int64[n], those of the prompt.
        path_offset: int64[n + 1], see ``chains.Paths``.
        path_chain: int32[p].
        chain_depth: int32[c].
        chain_length: int32[c].
        block_size: Tokens per block.
        from_us: Start of the first slice.
        width_us: Width of a slice.
        peak: int64[replicas, slices], zeros, out: the most blocks.
        twice_block_us: int64[replicas, slices], zeros, out: twice the blocks times microseconds.

    Time O(path entries + (events + slices) * running).
    """
    rows, chains = replica.shape[0], chain_length.shape[0]
    running = np.empty(rows, np.int64)
    place = np.empty(rows, np.int64)  # of a running row in `running`
    own = np.zeros(rows, np.int64)  # blocks of its own, in the order of `running`
    due_us = np.empty(rows, np.int64)  # when they become more
    last_chain = np.full(rows, -1, np.int64)
    last_blocks = np.zeros(rows, np.int64)
    whole = np.zeros(chains, np.int32)  # running requests that cover all of a chain
    pinned = np.zeros(chains, np.int32)
    n = held = 0
    now = from_us
    for event in range(event_row.shape[0]):
        row, at_us = event_row[event], event_us[event]
        if n == 0:
            now = at_us
        while now < at_us:
            at = (now - from_us) // width_us
            until = min(at_us, from_us + (at + 1) * width_us)
            low = held
            for side in range(2):  # as the stretch begins, and in its last microsecond
                moment = now if side == 0 else until - 1
                for i in range(n):
                    if due_us[i] <= moment:
                        held -= own[i]
                        own[i], due_us[i] = _own_blocks(
                            running[i],
                            moment,
                            prompt_tokens,
                            output_tokens,
                            first_us,
                            end_us,
                            keyed_blocks,
                            block_size,
                        )
                        held += own[i]
                if side == 0:
                    low = held
            high = held
            peak[replica[row], at] = max(peak[replica[row], at], high)
            twice_block_us[replica[row], at] += (low + high) * (until - now)
            now = until
        if event_kind[event] == ADMITTED:
            place[row] = n
            running[n] = row
            own[n], due_us[n] = _own_blocks(
                row, at_us, prompt_tokens, output_tokens, first_us, end_us, keyed_blocks, block_size
            )
            held += own[n]
            n += 1
        elif event_kind[event] == RELEASED:
            n -= 1
            gap = place[row]
            held -= own[gap]
            running[gap], own[gap], due_us[gap] = running[n], own[n], due_us[n]
            place[running[n]] = gap
        else:
            continue
        step = 1 if event_kind[event] == ADMITTED else -1
        for entry in range(path_offset[row], path_offset[row + 1]):
            chain = path_chain[entry]
            covered = min(keyed_blocks[row] - chain_depth[chain], chain_length[chain])
            if covered <= 0:
                break
            if covered == chain_length[chain]:
                whole[chain] += step
            else:
                last_chain[row], last_blocks[row] = chain, covered
            before = pinned[chain]
            if step > 0:
                pinned[chain] = max(before, covered)
            elif whole[chain] == 0 and covered == before:
                pinned[chain] = _longest(running, n, chain, last_chain, last_blocks)
            held += pinned[chain] - before
