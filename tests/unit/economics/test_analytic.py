"""Formulas beside replays: where their assumptions hold they are right."""

from __future__ import annotations

import numpy as np
import pytest

from prefixledger.economics.analytic import Popularity, che_hits, fit_gaps, poisson_hits
from prefixledger.economics.formulas import poisson_hit_rate
from twins import gap_fits as twin


def test_poisson_is_the_formula_of_one_prefix():
    """One block, 60 uses in an hour: each use after the first hits with the probability of the table."""
    found = poisson_hits(Popularity(np.array([60]), np.array([1]), 3600.0), np.array([60.0, 300.0]))
    expected = [59 * float(poisson_hit_rate(60, ttl)) for ttl in (60, 300)]
    assert found == pytest.approx(expected)


def _lru_hits(accesses, capacity):
    stack, hits = [], 0
    for block in accesses:
        if block in stack[-capacity:]:
            hits += 1
        if block in stack:
            stack.remove(block)
        stack.append(block)
    return hits


def test_che_is_close_to_lru_where_uses_are_random():
    """200 blocks, popularity as in Zipf's law, drawn independently: within 2 % of the uses at every size."""
    rng = np.random.default_rng(5)
    weight = 1 / np.arange(1, 201)
    accesses = rng.choice(200, size=6000, p=weight / weight.sum()).tolist()
    counts = np.bincount(accesses, minlength=200)
    uses, blocks = np.unique(counts[counts > 0], return_counts=True)
    sizes = [5, 20, 60, 150]
    found = che_hits(Popularity(uses, blocks, 6000.0), np.array(sizes, float))
    assert np.abs(found - [_lru_hits(accesses, size) for size in sizes]).max() < 0.02 * 6000
    assert (np.diff(found) > 0).all()
    assert che_hits(Popularity(uses, blocks, 6000.0), np.array([500.0])) == pytest.approx(6000 - blocks.sum())


@pytest.mark.parametrize(
    ("model", "gaps"),
    [
        ("exponential", np.random.default_rng(1).exponential(40, 600)),
        ("gamma", np.random.default_rng(2).gamma(3, 10, 600)),
        ("weibull", 30 * np.random.default_rng(3).weibull(0.5, 600)),
        ("lognormal", np.random.default_rng(4).lognormal(2, 1.5, 600)),
        (
            "hyperexponential",
            np.concatenate([np.random.default_rng(6).exponential(m, 300) for m in (1, 500)]),
        ),
    ],
)
def test_a_sample_is_known_by_its_own_distribution(model, gaps):
    """What it was drawn from is not rejected; an exponential is, unless it was that."""
    fits = {fit.model: fit for fit in fit_gaps(gaps)}
    assert fits[model].p_value > 0.05
    assert fits[model].statistic < 0.06
    assert (fits["exponential"].p_value > 0.05) == (model == "exponential")
    shares = fits[model].cdf(np.array([0.0, 1e9]))
    assert shares == pytest.approx([0, 1], abs=1e-6)


@pytest.mark.parametrize("size", [8, 140, 141, 900])
def test_fits_are_those_of_scipy_stats_to_the_last_digit(size):
    """Near and far from each distribution, with ties and without, below and above the sizes that have series of their own."""
    rng = np.random.default_rng(size)
    for gaps in (
        rng.exponential(30, size),
        np.maximum(rng.gamma(0.2, 10, size), 1e-3),
        60 * rng.weibull(3, size),
        rng.lognormal(2, 1, size).round(1) + 0.1,
        rng.uniform(0, 100, size) ** 0.05,
    ):
        found = fit_gaps(gaps)
        known = twin.fits(gaps, dict(found[-1].parameters))
        assert {f.model: (dict(f.parameters), f.statistic, f.p_value) for f in found} == known
        at = np.geomspace(0.1, 1e5, 9)
        assert all(np.array_equal(f.cdf(at), twin.cdf(f.model, dict(f.parameters), at)) for f in found)


def test_too_few_or_equal_gaps_are_not_fitted():
    """Seven times, or one and the same time, tell no shape; gaps of nothing do not break it."""
    assert fit_gaps(np.arange(7.0)) == ()
    assert fit_gaps(np.full(50, 3.0)) == ()
    assert len(fit_gaps(np.array([0.0] * 5 + [1.0, 2, 3, 4, 5]))) == 5
