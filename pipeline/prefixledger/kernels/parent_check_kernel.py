"""Finds rows in which an id follows another id than it did before: ids that cannot be prefix hashes."""

from __future__ import annotations

import numpy as np
from numba import njit

from prefixledger.kernels.siphash_kernel import siphash

_ONE = np.uint64(1)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_ZERO = np.uint64(0)
_NODE_MASK = np.uint64((1 << 40) - 1)  # a slot is 24 bits of hash over 40 bits of node number + 1; 0 is empty
_TAG_MASK = np.uint64(((1 << 24) - 1) << 40)
_LINE_MASK = np.uint64(0xFFFFFFFFFFFFFFF8)  # eight slots are one cache line


@njit(cache=True, nogil=True)
def check_rows_kernel(  # type: ignore[no-untyped-def]
    root, offsets, ids, first_row, row_number,
    node_id, node_root, parent, seen_row, hint, root_hint, table, secret, count, conflict,
):  # fmt: skip
    """Follow rows of ids through the map id -> (parent, first row); a row with a conflict leaves nothing behind.

    Eight neighbouring ids share a hashed cache line of the table: traces count their ids upwards, so most of the
    random accesses of a plain table are saved, and the key of the hash still keeps hostile ids from clustering.

    Args:
        root: int64[n], namespace index of each row; the same id in two namespaces is two ids.
        offsets: int64[n + 1], where rows begin in ``ids``.
        ids: uint64[m].
        first_row: int, row to begin with.
        row_number: int, number of row 0 over all calls.
        node_id: uint64[capacity], grown in place: the id of each node.
        node_root: int64[capacity], grown in place: its namespace index.
        parent: int64[capacity], grown in place: node of the id before it, or -1 - namespace index.
        seen_row: int64[capacity], grown in place: number of the row that had it first.
        hint: int64[capacity], node last taken after each node, -1 if none.
        root_hint: int64[r], the same at the start of a row.
        table: uint64[2**k], at least 2 * capacity slots.
        secret: uint64[2], key of the hash.
        count: int, nodes in use.
        conflict: int64[n], out: position in the row of the first id with another parent, or -1.

    Returns:
        (int, int): row to go on with (n when done), nodes in use. O(ids) expected.
    """
    capacity = parent.shape[0]
    mask = np.uint64(table.shape[0] - 1)
    key_0 = secret[0]
    key_1 = secret[1]
    for row in range(first_row, root.shape[0]):
        top = root[row]
        node = np.int64(-1) - top
        start = count
        at = offsets[row]
        end = offsets[row + 1]
        conflict[row] = -1
        full = False
        while at < end:
            value = ids[at]
            following = node + 1
            if node >= 0 and following < count and parent[following] == node and node_id[following] == value:
                node = following
                at += 1
                continue
            child = hint[node] if node >= 0 else root_hint[top]
            if child < 0 or node_id[child] != value:
                mixed = siphash(key_0, key_1, np.uint64(top), value >> _THREE, _ZERO)
                tag = mixed & _TAG_MASK
                slot = ((mixed & _LINE_MASK) | (value & _SEVEN)) & mask
                child = np.int64(-1)
                while table[slot] != 0:
                    entry = table[slot]
                    if entry & _TAG_MASK == tag:
                        other = np.int64((entry & _NODE_MASK) - _ONE)
                        if node_id[other] == value and node_root[other] == top:
                            child = other
                            break
                    slot = (slot + _ONE) & mask
                if child < 0:
                    if count == capacity:
                        full = True
                        break
                    child = np.int64(count)
                    node_id[child] = value
                    node_root[child] = top
                    parent[child] = node
                    seen_row[child] = row_number + row
                    table[slot] = tag | (np.uint64(child) + _ONE)
                    count += 1
                elif parent[child] != node:
                    conflict[row] = at - offsets[row]
                    break
                if node >= 0:
                    hint[node] = child
                else:
                    root_hint[top] = child
            node = child
            at += 1
        if full or conflict[row] >= 0:
            while count > start:  # last in, first out restores a table with linear probing exactly
                count -= 1
                node = parent[count]
                if node >= 0:
                    hint[node] = -1
                else:
                    root_hint[top] = -1
                mixed = siphash(key_0, key_1, np.uint64(top), node_id[count] >> _THREE, _ZERO)
                slot = ((mixed & _LINE_MASK) | (node_id[count] & _SEVEN)) & mask
                while table[slot] & _NODE_MASK != np.uint64(count) + _ONE:
                    slot = (slot + _ONE) & mask
                table[slot] = _ZERO
            if full:
                return row, count
    return root.shape[0], count


@njit(cache=True, nogil=True)
def fill_id_table(node_id, node_root, count, table, secret):  # type: ignore[no-untyped-def]
    """Enter the first ``count`` nodes, all distinct, into an empty table. O(count) expected.

    Args:
        node_id: uint64[>= count].
        node_root: int64[>= count].
        count: int, nodes in use.
        table: uint64[2**k], zeros, filled in place.
        secret: uint64[2], key of the hash.
    """
    mask = np.uint64(table.shape[0] - 1)
    key_0 = secret[0]
    key_1 = secret[1]
    for node in range(count):
        value = node_id[node]
        mixed = siphash(key_0, key_1, np.uint64(node_root[node]), value >> _THREE, _ZERO)
        slot = ((mixed & _LINE_MASK) | (value & _SEVEN)) & mask
        while table[slot] != 0:
            slot = (slot + _ONE) & mask
        table[slot] = (mixed & _TAG_MASK) | (np.uint64(node) + _ONE)


@njit(cache=True, nogil=True)
def find_id(top, value, node_id, node_root, table, secret):  # type: ignore[no-untyped-def]
    """Return the node of one id in one namespace, or -1. O(1) expected.

    Args:
        top: int64, namespace index.
        value: uint64, the id.
        node_id: uint64[capacity].
        node_root: int64[capacity].
        table: uint64[2**k].
        secret: uint64[2], key of the hash.
    """
    mask = np.uint64(table.shape[0] - 1)
    mixed = siphash(secret[0], secret[1], np.uint64(top), value >> _THREE, _ZERO)
    slot = ((mixed & _LINE_MASK) | (value & _SEVEN)) & mask
    while table[slot] != 0:
        node = np.int64((table[slot] & _NODE_MASK) - _ONE)
        if node_id[node] == value and node_root[node] == top:
            return node
        slot = (slot + _ONE) & mask
    return np.int64(-1)
