"""Walking up a forest for many nodes at once equals walking up node by node; paths may go on from any node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.kernels.path_forest import PathForest
from prefixledger.kernels.paths import climb, expand_paths

_ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), max_size=7)), min_size=1, max_size=12
)


def _offsets(rows: list[list[int]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def _flat(rows: list[list[int]]) -> np.ndarray:
    return np.array([label for row in rows for label in row], np.uint64)


@settings(max_examples=80, deadline=None)
@given(_ROWS, st.data())
def test_paths_and_ancestors_are_those_of_a_walk_up(
    rows: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    """Any part of any path: the last nodes of it, and what lies so many steps above."""
    forest = PathForest()
    labels = [row for _, row in rows]
    node = forest.add(np.array([root for root, _ in rows], np.int64), _offsets(labels), None, _flat(labels))
    counts = np.array([data.draw(st.integers(0, len(row))) for row in labels], np.int64)
    walked: list[int] = []
    above: list[int] = []
    for last, count in zip(node.tolist(), counts.tolist(), strict=True):
        path, at = [], last
        for _ in range(count):
            path.append(at)
            at = max(int(forest.parent[at]), -1)
        walked += path[::-1]
        above.append(at)
    assert expand_paths(forest.parent, node, counts).tolist() == walked
    assert climb(forest.parent, node, counts).tolist() == above


@settings(max_examples=80, deadline=None)
@given(_ROWS, st.data())
def test_a_path_may_go_on_from_any_node(rows: list[tuple[int, list[int]]], data: st.DataObject) -> None:
    """Head first, then tail from where it ended: the same nodes as the path in one go."""
    whole, cut = PathForest(1), PathForest(1)
    roots = np.array([root for root, _ in rows], np.int64)
    labels = [row for _, row in rows]
    at = [data.draw(st.integers(0, len(row))) for row in labels]
    heads = [row[:end] for row, end in zip(labels, at, strict=True)]
    tails = [row[end:] for row, end in zip(labels, at, strict=True)]
    expected = whole.add(roots, _offsets(labels), None, _flat(labels))
    mid = cut.add(roots, _offsets(heads), None, _flat(heads))
    last = cut.extend(np.where(mid >= 0, mid, -1 - roots), _offsets(tails), None, _flat(tails))
    assert len(cut) == len(whole)
    paths = []
    for forest, ends in ((whole, expected), (cut, last)):
        counts = np.array([len(row) for row in labels], np.int64)
        paths.append(forest.label_lo[expand_paths(forest.parent, ends, counts)].tolist())
        assert [end < 0 for end in ends.tolist()] == [not row for row in labels]
    assert paths[0] == paths[1]


def test_a_path_cannot_go_on_from_nowhere() -> None:
    """A node that does not exist is a fault of the caller, not a read outside the arrays."""
    forest = PathForest()
    with pytest.raises(InternalError, match="does not exist"):
        forest.extend(np.array([0], np.int64), np.array([0, 1], np.int64), None, np.array([7], np.uint64))
