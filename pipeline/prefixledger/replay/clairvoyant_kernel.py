"""What a cache that knows the future would hit: of what is kept, the block with the farthest next use goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def keep_for_next_use(
    replica_start: NDArray[np.int64],
    room_blocks: NDArray[np.int32],
    capacity_blocks: int,
    use_offset: NDArray[np.int64],
    use_blocks: NDArray[np.int32],
    next_offset: NDArray[np.int64],
    next_use: NDArray[np.int32],
    heap: NDArray[np.int32],
    kept: NDArray[np.int32],
) -> None:
    """Decide for every piece that is used again how much of it is kept until then.

    A piece lies between the lookup that used it last and the one that uses it next. The pieces that a lookup lies between
    share the capacity with its own prompt, which is pinned; where they are too many, the one whose next use is farthest
    gives up its deepest blocks. Pieces are numbered by next use, then by depth, so that is the one with the largest number,
    and what is kept of a prompt is a prefix of it.

    Args:
        replica_start: int64[replicas + 1], first slot of each replica; see ``touches.Touches`` for slots.
        room_blocks: int32[m], by slot: full blocks of the prompt; 0 for a lookup that takes no part.
        capacity_blocks: Blocks per replica.
        use_offset: int64[m + 1], by slot: the pieces whose next use it is.
        use_blocks: int32[k], blocks of each piece.
        next_offset: int64[m + 1], by slot: the pieces that it used last.
        next_use: int32[k], their numbers.
        heap: int32[k], scratch.
        kept: int32[k], out: blocks of each piece that are hits at its next use. O(k log k).
    """
    for r in range(replica_start.shape[0] - 1):
        load = 0
        size = 0
        for s in range(replica_start[r], replica_start[r + 1]):
            for k in range(use_offset[s], use_offset[s + 1]):
                load -= kept[k]
            free = max(capacity_blocks - room_blocks[s], 0)
            while load > free:
                top = heap[0]  # what is no longer waiting has smaller numbers, so it never comes up
                given = min(kept[top], load - free)
                kept[top] -= given
                load -= given
                if kept[top] > 0:
                    break
                size -= 1
                moved = heap[size]
                at = 0
                child = 1
                while child < size:
                    if child + 1 < size and heap[child + 1] > heap[child]:
                        child += 1
                    if heap[child] <= moved:
                        break
                    heap[at] = heap[child]
                    at = child
                    child = 2 * at + 1
                heap[at] = moved
            for x in range(next_offset[s], next_offset[s + 1]):
                k = next_use[x]
                kept[k] = use_blocks[k]
                load += use_blocks[k]
                at = size
                size += 1
                while at > 0 and heap[(at - 1) // 2] < k:
                    heap[at] = heap[(at - 1) // 2]
                    at = (at - 1) // 2
                heap[at] = k
