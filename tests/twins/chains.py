"""Chains and paths by asking every block for its children: the slow, obvious twin of ``replay.chains``."""

from __future__ import annotations


def chains_of(parent: list[int]) -> list[list[int]]:
    """Return the blocks of each chain, chains in order of their first block."""
    children: dict[int, list[int]] = {block: [] for block in range(-1, len(parent))}
    for block, above in enumerate(parent):
        children[above].append(block)
    chains: list[list[int]] = []
    for block, above in enumerate(parent):
        if above >= 0 and len(children[above]) == 1:
            next(chain for chain in chains if chain[-1] == above).append(block)
        else:
            chains.append([block])
    return chains


def ancestors(parent: list[int], block: int) -> list[int]:
    """Return the path to a block, the root first; nothing for -1."""
    path: list[int] = []
    while block >= 0:
        path.append(block)
        block = parent[block]
    return path[::-1]
