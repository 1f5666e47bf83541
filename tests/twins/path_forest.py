"""Paths as nested dictionaries: the slow, obvious twin of ``PathForest``."""

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
