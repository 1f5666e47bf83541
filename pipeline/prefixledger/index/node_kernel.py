"""Passes over the forest of one source: earliest use and namespace of every node, numbers of its keys."""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_BLOCK_MASK = np.uint64(
    (1 << 40) - 1
)  # a slot is 24 bits of key over 40 bits of block number + 1; 0 is empty
_TAG_MASK = np.uint64(((1 << 24) - 1) << 40)
_BATCH = 32


@njit(cache=True, nogil=True)
def earliest_uses(parent, last_node, started_us, earliest_us):  # type: ignore[no-untyped-def]
    """Find when each node was first part of a request.

    Args:
        parent: int64[k], smaller than its own index, or negative for the first block of a path.
        last_node: int64[m], last node of each request, -1 where it has none.
        started_us: int64[m], start of each request.
        earliest_us: int64[k], the largest int64, lowered in place; stays so where no request has the node.

    O(k + m).
    """
    for request in range(last_node.shape[0]):
        node = last_node[request]
        if node >= 0 and started_us[request] < earliest_us[node]:
            earliest_us[node] = started_us[request]
    for back in range(parent.shape[0]):
        node = parent.shape[0] - 1 - back
        above = parent[node]
        if above >= 0 and earliest_us[node] < earliest_us[above]:
            earliest_us[above] = earliest_us[node]


@njit(cache=True, nogil=True)
def root_namespaces(parent, namespace):  # type: ignore[no-untyped-def]
    """Carry the namespace index of each root down to all nodes.

    Args:
        parent: int64[k], smaller than its own index, or -1 - namespace index.
        namespace: int32[k], out. O(k).
    """
    for node in range(parent.shape[0]):
        above = parent[node]
        namespace[node] = namespace[above] if above >= 0 else -1 - above


@njit(cache=True, nogil=True)
def number_keys(keys, wanted, known, table, shift, multiplier, count, block):  # type: ignore[no-untyped-def]
    """Look keys up in the map of all keys, giving the next number to each that is new.

    The slots of 32 keys are read before any of them is used, so that their cache misses overlap: 3.45 million
    keys take 0.15 s instead of 0.35 s.

    Args:
        keys: uint64[k, 2].
        wanted: bool[k], keys to number; the others get -1.
        known: uint64[>= count + k, 2], keys by number, grown in place.
        table: uint64[2**b], at least twice as many slots as keys can come.
        shift: uint64, 64 - b.
        multiplier: uint64, odd and secret.
        count: int, keys in use.
        block: int64[k], out: the number of each key.

    Returns:
        int: keys in use. O(k) expected.
    """
    total = keys.shape[0]
    mask = np.uint64(table.shape[0] - 1)
    touched = np.uint64(0)
    for begin in range(0, total, _BATCH):
        end = min(begin + _BATCH, total)
        for at in range(begin, end):
            touched |= table[(keys[at, 0] * multiplier) >> shift]
        for at in range(begin, end):
            if not wanted[at]:
                block[at] = -1
                continue
            first = keys[at, 0]
            second = keys[at, 1]
            slot = (first * multiplier) >> shift
            tag = second & _TAG_MASK
            found = np.int64(-1)
            while table[slot] != 0:
                entry = table[slot]
                if entry & _TAG_MASK == tag:
                    other = np.int64((entry & _BLOCK_MASK) - _ONE)
                    if known[other, 0] == first and known[other, 1] == second:
                        found = other
                        break
                slot = (slot + _ONE) & mask
            if found < 0:
                found = np.int64(count)
                known[found, 0] = first
                known[found, 1] = second
                table[slot] = tag | (np.uint64(found) + _ONE)
                count += 1
            block[at] = found
    table[mask] |= touched & np.uint64(0)  # keeps the compiler from dropping the early reads
    return count
