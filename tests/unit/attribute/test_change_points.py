"""Steps are found where rates change, and nowhere else; matched comparisons say when there is too little."""

from __future__ import annotations

import numpy as np
import pytest

from prefixledger.attribute.change_points import LEAST_CHANGE, step_at, steps, told
from prefixledger.attribute.matched import matched


def _noise(n: int, seed: int, spread: float = 0.03) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.8, spread, n)


def test_one_step_is_found_with_its_size_and_interval() -> None:
    """A rate falls from 80 to 30 % at slice 100 of 168 and stays there."""
    rates = _noise(168, 1)
    rates[100:] -= 0.5
    (found,) = steps(np.arange(168), rates, np.ones(168))
    assert found.slice == 100
    assert found.low < -0.5 < found.high
    assert found.high - found.low < 0.05
    assert told([found]) == [True]


def test_a_slice_in_which_it_changed_halfway_hides_nothing() -> None:
    """An outage of 20 slices, with a tenth and a quarter of it in its first and last slice, has two edges."""
    rates = np.zeros(168)
    rates[62:82] = 0.97
    rates[62], rates[82] = 0.91, 0.24
    found = steps(np.arange(168), rates, np.ones(168), day_slices=24)
    assert [step.slice for step in found] == [62, 82]


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_many_series_accuses_nobody(seed: int) -> None:
    """Of 60 series without a change none is told to have one."""
    found = [
        step for n in range(60) for step in steps(np.arange(168), _noise(168, 100 * seed + n), np.ones(168))
    ]
    assert not any(told(found))


def test_days_and_nights_are_no_steps() -> None:
    """A rate that sags every afternoon by ten points changes at no moment."""
    slices = np.arange(168)
    rates = 0.8 - 0.1 * np.sin(slices / 24 * 2 * np.pi).clip(0) + _noise(168, 3, 0.005) - 0.8
    assert not any(told(steps(slices, rates, np.ones(168), day_slices=24)))
    rates[90:] -= 0.2
    found = steps(slices, rates, np.ones(168), day_slices=24)
    kept = [step.slice for step, sure in zip(found, told(found), strict=True) if sure]
    assert len(kept) == 1
    assert abs(kept[0] - 90) <= 1


def test_small_changes_are_not_told_however_sure() -> None:
    """One point over 200 slices without noise is certain, and not worth a word."""
    rates = np.full(200, 0.5)
    rates[100:] += LEAST_CHANGE / 2
    assert not any(told(steps(np.arange(200), rates, np.ones(200))))


def test_few_slices_are_not_enough() -> None:
    """Seven slices, or two on one side of a given moment, tell nothing."""
    assert steps(np.arange(7), np.array([0.9] * 4 + [0.0] * 3), np.ones(7)) == []
    rates = np.array([0.9, 0.9] + [0.0] * 10)
    assert step_at(np.arange(12), rates, np.ones(12), 2, 6) is None
    found = step_at(np.arange(12), rates[::-1].copy(), np.ones(12), 5, 6)
    assert found is not None


def test_matched_turns_need_pairs_on_both_sides() -> None:
    """Forty points between turns with and without a new release are sure; three pairs are not enough data."""

    def row(gap: int, changed: bool, pairs: int, mean: float) -> dict[str, object]:
        return {"field": "release", "gap_class": gap, "changed": changed, "pairs": pairs, "mean_share": mean, "share_variance": 0.02}  # fmt: skip

    sure, few = matched([row(60, True, 20, 0.5), row(60, False, 200, 0.9), row(300, True, 3, 0.0), row(300, False, 90, 0.9)])  # fmt: skip
    assert sure.low is not None
    assert sure.high is not None
    assert sure.low < -0.4 < sure.high < -0.3
    assert (sure.gap_to_s, few.p, few.changed_pairs) == (300, None, 3)
