"""Finds the blocks that one session alone uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOBODY, SEVERAL = -1, -2


@njit(cache=True, nogil=True)
def find_owners(
    parent: NDArray[np.int64],
    last_block: NDArray[np.int64],
    session: NDArray[np.int64],
    owner: NDArray[np.int64],
) -> None:
    """Fill in the session that uses each block.

    Args:
        parent: int64[n], a smaller number than its own, negative for the first block of a prompt.
        last_block: int64[m], of each lookup, -1 for none.
        session: int64[m], of each lookup, from 0.
        owner: int64[n], out: the session, ``SEVERAL`` or ``NOBODY``.
    """
    owner[:] = NOBODY
    for number in range(last_block.size):
        block = last_block[number]
        if block >= 0:
            owner[block] = session[number] if owner[block] in (NOBODY, session[number]) else SEVERAL
    for block in range(parent.size - 1, -1, -1):
        above = parent[block]
        if above >= 0 and owner[block] != NOBODY:
            owner[above] = owner[block] if owner[above] in (NOBODY, owner[block]) else SEVERAL
