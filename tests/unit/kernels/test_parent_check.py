from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.kernels.parent_check import ParentCheck
from twins import path_forest as twin

_ID = st.sampled_from([0, 1, 2**64 - 1, 2**63, 8, 9]) | st.integers(0, 30)
_ROWS = st.lists(st.tuples(st.integers(0, 17), st.lists(_ID, max_size=8)), max_size=30)
_HONEST = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12).map(lambda n: [7 * k for k in range(n)])), max_size=20
)


def add(check: ParentCheck, rows: list) -> list[int]:
    """Check rows in one call."""
    offsets = np.concatenate([[0], np.cumsum([len(ids) for _, ids in rows], dtype=np.int64)])
    ids = np.array([value for _, ids in rows for value in ids], np.uint64)
    return check.add(np.array([root for root, _ in rows], np.int64), offsets.astype(np.int64), ids).tolist()


@settings(deadline=None)  # the first call compiles
@given(rows=_ROWS | _HONEST, cut=st.integers(0, 30), capacity=st.sampled_from([1, 4, 64]))
def test_the_check_equals_its_twin_however_rows_are_chunked(rows, cut, capacity):
    """Conflicts and first rows equal a plain dictionary, for any chunking and any first capacity."""
    slow = twin.Parents()
    expected = [slow.add(root, ids) for root, ids in rows]

    check = ParentCheck(capacity)
    found = add(check, rows[:cut]) + add(check, rows[cut:])

    assert found == expected
    assert len(check) == len(slow.known)
    for root, ids in rows:
        for value in ids:
            _, row = slow.known.get((root, value), (None, -1))
            assert check.first_row(root, value) == row


def test_a_row_with_a_conflict_leaves_nothing_behind():
    """The ids that a rejected row named first may follow anything later."""
    check = ParentCheck()
    rows = [(0, [1, 2]), (0, [5, 2]), (0, [6, 5])]

    assert add(check, rows) == [-1, 1, -1]
    assert check.first_row(0, 5) == 2


def test_an_id_twice_in_one_row_is_a_conflict_with_itself():
    """No prefix hash can be its own ancestor."""
    check = ParentCheck()

    assert add(check, [(0, [4, 4])]) == [1]
    assert check.first_row(0, 4) == -1


def test_namespaces_do_not_share_ids():
    """The same id under two models is two ids."""
    assert add(ParentCheck(), [(0, [1, 2]), (1, [2, 1])]) == [-1, -1]


def test_an_id_at_the_start_of_a_row_has_no_parent():
    """An id that was first in one row may not be second in another."""
    assert add(ParentCheck(), [(0, [1]), (0, [9, 1])]) == [-1, 1]
