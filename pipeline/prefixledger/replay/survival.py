"""How long a cache that promises nothing keeps what it stored, told from what its service read again after each gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_BINS = 40
FEWEST_LOOKUPS = 20
"""From so few lookups a curve says nothing, and none is drawn."""
DRAWS = 200
COHORTS = 500
"""Conversations are drawn in so many groups: more change the interval by less than its own error."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Survival:
    """A curve that falls with the gap, and what it lets one expect.

    Attributes:
        from_us: int64[b], shortest gap of each step.
        upto_us: int64[b], longest gap of each step.
        lookups: int64[b], lookups with usage.
        observed: float64[b], share of the tokens that could hit which did.
        kept: float64[b], the same, never rising with the gap.
        low: float64[b], lower end of its interval.
        high: float64[b], upper end.
        expected_tokens: Hits to be expected of all lookups, those without usage included.
        expected_low: Lower end of their interval.
        expected_high: Upper end.
    """

    from_us: NDArray[np.int64]
    upto_us: NDArray[np.int64]
    lookups: NDArray[np.int64]
    observed: NDArray[np.float64]
    kept: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    expected_tokens: float
    expected_low: float
    expected_high: float


def fit_survival(
    gap_us: NDArray[np.int64],
    possible_tokens: NDArray[np.int64],
    read_tokens: NDArray[np.int64],
    conversation: NDArray[np.int64],
) -> Survival | None:
    """Fit the share that is still there by gap.

    A lookup says whether what it could hit was still there, never when it went: of such data the falling curve that is
    most likely is the weighted isotonic regression of the shares (Ayer et al. 1955). The interval is that of draws of
    whole conversations, with replacement: turns of one are not independent.

    Args:
        gap_us: int64[k], since the last use of what each lookup could hit.
        possible_tokens: int64[k], that much, at least one.
        read_tokens: int64[k], what the service says it read; -1: it says nothing.
        conversation: int64[k], number of the conversation of each.

    Returns:
        The curve; None where fewer than ``FEWEST_LOOKUPS`` have usage.
    """
    said = np.flatnonzero(read_tokens >= 0)
    if said.size < FEWEST_LOOKUPS:
        return None
    cuts = np.unique(np.quantile(gap_us[said], np.linspace(0, 1, MOST_BINS + 1)[1:-1], method="inverted_cdf"))
    step = np.searchsorted(cuts, gap_us, side="left")
    used, numbered = np.unique(step[said], return_inverse=True)
    could = possible_tokens[said].astype(np.float64)
    did = np.minimum(read_tokens[said], possible_tokens[said]).astype(np.float64)
    cohort = conversation[said] % COHORTS
    shape = (COHORTS, used.size)
    could_by, did_by = np.zeros(shape), np.zeros(shape)
    np.add.at(could_by, (cohort, numbered), could)
    np.add.at(did_by, (cohort, numbered), did)
    # A gap between two steps belongs to the one above it, one beyond the last to the last.
    place = np.searchsorted(used, step).clip(max=used.size - 1)
    asked = np.bincount(place, weights=possible_tokens, minlength=used.size)
    kept = _falling(could_by.sum(axis=0), did_by.sum(axis=0))
    draws = _draws(could_by, did_by)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), axis=0)
    expected = np.quantile(draws @ asked, (tail, 1 - tail))
    bounds = [gap_us[said][numbered == at] for at in range(used.size)]
    return Survival(
        from_us=np.asarray([gaps.min() for gaps in bounds], np.int64),
        upto_us=np.asarray([gaps.max() for gaps in bounds], np.int64),
        lookups=np.asarray([gaps.size for gaps in bounds], np.int64),
        observed=did_by.sum(axis=0) / could_by.sum(axis=0),
        kept=kept,
        low=np.minimum(low, kept),
        high=np.maximum(high, kept),
        expected_tokens=float(kept @ asked),
        expected_low=float(min(expected[0], kept @ asked)),
        expected_high=float(max(expected[1], kept @ asked)),
    )


def _falling(could: NDArray[np.float64], did: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the falling shares nearest to the observed ones; a step without tokens takes those of its neighbours."""
    some = could > 0
    fitted = scipy.optimize.isotonic_regression(
        did[some] / could[some], weights=could[some], increasing=False
    ).x
    places = np.flatnonzero(some)
    return np.asarray(np.interp(np.arange(could.size), places, fitted), np.float64)


def _draws(could_by: NDArray[np.float64], did_by: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64[draws, b]: the curve of each draw of cohorts, always the same draws."""
    some = np.flatnonzero(could_by.sum(axis=1) > 0)
    random = np.random.default_rng(0)
    drawn: list[NDArray[np.float64]] = []
    while len(drawn) < DRAWS:
        times = random.multinomial(some.size, np.full(some.size, 1 / some.size))
        drawn.append(_falling(times @ could_by[some], times @ did_by[some]))
    return np.asarray(drawn)
