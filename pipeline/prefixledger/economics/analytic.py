"""Formulas that need no replay, from how often blocks are used and how long they rest: to be held against a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEWEST_GAPS = 8
_SHORTEST_S = 1e-3
"""Gaps of nothing have no logarithm; a millisecond is what most logs resolve."""
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Popularity:
    """How often blocks are used, each on each replica for itself.

    Attributes:
        uses: int64[k], ascending.
        blocks: int64[k], blocks that are used so often.
        span_s: Length of the log.
    """

    uses: NDArray[np.int64]
    blocks: NDArray[np.int64]
    span_s: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A distribution fitted to the times between two uses.

    Attributes:
        model: exponential, gamma, weibull, lognormal or hyperexponential.
        parameters: As scipy names them; of the hyperexponential the share of the first phase and both means, seconds.
        statistic: Greatest distance from the empirical distribution, Kolmogorov and Smirnov's.
        p_value: Of that distance if the fit were true; too kind, for the parameters come from the same times.
    """

    model: str
    parameters: tuple[tuple[str, float], ...]
    statistic: float
    p_value: float

    def cdf(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of gaps up to each time."""
        found: NDArray[np.float64] = _cdf(self.model, dict(self.parameters), at_s)
        return found


def poisson_hits(popularity: Popularity, ttl_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the hit blocks at each TTL if every block were used at random at its average rate.

    A use after the first hits with ``1 - exp(-rate * TTL)``.
    """
    rate = popularity.uses / popularity.span_s
    again = popularity.blocks * (popularity.uses - 1)
    found: NDArray[np.float64] = -np.expm1(-np.outer(ttl_s, rate)) @ again
    return found


def che_hits(popularity: Popularity, capacity_blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the hit blocks of an LRU cache of each size, by Che's approximation.

    The cache acts like a TTL: the one at which, at random uses, as many blocks are alive as fit.

    Args:
        popularity: How often blocks are used.
        capacity_blocks: Of all replicas together.
    """
    rate, blocks = popularity.uses / popularity.span_s, popularity.blocks.astype(np.float64)
    low, high = np.zeros(capacity_blocks.size), np.full(capacity_blocks.size, 1e6 * popularity.span_s)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = -np.expm1(-np.outer(middle, rate)) @ blocks <= capacity_blocks
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return poisson_hits(popularity, low)


def fit_gaps(gaps_s: NDArray[np.float64]) -> tuple[Fit, ...]:
    """Fit five distributions of the times between two uses by maximum likelihood; nothing for fewer than eight times.

    Args:
        gaps_s: Seconds.
    """
    if gaps_s.size < _FEWEST_GAPS or np.ptp(gaps_s) == 0:
        return ()
    times = np.maximum(gaps_s, _SHORTEST_S)
    shape, _, scale = scipy.stats.gamma.fit(times, floc=0)
    curve, _, life = scipy.stats.weibull_min.fit(times, floc=0)
    sigma, _, middle = scipy.stats.lognorm.fit(times, floc=0)
    fitted: dict[str, dict[str, float]] = {
        "exponential": {"scale": float(times.mean())},
        "gamma": {"a": float(shape), "scale": float(scale)},
        "weibull": {"c": float(curve), "scale": float(life)},
        "lognormal": {"s": float(sigma), "scale": float(middle)},
        "hyperexponential": _two_phases(times),
    }
    found = []
    for model, parameters in fitted.items():
        test = scipy.stats.kstest(
            times, lambda at, model=model, parameters=parameters: _cdf(model, parameters, at)
        )
        found.append(Fit(model, tuple(parameters.items()), float(test.statistic), float(test.pvalue)))
    return tuple(found)


def _cdf(model: str, parameters: dict[str, float], at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    if model == "hyperexponential":
        share = parameters["share"]
        parts = (scipy.stats.expon.cdf(at_s, scale=parameters[name]) for name in ("mean_1", "mean_2"))
        first, second = parts
        mixed: NDArray[np.float64] = share * first + (1 - share) * second
        return mixed
    family = {
        "exponential": scipy.stats.expon,
        "gamma": scipy.stats.gamma,
        "weibull": scipy.stats.weibull_min,
        "lognormal": scipy.stats.lognorm,
    }[model]
    whole: NDArray[np.float64] = family.cdf(at_s, **parameters)
    return whole


def _two_phases(times: NDArray[np.float64]) -> dict[str, float]:
    """Fit a mixture of two exponentials by expectation and maximisation, begun from the halves of the sample."""
    ordered = np.sort(times)
    half = ordered.size // 2
    share, short, long = 0.5, float(ordered[:half].mean()), float(ordered[half:].mean())
    for _ in range(_STEPS):
        first = share / short * np.exp(-times / short)
        second = (1 - share) / long * np.exp(-times / long)
        mine = first / np.maximum(first + second, np.finfo(np.float64).tiny)
        total = float(mine.sum())
        if not 0 < total < times.size:
            break
        share = total / times.size
        short = float(mine @ times) / total
        long = float((1 - mine) @ times) / (times.size - total)
    return {"share": share, "mean_1": short, "mean_2": long}
