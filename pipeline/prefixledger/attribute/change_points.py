"""Finds where a rate changed for good: optimal segmentation, and a test of every step that allows for how many were made."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LEAST_SLICES = 3
"""Slices on either side of a step: two have no spread to judge it by."""
ENOUGH_SLICES = 8
"""Slices with lookups below which nothing is looked for."""
CONFIDENCE = 0.95
FALSE_SHARE = 0.05
"""Share of false steps among those that are told."""
LEAST_CHANGE = 0.02
"""A rate that moves by less than two points is not told, however sure it is."""
_FLOOR = 0.005
"""Half a point: spread that a rate is taken to have at least, so that a flat zero is no proof."""
_PENALTY = 4.0
"""Times the logarithm of the number of slices: twice what independent noise would ask for, as slices hang together."""
_DAYS_FOR_RHYTHM = 3


@dataclass(frozen=True, slots=True)
class Step:
    """A rate that changed.

    Attributes:
        slice: First slice with the new rate.
        before: Rate of the stretch before, weighted by tokens.
        after: Rate of the stretch behind.
        low: Lower end of the interval of the change.
        high: Its upper end.
        p: Probability of such a step by chance, times the number of places where it might have been.
        last_before: Last slice with the old rate: the step lies behind it.
    """

    slice: int
    before: float
    after: float
    low: float
    high: float
    p: float
    last_before: int

    @property
    def change(self) -> float:
        """Return by how much it changed."""
        return self.after - self.before


def steps(
    slices: NDArray[np.int64],
    rates: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    day_slices: int = 0,
) -> list[Step]:
    """Split a series of rates into stretches that do not change, and return the steps between them.

    Args:
        slices: int64[n], rising; slices without lookups are left out.
        rates: float64[n].
        weights: float64[n], tokens.
        day_slices: Slices of a day, where the rhythm of days is to be taken off first; 0 leaves it.

    Returns:
        In order of time, those that chance alone would hardly make in one series. Empty where there are too few slices.
    """
    if slices.size < ENOUGH_SLICES:
        return []
    level = rates - _rhythm(slices, rates, day_slices)
    scaled = weights / weights.mean()
    bounds = _segments(level, scaled)
    while True:
        found = [
            _step(slices, level, rates, scaled, (begin, at, end))
            for (begin, at), (_, end) in pairwise(pairwise(bounds))
        ]
        unsure = [n for n, step in enumerate(found) if step.p > FALSE_SHARE]
        if not unsure:
            return found
        # A slice in which the rate changed halfway makes stretches of its own, too short to be sure of: they join the
        # neighbour that is most like them.
        del bounds[1 + min(unsure, key=lambda n: _error_of_joining(level, scaled, bounds[n : n + 3]))]


def _error_of_joining(rates: NDArray[np.float64], weights: NDArray[np.float64], bounds: list[int]) -> float:
    """Return by how much the squared error grows when two neighbouring stretches become one."""
    begin, at, end = bounds
    first, second = weights[begin:at].sum(), weights[at:end].sum()
    means = [np.average(rates[one], weights=weights[one]) for one in (slice(begin, at), slice(at, end))]
    return float((means[0] - means[1]) ** 2 * first * second / (first + second))


def step_at(
    slices: NDArray[np.int64], rates: NDArray[np.float64], weights: NDArray[np.float64], at: int, reach: int
) -> Step | None:
    """Test one place that was named beforehand, against what is near it; None where there are too few slices on one side.

    Args:
        slices: int64[n], rising.
        rates: float64[n].
        weights: float64[n], tokens.
        at: The first slice behind the place.
        reach: Slices on either side that count.
    """
    begin, place, end = np.searchsorted(slices, [at - reach, at, at + reach]).tolist()
    if min(place - begin, end - place) < LEAST_SLICES:
        return None
    return _step(slices, rates, rates, weights / weights.mean(), (begin, place, end), places=1)


def told(found: Sequence[Step]) -> list[bool]:
    """Say which of the steps of all series are sure and large enough to be told.

    Steps of overlapping series depend on each other, so their number is allowed for by Benjamini and Yekutieli.
    """
    if not found:
        return []
    chance = scipy.stats.false_discovery_control([min(1.0, step.p) for step in found], method="by")
    return [
        bool(p <= FALSE_SHARE and abs(step.change) >= LEAST_CHANGE)
        for p, step in zip(chance, found, strict=True)
    ]


def _rhythm(slices: NDArray[np.int64], rates: NDArray[np.float64], day_slices: int) -> NDArray[np.float64]:
    """Return what the time of day adds to a rate: medians over days, which an outage of a day does not move."""
    if not day_slices or slices[-1] - slices[0] < _DAYS_FOR_RHYTHM * day_slices:
        return np.zeros_like(rates)
    # Off the level of the day around it, so that a change for good halfway through the log is no rhythm.
    off = rates - scipy.ndimage.median_filter(rates, size=day_slices, mode="nearest")
    hour = slices % day_slices
    out = np.zeros_like(rates)
    for each in np.unique(hour):
        mine = hour == each
        if mine.sum() >= _DAYS_FOR_RHYTHM:
            out[mine] = np.median(off[mine])
    return out


def _segments(rates: NDArray[np.float64], weights: NDArray[np.float64]) -> list[int]:
    """Return the bounds of the stretches whose squared errors and penalties sum to the least: O(n^2), exact."""
    n = rates.size
    apart = np.abs(np.diff(rates)) / np.sqrt(1 / weights[1:] + 1 / weights[:-1])
    spread = max(_FLOOR, 1.4826 * float(np.median(apart)))
    penalty = _PENALTY * spread**2 * np.log(n)
    w, wr, wrr = (
        np.concatenate([[0.0], np.cumsum(each)]) for each in (weights, weights * rates, weights * rates**2)
    )
    best = np.full(n + 1, np.inf)
    best[0], last = -penalty, np.zeros(n + 1, np.int64)
    for end in range(LEAST_SLICES, n + 1):
        begin = np.arange(end - LEAST_SLICES + 1)
        error = wrr[end] - wrr[begin] - (wr[end] - wr[begin]) ** 2 / (w[end] - w[begin])
        total = best[begin] + error + penalty
        last[end] = int(np.argmin(total))
        best[end] = total[last[end]]
    bounds = [n]
    while bounds[-1] > 0:
        bounds.append(int(last[bounds[-1]]))
    return bounds[::-1]


def _step(
    slices: NDArray[np.int64],
    level: NDArray[np.float64],
    rates: NDArray[np.float64],
    weights: NDArray[np.float64],
    bounds: tuple[int, int, int],
    *,
    places: int | None = None,
) -> Step:
    """Judge one step by Welch's test of the slices on both sides; neighbours that hang together count for fewer."""
    begin, at, end = bounds
    sides = [_side(level[one], weights[one]) for one in (slice(begin, at), slice(at, end))]
    (mean_b, var_b, n_b), (mean_a, var_a, n_a) = sides
    error_b, error_a = max(var_b, _FLOOR**2) / n_b, max(var_a, _FLOOR**2) / n_a
    error = float(np.sqrt(error_b + error_a))
    freedom = (error_b + error_a) ** 2 / (error_b**2 / max(1.0, n_b - 1) + error_a**2 / max(1.0, n_a - 1))
    change = mean_a - mean_b
    reach = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    p = (
        2
        * float(scipy.stats.t.sf(abs(change) / error, freedom))
        * (slices.size if places is None else places)
    )
    before, after = (
        float(np.average(rates[one], weights=weights[one])) for one in (slice(begin, at), slice(at, end))
    )
    shift = (after - before) - change
    return Step(
        slice=int(slices[at]),
        before=before,
        after=after,
        low=change + shift - reach,
        high=change + shift + reach,
        p=min(1.0, p),
        last_before=int(slices[at - 1]),
    )


def _side(rates: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return mean, variance and the number of independent slices that these are worth."""
    mean = float(np.average(rates, weights=weights))
    off = rates - mean
    kish = float(weights.sum() ** 2 / (weights**2).sum())
    variance = float(np.average(off**2, weights=weights)) * kish / max(1.0, kish - 1)
    norm = float((off**2).sum())
    # What a flat rate is off its mean by is rounding, and rounding hangs together.
    noisy = norm > off.size * _FLOOR**2 / 100 and off.size > LEAST_SLICES
    together = float((off[1:] * off[:-1]).sum()) / norm if noisy else 0.0
    together = min(0.9, max(0.0, together))
    return mean, variance, max(2.0, kish * (1 - together) / (1 + together))
