"""Known shapes are recognised from tables, and nothing is recognised where there is no such shape."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from prefixledger.attribute.incidents import Clock, incidents, routing_changes
from prefixledger.attribute.series import Series, find_steps, slice_us
from prefixledger.attribute.shapes import shapes

START = datetime(2026, 11, 16, tzinfo=UTC)
CLOCK = Clock(START, timedelta(hours=1))
HOUR_US = 3_600_000_000


def _series(n: int, hit: np.ndarray, **rates: np.ndarray) -> Series:
    rest = {"evicted": np.zeros(n), "misrouted": np.zeros(n), "key_changed": np.zeros(n)}
    requests = (100 + 80 * np.sin(np.arange(n) / 24 * 2 * np.pi)).astype(np.int64)
    return Series("all", "all", np.arange(n), requests, 1000.0 * requests, {"hit": hit, **rest, **rates})


def test_evictions_that_rise_with_load_sag_at_peak() -> None:
    """A cache that is too small by day and large enough by night sags at peak; one that is always too small does not."""
    n = 96
    load = np.sin(np.arange(n) / 24 * 2 * np.pi).clip(0)
    (said,) = shapes(_series(n, 0.9 - 0.3 * load, evicted=0.3 * load), (), None, ())
    assert said.startswith("sags at peak")
    flat = 0.1 + np.random.default_rng(1).normal(0, 0.01, n)
    (said,) = shapes(_series(n, 0.9 - flat, evicted=flat), (), None, ())
    assert said.startswith("evictions do not go with load")
    assert shapes(_series(n, np.full(n, 0.9)), (), None, ()) == ()
    steady = replace(_series(n, 0.9 - flat, evicted=flat), requests=np.full(n, 100))
    assert shapes(steady, (), None, ()) == ()  # load that never changes goes with nothing


def test_a_lifetime_may_fit_one_kind_of_traffic_only() -> None:
    """Chats come back after a minute, batches after half an hour, and the cache keeps five minutes."""

    def pace(value: str, gap_s: float, expired: int) -> dict[str, object]:
        return {"field": "client", "value": value, "pairs": 50, "median_gap_s": gap_s, "prompt_tokens": 1000, "miss_expired_tokens": expired}  # fmt: skip

    (said,) = shapes(None, [pace("batch", 1800, 900), pace("chat", 60, 0)], 300, ())
    assert said.startswith(
        "lifetime: good for client chat (comes back after 60 s) and bad for batch (after 1,800 s"
    )
    assert shapes(None, [pace("batch", 1800, 20), pace("chat", 60, 0)], 300, ()) == ()


def test_a_drop_after_routing_changed_is_routing() -> None:
    """From hour 40 on conversations are spread over replicas and miss what others hold, while nobody's content changes."""
    n, at = 80, 40
    lost = np.where(np.arange(n) < at, 0.0, 0.4)
    stays = [(hour, 50, 50 if hour < at else 17) for hour in range(n)]
    whole = _series(n, 0.9 - lost, misrouted=lost)
    found, tested = find_steps([whole], HOUR_US)
    assert tested == 2
    (rerouted,) = routing_changes(stays, CLOCK)
    assert rerouted.at == START + timedelta(hours=at)
    sums = {
        "before": {"prompt_tokens": 100, "hit_tokens": 90, "miss_misrouted_tokens": 0},
        "after": {"prompt_tokens": 100, "hit_tokens": 50, "miss_misrouted_tokens": 40},
    }
    bounds = START, START + timedelta(hours=n)
    (one,) = incidents(found, CLOCK, [rerouted], lambda *_: sums, bounds, stays, timedelta(days=1))
    assert one.at == rerouted.at
    assert one.shape == (
        "routing: hits fell while the content stayed the same: 100% of turns stayed on their replica before, 34% after"
    )
    assert {move.measure for move in one.moves} == {"hit", "misrouted"}


def test_a_router_that_expects_nothing_at_all_is_told_of_as_a_whole() -> None:
    """Of all requests, those of caches that nobody read included; below seven reads nothing is said."""

    def cache(replica: str, reads: int) -> dict[str, object]:
        return {"pool": 0, "replica": replica, "requests": 20, "requests_expected": 0, "reads": reads, "unforeseen": reads}  # fmt: skip

    (said,) = shapes(None, (), None, (), expected=[cache("a", 7), cache("b", 0)])
    assert "it expected nothing of any cache for any of 40 requests, while 7 of them were served" in said
    assert shapes(None, (), None, (), expected=[cache("a", 6), cache("b", 6)]) == ()


def test_slices_are_hours_where_there_is_enough_in_them() -> None:
    """A busy week has slices of an hour, a quiet one longer ones, a busy day shorter ones."""
    week_us, day_us = 168 * HOUR_US, 24 * HOUR_US
    assert slice_us(0, week_us, 34_000) == HOUR_US
    assert slice_us(0, week_us, 400) == 6 * HOUR_US
    assert slice_us(0, day_us, 100_000) == 900_000_000
