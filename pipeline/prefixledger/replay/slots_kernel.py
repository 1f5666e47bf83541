"""Slots of one replica one by one: its free queue, the copies of every block, and what requests hold of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import part
from prefixledger.replay.extent_pool_kernel import BLANK, FREE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `slots`; row 0 is the ends of the free queue and the head of the list of unused rows.
KEY, PINS, Q_NEXT, Q_PREV, YOUNGER, OLDER = range(6)
SLOT_COLUMNS = 6
# Keys that are no block numbers: content that the log does not tell, and none.
UNKNOWN, UNHASHED, UNUSED = -1, -2, -3
# Columns of `blocks`: the ends of the list of copies, 0 for none, and 1 + the row that is computing it right now.
OLDEST, YOUNGEST, COMING = range(3)
BLOCK_COLUMNS = 3
# Columns of `chains`: number of its first block, depth, length.
FIRST, DEPTH, LENGTH = range(3)
# Columns of `requests`: cells it holds, the reset before its last and its first admission, slots, full blocks, full blocks
# of prompt and output keyed so far, and its place on its path: entry, position in that chain.
HELD, EPOCH, FIRST_EPOCH, SLOTS, FULL, STORED, ENTRY, POSITION = range(8)
REQUEST_COLUMNS = 8
# Columns of `cells`; row 0 is the first that never was used, and the head of the list of those that are free again.
SLOT, BELOW = range(2)
CELL_COLUMNS = 2
SLOTS_FULL, CELLS_FULL, GONE_FULL = -1, -2, -3


@part
def enqueue(slots: NDArray[np.int32], s: int) -> None:
    """Append a slot to the free queue. O(1)."""
    last = slots[0, Q_PREV]
    slots[s, Q_NEXT], slots[s, Q_PREV] = 0, last
    slots[last, Q_NEXT] = slots[0, Q_PREV] = s


@part
def dequeue(slots: NDArray[np.int32], s: int) -> None:
    """Take a slot out of the free queue. O(1)."""
    after, before = slots[s, Q_NEXT], slots[s, Q_PREV]
    slots[before, Q_NEXT], slots[after, Q_PREV] = after, before


@part
def drop_slot(slots: NDArray[np.int32], s: int) -> None:
    """Make a row unused. O(1)."""
    slots[s, KEY] = UNUSED
    slots[s, Q_NEXT] = slots[0, YOUNGER]
    slots[0, YOUNGER] = s


@part
def new_slot(slots: NDArray[np.int32], key: int) -> int:
    """Return a row for a pinned slot, with a key that is no block; 0: the table is full. O(1)."""
    s: int = slots[0, YOUNGER]
    if s != 0:
        slots[0, YOUNGER] = slots[s, Q_NEXT]
    elif slots[0, OLDER] < slots.shape[0]:
        s = slots[0, OLDER]
        slots[0, OLDER] += 1
    else:
        return 0
    slots[s, KEY], slots[s, PINS] = key, 1
    return s


@part
def give_key(slots: NDArray[np.int32], blocks: NDArray[np.int32], s: int, x: int) -> None:
    """Key a slot; it is the youngest copy of the block. O(1)."""
    last = blocks[x, YOUNGEST]
    slots[s, KEY], slots[s, YOUNGER], slots[s, OLDER] = x, 0, last
    if last == 0:
        blocks[x, OLDEST] = s
    else:
        slots[last, YOUNGER] = s
    blocks[x, YOUNGEST] = s


@part
def drop_key(slots: NDArray[np.int32], blocks: NDArray[np.int32], s: int) -> None:
    """Take the block off a slot. O(1)."""
    x, after, before = slots[s, KEY], slots[s, YOUNGER], slots[s, OLDER]
    if after == 0:
        blocks[x, YOUNGEST] = before
    else:
        slots[after, OLDER] = before
    if before == 0:
        blocks[x, OLDEST] = after
    else:
        slots[before, YOUNGER] = after


@part
def new_cell(cells: NDArray[np.int32], s: int, below: int) -> int:
    """Put a slot on top of what a request holds; return the cell, 0: the table is full. O(1)."""
    cell: int = cells[0, BELOW]
    if cell != 0:
        cells[0, BELOW] = cells[cell, BELOW]
    elif cells[0, SLOT] < cells.shape[0]:
        cell = cells[0, SLOT]
        cells[0, SLOT] += 1
    else:
        return 0
    cells[cell, SLOT], cells[cell, BELOW] = s, below
    return cell


@part
def count_hits(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    slots: NDArray[np.int32],
    blocks: NDArray[np.int32],
    first_entry: int,
    end_entry: int,
    limit: int,
) -> tuple[int, int]:
    """Count the blocks at the head of a path that are there, ``limit`` at most, and those of them that are pinned. O(hits)."""
    hits = pinned = 0
    for entry in range(first_entry, end_entry):
        c = path_chain[entry]
        depth = chains[c, DEPTH]
        if hits < depth:
            break
        stop = min(depth + chains[c, LENGTH], limit)
        while hits < stop and blocks[chains[c, FIRST] - depth + hits, OLDEST] != 0:
            pinned += slots[blocks[chains[c, FIRST] - depth + hits, OLDEST], PINS] > 0
            hits += 1
    return hits, pinned


@part
def hold_slots(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    slots: NDArray[np.int32],
    blocks: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    row: int,
    begin: int,
    keyed_from: int,
    keyed_to: int,
    full: int,
    end: int,
) -> int:
    """Hold blocks ``[begin, end)`` of a row in new slots, and key what is computed.

    Blocks before ``keyed_from`` have no key, those before ``keyed_to`` that of the row's path, those before ``full`` one that
    the log does not tell, those behind none. The row's place on its path lies at ``begin``.

    Returns:
        0, or which table is full. O(blocks).
    """
    held, entry, position = requests[row, HELD], requests[row, ENTRY], requests[row, POSITION]
    for index in range(begin, end):
        s = new_slot(slots, UNKNOWN if keyed_to <= index < full else UNHASHED)
        if s == 0:
            return SLOTS_FULL
        if index < keyed_to:
            if index >= keyed_from:
                x = chains[path_chain[entry], FIRST] + position
                give_key(slots, blocks, s, x)
                blocks[x, COMING] = 0
            position += 1
            if position == chains[path_chain[entry], LENGTH]:
                entry += 1
                position = 0
        held = new_cell(cells, s, held)
        if held == 0:
            return CELLS_FULL
    requests[row, HELD], requests[row, ENTRY], requests[row, POSITION] = held, entry, position
    return 0


@part
def pin_hits(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    slots: NDArray[np.int32],
    blocks: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    pool: NDArray[np.int64],
    row: int,
    hits: int,
) -> int:
    """Pin the oldest copies of the first blocks of a path, and leave the row's place behind them.

    Returns:
        0, or that the table is full. O(hits).
    """
    held = 0
    entry, position = requests[row, ENTRY], 0
    for _ in range(hits):
        s = blocks[chains[path_chain[entry], FIRST] + position, OLDEST]
        if slots[s, PINS] == 0:
            dequeue(slots, s)
            pool[FREE] -= 1
        slots[s, PINS] += 1
        held = new_cell(cells, s, held)
        if held == 0:
            return CELLS_FULL
        position += 1
        if position == chains[path_chain[entry], LENGTH]:
            entry += 1
            position = 0
    requests[row, HELD], requests[row, ENTRY], requests[row, POSITION] = held, entry, position
    return 0


@part
def release(
    slots: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    pool: NDArray[np.int64],
    row: int,
    in_line: bool,
) -> None:
    """Unpin all that a row holds, deepest first; slots without a key are blank at once, or queue ``in_line``. O(held)."""
    cell = requests[row, HELD]
    while cell != 0:
        s = cells[cell, SLOT]
        slots[s, PINS] -= 1
        if slots[s, PINS] == 0:
            pool[FREE] += 1
            if slots[s, KEY] == UNHASHED and not in_line:
                drop_slot(slots, s)
                pool[BLANK] += 1
            else:
                enqueue(slots, s)
        below = cells[cell, BELOW]
        cells[cell, BELOW] = cells[0, BELOW]
        cells[0, BELOW] = cell
        cell = below
    requests[row, HELD] = 0


@part
def key_deepest(
    path_chain: NDArray[np.int32],
    chains: NDArray[np.int64],
    slots: NDArray[np.int32],
    blocks: NDArray[np.int32],
    cells: NDArray[np.int32],
    requests: NDArray[np.int32],
    row: int,
    known: bool,
) -> None:
    """Key the deepest slot of a row, which its output has filled. O(1)."""
    s = cells[requests[row, HELD], SLOT]
    if not known:
        slots[s, KEY] = UNKNOWN
        return
    c = path_chain[requests[row, ENTRY]]
    give_key(slots, blocks, s, chains[c, FIRST] + requests[row, POSITION])
    requests[row, POSITION] += 1
    if requests[row, POSITION] == chains[c, LENGTH]:
        requests[row, ENTRY] += 1
        requests[row, POSITION] = 0


@part
def forget_all(slots: NDArray[np.int32], blocks: NDArray[np.int32], pool: NDArray[np.int64]) -> None:
    """Take the key off every slot; free ones become blank. O(slots)."""
    for s in range(1, slots[0, OLDER]):
        if slots[s, KEY] == UNUSED:
            continue
        if slots[s, KEY] >= 0:
            blocks[slots[s, KEY], OLDEST] = blocks[slots[s, KEY], YOUNGEST] = 0
        if slots[s, PINS] > 0:
            slots[s, KEY] = UNHASHED
        else:
            drop_slot(slots, s)
    slots[0, Q_NEXT] = slots[0, Q_PREV] = 0
    pool[BLANK] = pool[FREE]
