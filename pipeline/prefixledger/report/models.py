"""Formulas beside the replayed curves: how far off each is, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.economics.analytic import Popularity, che_hits, fit_gaps, poisson_hits
from prefixledger.report.curve_parts import GOOD_ENOUGH_PP, Model
from prefixledger.report.numbers import duration, whole

if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa
    from numpy.typing import NDArray

    from prefixledger.report.curve_parts import Curves

MODEL_NAMES = {
    "poisson": "Poisson, 1 \N{MINUS SIGN} exp(\N{MINUS SIGN}rate \N{MULTIPLICATION SIGN} time)",
    "exponential": "Exponential",
    "gamma": "Gamma",
    "weibull": "Weibull",
    "lognormal": "Log-normal",
    "hyperexponential": "Hyperexponential, two phases",
    "che": "Che's approximation of the capacity curve",
}

_POINTS = 24
_LEAST_S = 0.1
"""Shorter times to live are sold by nobody, and most clocks do not tell them."""


def models(curves: Curves, reuse: pa.Table, gaps: pa.Table) -> tuple[Model, ...]:
    """Hold Poisson, five renewal fits and Che's approximation against the curves of one pool.

    Args:
        curves: What was replayed.
        reuse: Its rows of REUSE.
        gaps: Its rows of GAPS.
    """
    lives = _spread([p.ttl_s for p in curves.ttl], _LEAST_S)
    if not gaps.num_rows or not curves.prompt_tokens or lives.size < 2:  # noqa: PLR2004
        return ()
    popularity = Popularity(
        reuse["uses"].to_numpy(), reuse["blocks"].to_numpy(), reuse["span_us"][0].as_py() / 1e6
    )
    if not popularity.span_s:
        return ()
    at_s = np.asarray([curves.ttl[n].ttl_s for n in lives])
    replayed = np.asarray([curves.ttl[n].hit_tokens for n in lives], np.float64)
    size = curves.block_size
    found = [_model(curves, "poisson", "ttl", at_s, poisson_hits(popularity, at_s) * size, replayed)]
    most = curves.ttl[-1].hit_tokens
    for fit in fit_gaps(gaps["gap_us"].to_numpy() / 1e6):
        told = {"parameters": fit.parameters, "statistic": fit.statistic, "p_value": fit.p_value}
        found.append(_model(curves, fit.model, "ttl", at_s, most * fit.cdf(at_s), replayed, **told))
    sizes = _spread([p.capacity_blocks for p in curves.capacity], 1)
    if sizes.size > 1:
        blocks = np.asarray([curves.capacity[n].capacity_blocks for n in sizes], np.float64)
        replayed = np.asarray([curves.capacity[n].hit_tokens for n in sizes], np.float64)
        guessed = che_hits(popularity, blocks * curves.replicas) * size
        found.append(_model(curves, "che", "capacity", blocks, guessed, replayed))
    return tuple(found)


def judged(model: Model) -> str:
    """Say whether a model is good enough, else where it misleads most, and which way."""
    if model.good_enough:
        return f"good enough: within {GOOD_ENOUGH_PP:g} points everywhere"
    place = duration(model.worst_at) if model.axis == "ttl" else f"{whole(model.worst_at)} blocks"
    way = "too much" if model.worst_error_pp > 0 else "too little"
    return f"misleads: {abs(model.worst_error_pp):.1f} points {way} at {place}"


def bursts(curves: Curves) -> str:
    """Say what the Poisson formula's error tells of the log; empty where it is good enough or was not asked."""
    poisson = next((model for model in curves.models if model.model == "poisson"), None)
    if poisson is None or poisson.good_enough:
        return ""
    if poisson.worst_error_pp < 0:
        return (
            "Blocks come back sooner than at random: uses come in bursts, with pauses between, so the average rate promises "
            "too little from a short time to live."
        )
    return (
        "Blocks come back later than at random: uses are spread out, so the average rate promises more than a short time to "
        "live gives."
    )


def _spread(axis: list[float] | list[int], least: float) -> NDArray[np.int64]:
    """Return places of a curve, evenly spread on a log scale."""
    values = np.asarray(axis, np.float64)
    first = int(np.searchsorted(values, least))
    if values.size - first < 2:  # noqa: PLR2004
        return np.empty(0, np.int64)
    wanted = np.geomspace(values[first], values[-1], _POINTS)
    return np.unique(np.searchsorted(values, wanted * (1 - 1e-12)).clip(first, values.size - 1))


def _model(
    curves: Curves,
    name: str,
    axis: str,
    at: NDArray[np.float64],
    guessed: NDArray[np.float64],
    replayed: NDArray[np.float64],
    **told: Any,
) -> Model:
    error_pp = 100 * (guessed - replayed) / curves.prompt_tokens
    worst = int(np.argmax(np.abs(error_pp)))
    return Model(
        model=name,
        axis=axis,
        mean_error_pp=float(np.abs(error_pp).mean()),
        worst_error_pp=float(error_pp[worst]),
        worst_at=float(at[worst]),
        points=tuple(zip(at.tolist(), guessed.tolist(), strict=True)),
        **told,
    )
