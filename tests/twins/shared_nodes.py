"""Slow, obvious twin of ``replay/shared_kernel.py``: whole paths in dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise


def path_of(parent: list[int], block: int) -> list[int]:
    """Return the blocks from the first one down to ``block``."""
    path = []
    while block >= 0:
        path.append(block)
        block = parent[block]
    return path[::-1]


def head_block(parent: list[int], head_blocks: int) -> list[int]:
    """Return the block at depth ``head_blocks`` of each block's path, or its last one."""
    return [path_of(parent, block)[:head_blocks][-1] for block in range(len(parent))]


def shared_nodes(
    parent: list[int], last_block: list[int]
) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int, int, int]]]:
    """Return ``{node: (parent node, depth)}`` and pieces ``(lookup, node, first block, blocks)``."""
    children: dict[int, set[int]] = defaultdict(set)
    ends = Counter(block for block in last_block if block >= 0)
    for block in last_block:
        path = path_of(parent, block)
        for above, below in pairwise(path):
            children[above].add(below)
    shared = {block for block in range(len(parent)) if len(children[block]) >= 2 or ends[block] >= 2}
    nodes = {}
    pieces = []
    for lookup, block in enumerate(last_block):
        above, first = -1, 0
        path = path_of(parent, block)
        for depth, here in enumerate(path, start=1):
            if here in shared:
                nodes[here] = (above, depth)
                pieces.append((lookup, here, first, depth - first))
                above, first = here, depth
        if first < len(path):
            pieces.append((lookup, -1, first, len(path) - first))
    return nodes, pieces
