"""The fits of gaps by scipy.stats, whose location is held at 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FAMILIES = {
    "exponential": stats.expon,
    "gamma": stats.gamma,
    "weibull": stats.weibull_min,
    "lognormal": stats.lognorm,
}


def fits(
    times: NDArray[np.float64], phases: dict[str, float]
) -> dict[str, tuple[dict[str, float], float, float]]:
    """Return parameters, distance and chance by model.

    Args:
        times: Seconds, above 0.
        phases: Parameters of the mixture of two exponentials, which scipy does not fit.
    """
    shape, _, scale = stats.gamma.fit(times, floc=0)
    curve, _, life = stats.weibull_min.fit(times, floc=0)
    sigma, _, middle = stats.lognorm.fit(times, floc=0)
    fitted = {
        "exponential": {"scale": float(times.mean())},
        "gamma": {"a": float(shape), "scale": float(scale)},
        "weibull": {"c": float(curve), "scale": float(life)},
        "lognormal": {"s": float(sigma), "scale": float(middle)},
        "hyperexponential": phases,
    }
    found = {}
    for model, parameters in fitted.items():
        test = stats.kstest(times, lambda at, m=model, p=parameters: cdf(m, p, at))
        found[model] = (parameters, float(test.statistic), float(test.pvalue))
    return found


def cdf(model: str, parameters: dict[str, float], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share up to each time."""
    if model == "hyperexponential":
        first, second = (stats.expon.cdf(at, scale=parameters[name]) for name in ("mean_1", "mean_2"))
        return np.asarray(parameters["share"] * first + (1 - parameters["share"]) * second)
    return np.asarray(_FAMILIES[model].cdf(at, **parameters))
