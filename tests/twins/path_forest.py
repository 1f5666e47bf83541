"""Paths as nested dictionaries: the slow, obvious twin of ``PathForest`` and ``ParentCheck``."""

from __future__ import annotations

from dataclasses import dataclass, field

Label = tuple[int, int]


@dataclass
class Forest:
    """Nodes in order of appearance, keyed by (parent, label)."""

    nodes: dict[tuple[int, Label], int] = field(default_factory=dict)

    def add(self, root: int, labels: list[Label]) -> int:
        """Return the last node of a path, -1 for an empty one."""
        node = -1 - root
        for label in labels:
            node = self.nodes.setdefault((node, label), len(self.nodes))
        return max(node, -1)

    def merge(self, other: Forest, root_map: list[int]) -> list[int]:
        """Return the node here of each node there."""
        mapped: list[int] = []
        for parent, label in other.nodes:
            here = mapped[parent] if parent >= 0 else -1 - root_map[-1 - parent]
            mapped.append(self.nodes.setdefault((here, label), len(self.nodes)))
        return mapped


@dataclass
class Parents:
    """The map (namespace, id) -> (id before it, first row); rows with a conflict leave it unchanged."""

    known: dict[tuple[int, int], tuple[int | None, int]] = field(default_factory=dict)
    rows: int = 0

    def add(self, root: int, ids: list[int]) -> int:
        """Return the position of the first id that followed another one before, or -1."""
        trial = dict(self.known)
        before: int | None = None
        self.rows += 1
        for position, value in enumerate(ids):
            if trial.setdefault((root, value), (before, self.rows - 1))[0] != before:
                return position
            before = value
        self.known = trial
        return -1
