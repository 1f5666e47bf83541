"""Walks rows of block labels down a growing forest, and maps one forest into another."""

from __future__ import annotations

import numpy as np

from prefixledger.kernels.jit import made_of_parts
from prefixledger.kernels.siphash_kernel import siphash

_ONE = np.uint64(1)
_NODE_MASK = np.uint64((1 << 40) - 1)  # a slot is 24 bits of hash over 40 bits of node number + 1; 0 is empty
_TAG_MASK = np.uint64(((1 << 24) - 1) << 40)


@made_of_parts
def walk_rows(  # type: ignore[no-untyped-def]
    root, offsets, rows_hi, rows_lo, wide, first_row,
    parent, label_hi, label_lo, hint, forked, root_hint, root_forked, table, secret, count, used, last,
):  # fmt: skip
    """Walk rows from their root, adding the nodes that are missing; stop at the row that no longer fits.

    A row that stops half-way keeps the nodes it added: walked again in larger arrays it finds them. Three ways
    to a child, cheapest first: the next node number (a path that was added in one go), the child last taken from
    here, the table. A node enters the table only when it gets a sibling, so a new path costs no hash at all:
    the 3.45 million nodes of the agentic trace make 7 thousand entries.

    Args:
        root: int64[n], namespace index of each row.
        offsets: int64[n + 1], where rows begin in the labels.
        rows_hi: uint64[m], high halves, or uint64[0] where ``wide`` is false.
        rows_lo: uint64[m], low halves.
        wide: bool, whether high halves are given; else they are 0.
        first_row: int, row to begin with.
        parent: int64[capacity], grown in place, as the next four: parent node, or -1 - namespace index.
        label_hi: uint64[capacity], zero beyond ``count``.
        label_lo: uint64[capacity].
        hint: int64[capacity], child last taken from each node, -1 if it has none.
        forked: bool[capacity], whether the node has two children or more, which are all in the table.
        root_hint: int64[r], ``hint`` for each namespace index.
        root_forked: bool[r], ``forked`` for each namespace index.
        table: uint64[2**k], never more than half full.
        secret: uint64[2], key of the hash.
        count: int, nodes in use.
        used: int, table slots in use.
        last: int64[n], out: last node of each row, -1 for an empty one.

    Returns:
        (int, int, int): row to go on with (n when done), nodes in use, slots in use. O(labels) expected.
    """
    capacity = parent.shape[0]
    slots = table.shape[0]
    mask = np.uint64(slots - 1)
    key_0 = secret[0]
    key_1 = secret[1]
    high = np.uint64(0)
    for row in range(first_row, root.shape[0]):
        top = root[row]
        node = np.int64(-1) - top
        at = offsets[row]
        end = offsets[row + 1]
        while at < end:
            low = rows_lo[at]
            if wide:
                high = rows_hi[at]
            following = node + 1
            if (
                node >= 0
                and following < count
                and parent[following] == node
                and label_lo[following] == low
                and label_hi[following] == high
            ):
                node = following
                at += 1
                continue
            taken = hint[node] if node >= 0 else root_hint[top]
            child = taken
            if child < 0 or label_lo[child] != low or label_hi[child] != high:
                child = np.int64(-1)
                slot = np.uint64(0)
                tag = np.uint64(0)
                if taken >= 0:
                    mixed = siphash(key_0, key_1, np.uint64(node), high, low)
                    tag = mixed & _TAG_MASK
                    slot = mixed & mask
                    while table[slot] != 0:
                        entry = table[slot]
                        if entry & _TAG_MASK == tag:
                            other = np.int64((entry & _NODE_MASK) - _ONE)
                            if label_lo[other] == low and parent[other] == node and label_hi[other] == high:
                                child = other
                                break
                        slot = (slot + _ONE) & mask
                if child < 0:
                    if count == capacity or 2 * (used + 2) > slots:
                        return row, count, used
                    child = np.int64(count)
                    parent[child] = node
                    label_lo[child] = low
                    hint[child] = -1
                    forked[child] = False
                    if high != 0:  # untouched pages of zeros take no memory
                        label_hi[child] = high
                    count += 1
                    if taken >= 0:
                        table[slot] = tag | (np.uint64(child) + _ONE)
                        used += 1
                        if not (forked[node] if node >= 0 else root_forked[top]):
                            if node >= 0:
                                forked[node] = True
                            else:
                                root_forked[top] = True
                            mixed = siphash(key_0, key_1, np.uint64(node), label_hi[taken], label_lo[taken])
                            slot = mixed & mask
                            while table[slot] != 0:
                                slot = (slot + _ONE) & mask
                            table[slot] = (mixed & _TAG_MASK) | (np.uint64(taken) + _ONE)
                            used += 1
                if node >= 0:
                    hint[node] = child
                else:
                    root_hint[top] = child
            node = child
            at += 1
        last[row] = node if node >= 0 else np.int64(-1)
    return root.shape[0], count, used


@made_of_parts
def refill_table(parent, label_hi, label_lo, old_table, table, secret):  # type: ignore[no-untyped-def]
    """Enter the nodes of one table into a larger, empty one. O(slots) expected.

    Args:
        parent: int64[capacity].
        label_hi: uint64[capacity].
        label_lo: uint64[capacity].
        old_table: uint64[2**k].
        table: uint64[2**l], zeros, filled in place.
        secret: uint64[2], key of the hash.
    """
    mask = np.uint64(table.shape[0] - 1)
    key_0 = secret[0]
    key_1 = secret[1]
    for at in range(old_table.shape[0]):
        entry = old_table[at]
        if entry != 0:
            node = np.int64((entry & _NODE_MASK) - _ONE)
            slot = siphash(key_0, key_1, np.uint64(parent[node]), label_hi[node], label_lo[node]) & mask
            while table[slot] != 0:
                slot = (slot + _ONE) & mask
            table[slot] = entry
