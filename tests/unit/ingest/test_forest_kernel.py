"""The passes over a source's forest equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.ingest import forest_kernel as kernel
from twins.source_forest import below_marked, path, root_of, rows_below


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Return parents and the last node of some rows."""
    parent = [draw(st.integers(-3, node - 1)) for node in range(draw(st.integers(0, 25)))]
    last = draw(st.lists(st.integers(-1, len(parent) - 1), max_size=12))
    return parent, last


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@given(forests())
def test_roots(forest: tuple[list[int], list[int]]) -> None:
    """Every node knows the namespace at the top of its path."""
    parent, _ = forest
    assert kernel.roots_of(_ints(parent)).tolist() == [root_of(parent, node) for node in range(len(parent))]


@given(forests())
def test_rows_through_nodes(forest: tuple[list[int], list[int]]) -> None:
    """Counts and first rows are those of the paths, walked one by one."""
    parent, last = forest
    rows = [3 * number + 1 for number in range(len(last))]
    count, first = kernel.rows_below(_ints(parent), _ints(last), _ints(rows))
    through = rows_below(parent, last, rows)
    assert count.tolist() == [len(numbers) for numbers in through]
    assert first.tolist() == [min(numbers, default=1 << 62) for numbers in through]


@given(forests(), st.data())
def test_marks_spread_downwards(forest: tuple[list[int], list[int]], data: st.DataObject) -> None:
    """Whatever lies below a mark is marked, nothing else."""
    parent, _ = forest
    marked = data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent)))
    spread = np.array(marked, np.bool_)
    kernel.spread_down(_ints(parent), spread)
    assert spread.tolist() == below_marked(parent, marked)


@given(forests())
def test_gaps_close_and_paths_stay(forest: tuple[list[int], list[int]]) -> None:
    """After dropping what no row uses, each row's path is as long as before and ends in the same namespace."""
    parent, last = forest
    count, _ = kernel.rows_below(_ints(parent), _ints(last), np.arange(len(last)))
    number, kept = kernel.renumber(_ints(parent), count > 0)
    assert kept.size == int((count > 0).sum())
    assert all(above < node for node, above in enumerate(kept.tolist()))
    for node in last:
        if node >= 0:
            moved = int(number[node])
            assert [int(number[step]) for step in path(parent, node)] == path(kept.tolist(), moved)
            assert root_of(parent, node) == root_of(kept.tolist(), moved)
