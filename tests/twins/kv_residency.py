"""Which blocks were resident when, the slow way: a counter of copies and one walk for each lookup."""

from __future__ import annotations

from collections import Counter


def resident_prefixes(
    parent: list[int], events: list[tuple[int, int, int]], lookups: list[tuple[int, int]]
) -> list[int]:
    """Return the resident blocks from the start of each prompt.

    Args:
        parent: Block above each block, -1 for none.
        events: (time, block, change), by time; change 0 drops everything.
        lookups: (time, last block).
    """
    found = []
    for at, last in lookups:
        copies: Counter[int] = Counter()
        for when, block, change in events:
            if when > at:
                break
            if change == 0:
                copies.clear()
            else:
                copies[block] = max(0, copies[block] + change)
        path = [last]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        hits = 0
        for block in reversed(path):
            if not copies[block]:
                break
            hits += 1
        found.append(hits)
    return found
