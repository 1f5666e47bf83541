"""Finds the next turn of every request: the later prompt that begins with its prompt and its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_LOOKS = 256


@njit(cache=True, nogil=True)
def next_turns(
    started_us: NDArray[np.int64],
    ready_us: NDArray[np.int64],
    session: NDArray[np.int64],
    prompt_tokens: NDArray[np.int64],
    needed_tokens: NDArray[np.int64],
    last_chain: NDArray[np.int32],
    last_position: NDArray[np.int32],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    waiting: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Match every request with the first later one whose prompt passes its last block and is long enough.

    A request waits at its last full block for those that pass. After ``MOST_LOOKS`` of them in vain it has no next
    turn: what many prompts share and nobody continues would else be looked at again and again.

    Args:
        started_us: int64[m], arrival, ascending.
        ready_us: int64[m], a next turn cannot arrive before: the end of the request, or its arrival.
        session: int64[m], -1 where there is none; else only a prompt of the same session counts.
        prompt_tokens: int64[m].
        needed_tokens: int64[m], tokens of prompt and output; 0: nothing is looked for.
        last_chain: int32[m], chain of the last full block; anything where nothing is looked for.
        last_position: int32[m], its position in the chain.
        path_offset: int64[m + 1], request i walks ``path_chain[path_offset[i]:path_offset[i + 1]]``.
        path_chain: int32[e].
        waiting: int32[c], filled with -1; scratch: who waits on each chain.

    Returns:
        int64[m]: the next turn, -1 for none. O(e + looks).
    """
    m = started_us.size
    found = np.full(m, -1, np.int64)
    behind = np.full(m, -1, np.int32)
    looks = np.zeros(m, np.int32)
    for j in range(m):
        for e in range(path_offset[j], path_offset[j + 1]):
            c = path_chain[e]
            before = -1
            i = waiting[c]
            while i >= 0:
                after = behind[i]
                passes = c != last_chain[j] or last_position[i] <= last_position[j]
                own = session[i] < 0 or session[i] == session[j]
                if passes and own and prompt_tokens[j] >= needed_tokens[i] and started_us[j] >= ready_us[i]:
                    found[i] = j
                looks[i] += 1
                if found[i] >= 0 or looks[i] == MOST_LOOKS:
                    if before < 0:
                        waiting[c] = after
                    else:
                        behind[before] = after
                else:
                    before = i
                i = after
        if needed_tokens[j] > 0:
            behind[j] = waiting[last_chain[j]]
            waiting[last_chain[j]] = j
    return found
