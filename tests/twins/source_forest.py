"""Slow, obvious twins of the passes over the forest of one source."""

from __future__ import annotations


def path(parent: list[int], node: int) -> list[int]:
    """Return the nodes from the root down to ``node``."""
    nodes = []
    while node >= 0:
        nodes.append(node)
        node = parent[node]
    return nodes[::-1]


def root_of(parent: list[int], node: int) -> int:
    """Return the namespace index of a node."""
    return -1 - parent[path(parent, node)[0]]


def rows_below(parent: list[int], last: list[int], rows: list[int]) -> list[list[int]]:
    """Return, for every node, the numbers of the rows whose path runs through it."""
    through: list[list[int]] = [[] for _ in parent]
    for row, node in zip(rows, last, strict=True):
        for step in path(parent, node):
            through[step].append(row)
    return through


def below_marked(parent: list[int], marked: list[bool]) -> list[bool]:
    """Return which nodes are marked or lie below a marked one."""
    return [any(marked[step] for step in path(parent, node)) for node in range(len(parent))]
