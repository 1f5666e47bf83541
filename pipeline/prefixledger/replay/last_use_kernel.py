"""Finds the last use of blocks before a moment, among the uses of each chain on each replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def last_uses(
    pair_start: NDArray[np.int32],
    pair_replica: NDArray[np.int32],
    use_offset: NDArray[np.int64],
    use_slot: NDArray[np.int32],
    use_reach: NDArray[np.int32],
    chain: NDArray[np.int64],
    replica: NDArray[np.int64],
    position: NDArray[np.int64],
    before_slot: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Find, for each block in question, the last slot below a limit that used it.

    Args:
        pair_start: int32[c + 1], see ``touches.Touches``.
        pair_replica: int32[pairs].
        use_offset: int64[pairs + 1], uses of each (chain, replica) pair.
        use_slot: int32[e], ascending within a pair.
        use_reach: int32[e], blocks of the chain that it used, from its first.
        chain: int64[k], of the block in question.
        replica: int64[k].
        position: int64[k], place in the chain.
        before_slot: int64[k], the first slot that is too late.
        found: int64[k], out; -1 where nobody used it. O(k log e), and the uses that stop short of the block.
    """
    for k in range(chain.shape[0]):
        found[k] = -1
        pair = pair_start[chain[k]]
        end = pair_start[chain[k] + 1]
        while pair < end and pair_replica[pair] != replica[k]:
            pair += 1
        if pair == end:
            continue
        low = use_offset[pair]
        high = use_offset[pair + 1]
        first = low
        while low < high:
            middle = (low + high) // 2
            if use_slot[middle] < before_slot[k]:
                low = middle + 1
            else:
                high = middle
        at = low - 1
        while at >= first and use_reach[at] <= position[k]:
            at -= 1
        if at >= first:
            found[k] = use_slot[at]
