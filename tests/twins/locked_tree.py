"""A radix tree whose nodes count their locks: what the twin of the running kernel is built on."""

from __future__ import annotations

from dataclasses import dataclass

from twins.radix_tree import Node, Tree


@dataclass(slots=True, eq=False)
class LockedNode(Node):
    """A node that counts its locks; ``dead`` once a reset or the TTL took its keys."""

    locks: int = 0
    dead: bool = False


class LockedTree(Tree):
    """A tree whose accesses make a new leaf after they have split what is beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = LockedNode([], None)

    def split(self, node: LockedNode, at: int) -> LockedNode:
        """Put the first blocks of a node into a new parent, which inherits times and locks."""
        upper = LockedNode(node.key[:at], node.parent, node.accessed, node.used, locks=node.locks)
        node.parent.children[upper.key[0]] = upper
        node.key, node.parent = node.key[at:], upper
        upper.children[node.key[0]] = node
        return upper

    def use(self, key: list[object], used: tuple[int, int]) -> LockedNode:
        """Match a key; return the node in which it ends."""
        path, _ = self.access(key)
        for node in path:
            node.used = max(node.used, used)
        return path[-1] if path else self.root

    def insert(self, key: list[object], used: tuple[int, int]) -> LockedNode:
        """Put a whole key in; return the node in which it ends."""
        path, rest = self.access(key)
        end = path[-1] if path else self.root
        if rest:
            self.clock += 1
            end.children[rest[0]] = LockedNode(rest, end, self.clock)
            path.append(end.children[rest[0]])
        for node in path:
            node.used = max(node.used, used)
        return path[-1] if path else self.root

    def leaves(self) -> list[LockedNode]:
        """Return the leaves that nobody locks."""
        return [node for node in self.nodes() if not node.children and not node.locks]


def above(node: LockedNode | None) -> list[LockedNode]:
    """Return a node and all above it but the root."""
    found = []
    while node is not None and node.parent is not None:
        found.append(node)
        node = node.parent
    return found
