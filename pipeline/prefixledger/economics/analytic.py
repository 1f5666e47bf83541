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
_MANY_GAPS, _FAR = 140, 2.2
"""Above so many times, and from so large a size times squared distance on, the chance of a distance is Smirnov's, twice."""
_NONE_AT = 370.0
"""From that on there is no chance that a float could hold."""
_SHAPES = (0.02, 1e4)
"""Between which the shape of a Weibull distribution is looked for."""


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

    What ``scipy.stats`` fits and tests with its location held at 0, to the last digit: that package takes as long to load as
    a page to draw, for its 140 other distributions.

    Args:
        gaps_s: Seconds.
    """
    times = np.maximum(gaps_s, _SHORTEST_S)
    if times.size < _FEWEST_GAPS or np.ptp(times) == 0:
        return ()
    fitted: dict[str, dict[str, float]] = {
        "exponential": {"scale": float(times.mean())},
        "gamma": _gamma(times),
        "weibull": _weibull(times),
        "lognormal": _lognormal(times),
        "hyperexponential": _two_phases(times),
    }
    found = []
    for model, parameters in fitted.items():
        distance = _distance(_cdf(model, parameters, np.sort(times)))
        found.append(Fit(model, tuple(parameters.items()), distance, _chance(times.size, distance)))
    return tuple(found)


def _gamma(times: NDArray[np.float64]) -> dict[str, float]:
    """Solve what the likelihood says of the shape; the scale follows from the mean."""
    mean = times.mean()
    spread = np.log(mean) - np.log(times).mean()
    near = (3 - spread + np.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    shape = scipy.optimize.brentq(
        lambda a: np.log(a) - scipy.special.digamma(a) - spread,
        near * (1 - 0.4),
        near * (1 + 0.4),
        disp=False,
    )
    return {"a": float(shape), "scale": float(mean / shape)}


def _lognormal(times: NDArray[np.float64]) -> dict[str, float]:
    logs = np.log(times)
    middle = np.exp(logs.mean())
    return {"s": float(np.sqrt(np.mean((logs - np.log(middle)) ** 2))), "scale": float(middle)}


def _weibull(times: NDArray[np.float64]) -> dict[str, float]:
    """Begin at the distribution with the skewness and variance of the sample, and climb from there."""
    skewness, gamma = _skewness(times), scipy.special.gamma
    if skewness < _weibull_skewness(_SHAPES[1]):  # no shape has it: begun elsewhere
        shape, _, scale = scipy.stats.weibull_min.fit(times, floc=0)
        return {"c": float(shape), "scale": float(scale)}
    begun = scipy.optimize.root_scalar(
        lambda c: _weibull_skewness(c) - skewness, bracket=_SHAPES, method="bisect"
    ).root
    scale = np.sqrt(np.var(times) / (gamma(1 + 2 / begun) - gamma(1 + 1 / begun) ** 2))
    shape, scale = scipy.optimize.fmin(_weibull_loss, [begun, scale], args=(times,), disp=False)
    return {"c": float(shape), "scale": float(scale)}


def _weibull_skewness(shape: float) -> float:
    first, second, third = (scipy.special.gamma(1 + n / shape) for n in (1, 2, 3))
    skewness: float = (2 * first**3 - 3 * first * second + third) / (second - first**2) ** (3 / 2)
    return skewness


def _weibull_loss(at: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Return the negative logarithm of the likelihood of a shape and a scale."""
    shape, scale = at
    if shape <= 0 or scale <= 0:
        return np.inf
    scaled = times / scale
    terms = np.log(shape) + scipy.special.xlogy(shape - 1, scaled) - scaled**shape
    finite = np.isfinite(terms)
    bad = times.size - np.count_nonzero(finite)
    loss = -np.sum(terms[finite]) + bad * np.log(np.finfo(np.float64).max) * 100
    return float(loss + times.size * np.log(scale))


def _skewness(times: NDArray[np.float64]) -> float:
    off = times - times.mean()
    return float(np.mean(off**2 * off) / np.mean(off**2) ** 1.5)


def _distance(cdf: NDArray[np.float64]) -> float:
    """Return Kolmogorov's and Smirnov's distance of a distribution, at the ordered sample, from that of the sample."""
    n = cdf.size
    above = (np.arange(1.0, n + 1) / n - cdf).max()
    below = (cdf - np.arange(0.0, n) / n).max()
    return float(max(above, below))


def _chance(n: int, distance: float) -> float:
    """Return how likely a sample of the distribution itself is so far off it, or further."""
    squared = n * distance * distance
    if n > _MANY_GAPS and squared >= _FAR and n * distance < n - 1:
        if distance < 0.5 and squared >= _NONE_AT:  # noqa: PLR2004
            return 0.0
        return float(np.clip(2 * scipy.special.smirnov(n, distance), 0.0, 1.0))
    return float(scipy.stats.kstwo.sf(distance, n))  # what fits is rare, and takes series of its own


def _cdf(model: str, parameters: dict[str, float], at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64]
    match model:
        case "hyperexponential":
            share = parameters["share"]
            first, second = (
                -scipy.special.expm1(-(at_s / parameters[name])) for name in ("mean_1", "mean_2")
            )
            found = share * first + (1 - share) * second
        case "exponential":
            found = -scipy.special.expm1(-(at_s / parameters["scale"]))
        case "gamma":
            found = scipy.special.gammainc(parameters["a"], at_s / parameters["scale"])
        case "weibull":
            scaled = at_s / parameters["scale"]
            found = -scipy.special.expm1(-(scaled ** np.full(scaled.shape, parameters["c"])))
        case _:
            with np.errstate(divide="ignore"):  # no time at all is infinitely far down
                found = scipy.special.ndtr(np.log(at_s / parameters["scale"]) / parameters["s"])
    return found


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
