"""Where the entries of a hosted cache hang in the forest, and how much of each prompt was served before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel, part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `entries`, one row per entry and replica.
USED, EPOCH, ORDINAL, MARK = range(4)
ENTRY_COLUMNS = 4
# Columns of `entry_ready`: when it can be read as far as is known or estimated, and when for sure.
READY, READABLE = range(2)


@part
def ends_interval(depth_blocks: int, every_tokens: int, first_tokens: int, block_size: int) -> bool:
    """Say whether an interval ends in the first so many blocks, and not in fewer.

    They end at ``first_tokens`` and every ``every_tokens`` behind, where those are at least a block.
    """
    behind = max(-((first_tokens - depth_blocks * block_size) // every_tokens), 0)
    return (first_tokens + behind * every_tokens) // block_size == depth_blocks


@part
def alive(
    entries: NDArray[np.int32],
    row: int,
    mark_ttl_us: NDArray[np.int64],
    at_us: NDArray[np.int64],
    now: int,
    resets: int,
) -> bool:
    """Say whether an entry is there: stored, not taken by a reset, and used within its lifetime."""
    used = entries[row, USED]
    ttl_us = mark_ttl_us[entries[row, MARK]] if used >= 0 else -1
    return used >= 0 and entries[row, EPOCH] == resets and (ttl_us < 0 or now - at_us[used] <= ttl_us)


@part
def in_flight(
    entry_ready: NDArray[np.int64], row: int, now: int, depth: int, read_blocks: int, wanted_blocks: int
) -> bool:
    """Say whether an entry that is there cannot be read yet.

    While that is an estimate, the usage of whoever asks for it knows better: it read so far, or it did not, although it
    wrote as far as that itself.
    """
    if now < entry_ready[row, READY]:
        return entry_ready[row, READY] == entry_ready[row, READABLE] or depth > read_blocks
    return now < entry_ready[row, READABLE] and read_blocks < depth <= wanted_blocks


@kernel
def find_parents(
    parent: NDArray[np.int64],
    is_entry: NDArray[np.int32],
    nearest: NDArray[np.int32],
    entry_parent: NDArray[np.int32],
) -> None:
    """Link every entry to the next one above it.

    Args:
        parent: int64[blocks], block above, always a smaller number; -1 for the first block of a prompt.
        is_entry: int32[blocks], number of the entry that ends with the block, -1 for none.
        nearest: int32[blocks], out: the entry that ends with the block or is the nearest above it, -1 for none.
        entry_parent: int32[entries], out, -1 for none. O(blocks).
    """
    for block in range(parent.shape[0]):
        above = parent[block]
        found = nearest[above] if above >= 0 else -1
        if is_entry[block] >= 0:
            entry_parent[is_entry[block]] = found
            found = is_entry[block]
        nearest[block] = found


@kernel
def find_ends(
    parent: NDArray[np.int64],
    block: NDArray[np.int64],
    depth: NDArray[np.int64],
    every_tokens: int,
    first_tokens: int,
    block_size: int,
    seen: NDArray[np.bool_],
    end_depth: NDArray[np.int32],
) -> None:
    """Find the blocks above some marks at which intervals end.

    Args:
        parent: int64[blocks], block above, -1 for the first block of a prompt.
        block: int64[k], last block before each mark.
        depth: int64[k], blocks down to it.
        every_tokens: The distance of the ends.
        first_tokens: Where the first one is, below that.
        block_size: Tokens per block.
        seen: bool[blocks], false; scratch.
        end_depth: int32[blocks], out: blocks down to each end; others stay as they are. O(blocks + k).
    """
    for i in range(block.shape[0]):
        at, down = block[i], depth[i]
        while at >= 0 and not seen[at]:
            seen[at] = True
            if ends_interval(down, every_tokens, first_tokens, block_size):
                end_depth[at] = down
            at = parent[at]
            down -= 1


@kernel
def served_before(
    parent: NDArray[np.int64],
    last_block: NDArray[np.int64],
    keyed_blocks: NDArray[np.int64],
    seen: NDArray[np.bool_],
    shared: NDArray[np.int64],
) -> None:
    """Count how many blocks of each prompt an earlier one begins with, too.

    Args:
        parent: int64[blocks], block above, -1 for the first block of a prompt.
        last_block: int64[m], last block of each prompt, in order of arrival.
        keyed_blocks: int64[m], blocks down to it.
        seen: bool[blocks], false; scratch.
        shared: int64[m], out. O(blocks + m).
    """
    for i in range(last_block.shape[0]):
        block, depth = last_block[i], keyed_blocks[i]
        while block >= 0 and not seen[block]:
            seen[block] = True
            block = parent[block]
            depth -= 1
        shared[i] = depth
