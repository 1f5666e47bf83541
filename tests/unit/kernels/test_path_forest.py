from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.kernels.path_forest import PathForest
from twins import path_forest as twin

_EDGES = [0, 1, 2**63, 2**64 - 1]
_HALF = st.sampled_from(_EDGES) | st.integers(0, 5)
_LABELS = st.lists(st.tuples(_HALF, _HALF), max_size=12)
_ROWS = st.lists(st.tuples(st.integers(0, 20), _LABELS), max_size=30)


def add(forest: PathForest, rows: list, *, wide: bool = True) -> list[int]:
    """Add rows in one call."""
    offsets = np.concatenate([[0], np.cumsum([len(labels) for _, labels in rows], dtype=np.int64)])
    flat = np.array([label for _, labels in rows for label in labels], np.uint64).reshape(-1, 2)
    root = np.array([root for root, _ in rows], np.int64)
    high = np.ascontiguousarray(flat[:, 0]) if wide else None
    return forest.add(root, offsets.astype(np.int64), high, np.ascontiguousarray(flat[:, 1])).tolist()


def nodes(forest: PathForest) -> list:
    """Return the nodes in the form of the twin's keys."""
    labels = zip(forest.label_hi.tolist(), forest.label_lo.tolist(), strict=True)
    return list(zip(forest.parent.tolist(), labels, strict=True))


@settings(deadline=None)  # the first call compiles
@given(rows=_ROWS, cut=st.integers(0, 30), capacity=st.integers(1, 40))
def test_a_forest_equals_its_twin_however_rows_are_chunked(rows, cut, capacity):
    """Last nodes, parents and labels equal nested dictionaries, for any chunking and any first capacity."""
    slow = twin.Forest()
    expected = [slow.add(root, labels) for root, labels in rows]

    forest = PathForest(capacity)
    last = add(forest, rows[:cut]) + add(forest, rows[cut:])

    assert last == expected
    assert nodes(forest) == list(slow.nodes)
    assert len(forest) == len(slow.nodes)


@settings(deadline=None)  # the first call compiles
@given(rows=_ROWS)
def test_absent_high_halves_are_zeros(rows):
    """Labels without a high half are the same labels as those with a high half of 0."""
    narrow = [(root, [(0, low) for _, low in labels]) for root, labels in rows]
    one, other = PathForest(4), PathForest(4)

    assert add(one, narrow, wide=False) == add(other, narrow)
    assert nodes(one) == nodes(other)
    assert not one.label_hi.any()


def test_a_parent_comes_before_its_child():
    """Every parent is a smaller number, and namespace n is written as -1 - n."""
    forest = PathForest()

    add(forest, [(3, [(0, 1), (0, 2)]), (0, [(0, 1)])])

    assert forest.parent.tolist() == [-4, 0, -1]
    assert (forest.parent < np.arange(3)).all()


def test_many_children_of_one_node_stay_fast():
    """A node with 200,000 children, whose ids differ only in their top bits, is walked in far under 5 s."""
    count = 200_000
    low = np.arange(count, dtype=np.uint64) << np.uint64(46)
    rows = np.empty(2 * count, np.uint64)
    rows[0::2] = 7
    rows[1::2] = low
    forest = PathForest()

    last = forest.add(np.zeros(count, np.int64), np.arange(0, 2 * count + 1, 2), None, rows)

    assert len(forest) == count + 1
    assert np.unique(last).shape[0] == count
    again = forest.add(np.zeros(count, np.int64), np.arange(0, 2 * count + 1, 2), None, rows)
    assert (again == last).all()
    assert len(forest) == count + 1


@pytest.mark.parametrize(
    ("root", "offsets"),
    [([0], [0, 3]), ([0], [0]), ([0, 0], [0, 2, 1]), ([-1], [0, 2]), ([0], [-1, 2])],
    ids=["beyond the labels", "too few offsets", "falling", "negative namespace", "negative offset"],
)
def test_offsets_that_do_not_fit_are_refused(root, offsets):
    """A kernel is never started on offsets outside its arrays."""
    with pytest.raises(InternalError):
        PathForest().add(np.array(root), np.array(offsets), None, np.zeros(2, np.uint64))
