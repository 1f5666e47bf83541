"""Pieces are cut where their content says so: an edit renames what it touches, and nothing far behind it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.ingest.contents import TOKEN_CUTS
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.content_kernel import LENGTH_MASK, cut_pieces, name_pieces
from twins.content_pieces import cut

ROW = st.lists(st.integers(0, 5), max_size=60)


def named(row: list[int]) -> list[tuple[int, int]]:
    """Return the names of the pieces of one row."""
    values = read_only(row, np.uint64)
    _, ends = cut_pieces(values, read_only([0, len(row)], np.int64), *TOKEN_CUTS)
    begins = read_only(np.concatenate([[0], ends[:-1]]), np.int64)
    high, low = name_pieces(values, begins, read_only(ends, np.int64))
    return list(zip(high.tolist(), low.tolist(), strict=True))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(ROW, max_size=4),
    st.integers(1, 9),
    st.sampled_from([1, 3, 7]),
    st.integers(1, 4),
    st.integers(4, 20),
)
def test_rows_are_cut_as_by_the_twin(
    rows: list[list[int]], window: int, mask: int, least: int, most: int
) -> None:
    """Every row by itself, whatever stands beside it."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = read_only([value for row in rows for value in row], np.uint64)
    counts, ends = cut_pieces(values, read_only(offsets, np.int64), window, mask, least, most)
    expected = [
        [begin + end for end in cut(row, window, mask, least, most)]
        for begin, row in zip(offsets, rows, strict=False)
    ]
    assert counts.tolist() == [len(row) for row in expected]
    assert ends.tolist() == [end for row in expected for end in row]


def test_what_an_insertion_shifts_keeps_its_names() -> None:
    """One token on top renames the first pieces; 95 of 100 tokens of a long prompt keep theirs, at any place."""
    draw = np.random.default_rng(1)
    prompt = draw.integers(0, 50_000, 4_000).tolist()
    before = set(named(prompt))
    for at in (0, 1, 17, 2_000):
        after = named([*prompt[:at], 7, *prompt[at:]])
        kept = sum(low & LENGTH_MASK for high, low in after if (high, low) in before)
        assert kept > 0.95 * len(prompt)


def test_names_tell_contents_and_lengths_apart() -> None:
    """A name holds the length; one token more or less, or two swapped, is another name."""
    row = list(range(40))
    names = {tuple(named(one)) for one in (row, row[:-1], [*row, 0], [1, 0, *row[2:]])}
    assert len(names) == 4
    assert sum(low & LENGTH_MASK for _, low in named(row)) == 40
