"""The curve of what a best-effort cache keeps: it falls, it finds what was put in, and it says how sure it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.replay.survival import FEWEST_LOOKUPS, fit_survival

MINUTE = 60_000_000


def _drawn(seed: int, n: int, kept_for_us: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    gap = random.exponential(5 * MINUTE, n).astype(np.int64)
    alive = random.random(n) < np.exp(-gap / kept_for_us)
    return gap, np.full(n, 1000), np.where(alive, 1000, 0)


def test_it_finds_what_was_put_in() -> None:
    """Kept for 10 minutes in the mean: the curve lies near it, and the expected hits near those that there were."""
    gap, possible, read = _drawn(1, 4000, 10 * MINUTE)
    found = fit_survival(gap, possible, read, np.arange(gap.size))
    assert found is not None
    middle = (found.from_us + found.upto_us) / 2
    assert np.abs(found.kept - np.exp(-middle / (10 * MINUTE)))[:-1].max() < 0.1
    assert found.expected_tokens == pytest.approx(read.sum(), rel=1e-9)
    assert found.expected_low < found.expected_tokens < found.expected_high
    assert found.lookups.sum() == 4000


def test_lookups_without_usage_are_expected_to_fare_alike() -> None:
    """Half of the lookups say nothing: as much is expected of them."""
    gap, possible, read = _drawn(2, 2000, 10 * MINUTE)
    silent = np.arange(gap.size) % 2 == 1
    found = fit_survival(gap, possible, np.where(silent, -1, read), np.arange(gap.size))
    assert found is not None
    assert found.expected_low < read.sum() < found.expected_high


def test_conversations_widen_the_interval() -> None:
    """20 conversations of which each keeps all or nothing say less than 2,000 lookups would."""
    gap = np.full(2000, MINUTE)
    owner = np.arange(2000) % 20
    read = np.where(owner < 10, 1000, 0)
    widths = []
    for conversation in (np.arange(2000), owner):
        found = fit_survival(gap, np.full(2000, 1000), read, conversation)
        assert found is not None
        assert found.kept.tolist() == [0.5]
        widths.append(float(found.high[0] - found.low[0]))
    assert widths[1] > 3 * widths[0]


def test_a_few_lookups_say_nothing() -> None:
    """Below 20 there is no curve."""
    n = FEWEST_LOOKUPS - 1
    assert fit_survival(np.arange(n), np.ones(n, np.int64), np.ones(n, np.int64), np.arange(n)) is None


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(1, 5000), st.integers(-1, 6000), st.integers(0, 9)),
        min_size=20,
        max_size=60,
    )
)
def test_it_falls_between_nothing_and_all(rows: list[tuple[int, int, int, int]]) -> None:
    """Shares lie between 0 and 1, never rise with the gap, and stay inside their intervals."""
    found = fit_survival(*(np.asarray(column, np.int64) for column in zip(*rows, strict=True)))
    if found is None:
        return
    for shares in (found.kept, found.low, found.high):
        assert ((shares >= -1e-9) & (shares <= 1 + 1e-9)).all()
    assert (np.diff(found.kept) <= 1e-9).all()
    assert (found.low <= found.kept).all()
    assert (found.kept <= found.high).all()
    assert found.expected_low <= found.expected_tokens <= found.expected_high
    assert found.expected_tokens <= sum(row[1] for row in rows) + 1e-6
