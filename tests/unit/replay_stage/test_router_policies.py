"""Prefix policies and sessions on small situations, each with the choice that its documented rule makes."""

from __future__ import annotations

import pytest

from prefixledger.config import routers as options
from prefixledger.replay.routers.ring import Rates
from router_support import sent
from stage_support import SECOND

LONG = 1000


# production-stack, AIBrix, Ray


def test_production_stack_follows_the_prefix_whatever_the_load():
    """20 requests in flight there, none elsewhere: it goes there all the same."""
    rows = [{"at": n, "ids": [1, 2, 3, 4], "hold": LONG} for n in range(20)]
    found = sent("production-stack-prefix", rows, replicas=4)
    assert found[0][1] == "random"
    assert found[1:] == [(found[0][0], "affinity")] * 19


def test_production_stack_sees_chunks_and_may_ask_for_a_least_match():
    """32 tokens a chunk: one block of 16 is none; below the least match the fewest requests of a minute decide."""
    rows = [{"at": n, "ids": [1, 2, n]} for n in range(4)]
    apart = [{"at": n, "ids": [1, 5 + n]} for n in range(40)]
    assert {why for _, why in sent("production-stack-prefix", rows)[1:]} == {"affinity"}
    assert {why for _, why in sent("production-stack-prefix", apart)} == {"random"}
    picky = sent("production-stack-prefix", rows, options.ProductionStackPrefix(min_match_tokens=33))
    assert picky == [(0, "below_threshold"), (1, "below_threshold")] * 2


def _piled(count):
    """Return requests of which each is sent to the first one's replica, then one more of the same prefix."""
    return [{"at": n / 100, "ids": [1, 2], "hold": LONG} for n in range(count + 1)]


@pytest.mark.parametrize(("threshold", "spill"), [(3, 4), (5, 6)])
def test_aibrix_restricts_to_the_least_loaded_beyond_the_threshold(threshold, spill):
    """A gap of the threshold is still even; one more request, and only the idle pods are candidates."""
    found = sent(
        "aibrix-prefix",
        _piled(8),
        options.AibrixPrefix(imbalance_requests=threshold, deviation_factor=100.0),
    )
    first = found[0][0]
    assert found[1:spill] == [(first, "affinity")] * (spill - 1)
    assert found[spill] == (1 - first, "imbalance")


def test_aibrix_skips_a_match_that_is_too_busy():
    """3, 0, 0 in flight: mean 1, deviation of a sample 1.73: 3 is beyond mean plus 1.15 deviations, not beyond 1.16."""
    strict = sent("aibrix-prefix", _piled(1), replicas=3)
    first = strict[0][0]
    assert strict[0][1] == "tie"
    assert strict[1][1] == "affinity" or strict[1][0] != first
    assert _third(1.15) == "overload"
    assert _third(1.16) == "affinity"


def _third(factor):
    rows = [{"at": n / 100, "ids": [1], "hold": LONG} for n in range(4)]
    given = options.AibrixPrefix(deviation_factor=factor, imbalance_requests=100)
    return next(
        (why for _, why in sent("aibrix-prefix", rows, given, replicas=3)[1:] if why != "affinity"),
        "affinity",
    )


def test_aibrix_forgets_after_its_ttl_and_beyond_its_list():
    """20 minutes after the last use a block is gone; a list shorter than the prompt keeps its tail, which is no use."""
    rows = [{"at": 0, "ids": [1, 2]}, {"at": 1200, "ids": [1, 2]}, {"at": 2401, "ids": [1, 2]}]
    found = sent("aibrix-prefix", rows)
    assert [why for _, why in found] == ["tie", "affinity", "tie"]
    short = sent("aibrix-prefix", rows[:2], options.AibrixPrefix(lru_blocks=16))
    assert short[1][1] == "tie"


def test_ray_goes_by_the_smallest_tree_below_its_match_rate():
    """A new prompt goes to whoever was sent least; a tenth of the prompt is enough to follow the prefix."""
    rows = [
        {"at": 0, "ids": range(10)},
        {"at": 1, "ids": [77]},
        {"at": 2, "ids": [0, *range(50, 59)], "tokens": 160},
    ]
    first, second, third = sent("ray-prefix", rows)
    assert second == (1 - first[0], "least_loaded")
    assert third == (first[0], "affinity")
    longer = [*rows[:2], {"at": 2, "ids": [0, *range(50, 59)], "tokens": 161}]
    assert sent("ray-prefix", longer)[2] == (1 - first[0], "below_threshold")


def test_ray_leaves_the_prefix_when_queues_are_uneven():
    """A gap above the threshold: the shorter queue of two; without a threshold it never does."""
    found = sent("ray-prefix", _piled(5), options.RayPrefix(imbalanced_threshold=3))
    first = found[0][0]
    assert found[:5] == [(first, "least_loaded"), *[(first, "affinity")] * 3, (1 - first, "imbalance")]
    assert {replica for replica, _ in sent("ray-prefix", _piled(30))} == {first}


def test_ray_evicts_the_oldest_when_told_to():
    """Above the limit, at the interval, down to nine tenths of it."""
    rows = [{"at": 0, "ids": [1, 2]}, {"at": 1, "ids": [1, 2]}, {"at": 20, "ids": [1, 2]}]
    forgets = options.RayPrefix(max_tree_tokens=16)
    assert [why for _, why in sent("ray-prefix", rows, forgets, replicas=1)] == [
        "least_loaded",
        "affinity",
        "least_loaded",
    ]


# session


def test_sessions_stay_and_requests_without_one_go_where_fewest_went():
    """A session has one replica; without one: whoever never got a request, then the lowest rate of a minute."""
    rows = [{"at": n, "session": f"s{n % 5}"} for n in range(50)]
    found = sent("session", rows, replicas=4)
    assert all(found[n] == found[n % 5] and found[n][1] == "hash" for n in range(50))
    loose = sent("session", [{"at": n} for n in range(6)], replicas=3)
    assert loose == [(0, "fallback"), (1, "fallback"), (2, "fallback")] * 2


def test_the_lowest_rate_is_that_of_the_window():
    """What was sent 60 s ago counts no more: 3 old requests are less than 2 young ones."""
    rates = Rates(2, "60s")
    for at, replica in ((0, 1), (1, 1), (2, 1), (50, 0), (51, 0)):
        rates.sent(replica, at * SECOND)
    assert rates.lowest([0, 1], 55 * SECOND) == 0
    assert rates.lowest([0, 1], 62 * SECOND) == 1
