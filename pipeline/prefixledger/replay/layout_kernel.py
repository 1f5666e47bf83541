"""Names the pieces of prompts by the pieces before them, as if some stood at the end of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@njit(cache=True, nogil=True, inline="always")
def _mixed(name: np.uint64, number: np.uint64) -> np.uint64:
    """Return 64 bits of two numbers: a step of SplitMix64."""
    found = name + (number + np.uint64(1)) * _ODD
    found = (found ^ (found >> _30)) * _FIRST
    found = (found ^ (found >> _27)) * _SECOND
    return found ^ (found >> _31)


@njit(cache=True, nogil=True)
def name_pieces(
    parent: NDArray[np.int64],
    end: NDArray[np.int64],
    piece: NDArray[np.int64],
    late: NDArray[np.bool_],
    name: NDArray[np.uint64],
    new_end: NDArray[np.int64],
    late_name: NDArray[np.uint64],
    late_tokens: NDArray[np.int64],
) -> None:
    """Fill in what each piece is called, and where it ends, if late ones stand behind all others.

    Args:
        parent: int64[n], piece before each, a smaller number, negative for the first of a prompt.
        end: int64[n], tokens down to its end, never less than that of its parent.
        piece: int64[n], number of its content.
        late: bool[n], whether it is to stand at the end.
        name: uint64[n], out: name of the pieces before and up to it that are not late.
        new_end: int64[n], out: tokens of these.
        late_name: uint64[n], out: name of the late ones, 0 for none.
        late_tokens: int64[n], out: tokens of these.
    """
    for at in range(parent.size):
        above = parent[at]
        before, own, tokens, own_late, waiting = 0, np.uint64(0), 0, np.uint64(0), 0
        if above >= 0:
            before, own, tokens = end[above], name[above], new_end[above]
            own_late, waiting = late_name[above], late_tokens[above]
        length = end[at] - before
        if length > 0 and late[at]:
            own_late = _mixed(own_late, np.uint64(piece[at]))
            waiting += length
        elif length > 0:
            own = _mixed(own, np.uint64(piece[at]))
            tokens += length
        name[at], new_end[at], late_name[at], late_tokens[at] = own, tokens, own_late, waiting


@njit(cache=True, nogil=True)
def mark_above(parent: NDArray[np.int64], marked: NDArray[np.bool_]) -> None:
    """Mark all that stands above what is marked.

    Args:
        parent: int64[n], a smaller number, negative for the first of a prompt.
        marked: bool[n], in and out.
    """
    for at in range(parent.size - 1, -1, -1):
        if marked[at] and parent[at] >= 0:
            marked[parent[at]] = True
