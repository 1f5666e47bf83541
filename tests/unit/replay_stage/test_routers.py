"""Every router on small situations, each with the choice that its documented rule makes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.config import routers as options
from prefixledger.replay.fleet import made_fleet
from prefixledger.replay.routers.base import BRANCHES
from prefixledger.replay.routers.kv_aware import KvAwareRouter
from prefixledger.replay.routers.llm_d import LlmDPrefixRouter
from prefixledger.replay.routers.load import ActiveBlocks
from prefixledger.replay.routers.memory import router_blocks
from prefixledger.replay.routing import route
from router_support import BLOCK, sent, traffic
from stage_support import SECOND, named

LONG = 1000


# least-loaded


def test_least_loaded_takes_the_emptier_replica_and_draws_among_equals():
    """By requests the longest prompt counts one; by tokens it counts all it has; an end frees at the same moment."""
    rows = [
        {"at": 0, "hold": 10, "ids": range(50)},
        {"at": 1, "hold": 10, "ids": [90]},
        {"at": 2, "hold": 10, "ids": [91]},
        {"at": 10, "hold": 1, "ids": [92]},
    ]
    by_requests = sent("least-loaded", rows)
    first = by_requests[0][0]
    assert by_requests[0][1] == "tie"
    assert by_requests[1] == (1 - first, "least_loaded")
    assert by_requests[2][1] == "tie"
    by_tokens = sent("least-loaded", rows, options.LeastLoaded(load="tokens"))
    assert by_tokens[1:3] == [(1 - first, "least_loaded")] * 2
    assert by_tokens[3] == (first, "least_loaded")  # the long prompt left at 10


# SGLang cache-aware


def _cache_aware(rows, replicas=2, **given):
    return sent("cache-aware", rows, options.CacheAware(**given), replicas=replicas)


def test_cache_aware_needs_more_than_the_threshold():
    """A match of exactly the threshold is too short; one token less in the prompt, and it is long enough."""
    start = {"ids": [1], "tokens": 17}
    busy = {"ids": [9], "hold": LONG}
    rows = [start, busy, {"ids": [1, 5], "tokens": 32}, {"ids": [1], "tokens": 31}]
    found = _cache_aware(rows, cache_threshold=0.5)
    assert found[0] == (0, "least_loaded")
    assert found[1] == (1, "least_loaded")  # as idle as r0, but sent fewer
    assert found[2] == (0, "below_threshold")
    assert found[3] == (0, "affinity")


@pytest.mark.parametrize(
    ("loads", "absolute", "relative", "why"),
    [(3, 2, 1.0, "imbalance"), (3, 3, 1.0, "affinity"), (3, 2, 1e9, "imbalance")],
)
def test_cache_aware_balances_when_both_thresholds_are_passed(loads, absolute, relative, why):
    """The gap must exceed the absolute, the largest load the relative threshold times the least; a least of 0 passes any factor."""
    rows = [{"at": n / 10, "ids": [1], "hold": LONG, "tokens": 17} for n in range(loads)]
    found = _cache_aware(
        [*rows, {"at": 9, "ids": [1], "tokens": 17}],
        balance_abs_threshold=absolute,
        balance_rel_threshold=relative,
    )
    assert found[:loads] == [(0, "least_loaded"), *[(0, "affinity")] * (loads - 1)]
    assert found[loads] == ((1, why) if why == "imbalance" else (0, why))


def test_cache_aware_ignores_a_gap_that_is_small_beside_the_load():
    """5 against 4 with a relative threshold of 1.5: 5 is not above 6, so affinity holds although the gap is too wide."""
    rows = [{"at": n / 100, "ids": [1], "hold": LONG, "tokens": 17} for n in range(4)]
    rows += [{"at": 1 + n / 100, "ids": [1], "hold": LONG, "tokens": 17} for n in range(5)]
    found = _cache_aware(rows, balance_abs_threshold=0, balance_rel_threshold=1.5)
    load = [0, 0]
    for replica, why in found:
        high, low = max(load), min(load)
        assert (why == "imbalance") == (high - low > 0 and high > 1.5 * low)
        load[replica] += 1


def test_cache_aware_follows_the_latest_sender_of_the_deepest_block():
    """Both replicas own the prefix after a spill; the next request goes to whoever was sent it last."""
    rows = [{"at": n, "ids": [1, 2], "hold": hold} for n, hold in enumerate((LONG, LONG, LONG, LONG))]
    found = _cache_aware(rows, balance_abs_threshold=1)
    assert found == [(0, "least_loaded"), (0, "affinity"), (1, "imbalance"), (1, "affinity")]


def test_cache_aware_forgets_leaves_at_its_interval_only():
    """Above the limit nothing happens until the interval is over; then the oldest leaves of the tree go."""
    tree = {"max_tree_tokens": 2 * BLOCK, "eviction_interval": "60s"}
    old = {"ids": [1, 2], "tokens": 33}
    new = {"at": 1, "ids": [7, 8, 9], "hold": LONG}
    busy = [{"at": 2, "ids": [5], "hold": LONG}]
    before = _cache_aware([{"at": 0, **old}, {**new, "hold": 0}, *busy, {"at": 59, **old}], 1, **tree)
    after = _cache_aware([{"at": 0, **old}, {**new, "hold": 0}, *busy, {"at": 60, **old}], 1, **tree)
    assert [before[3][1], after[3][1]] == ["affinity", "least_loaded"]


def test_cache_aware_falls_back_when_the_owner_is_gone_and_remembers_nothing_of_it():
    """The tree keeps the entries of a removed replica, so its prefixes go to the first healthy one for ever."""
    rows = [{"at": n, "ids": [9 - n], "hold": LONG} for n in range(2)]
    rows += [{"at": 10 + n, "ids": [8, 7], "tokens": 33} for n in range(2)]
    view = traffic([*rows], replicas=2)
    members = made_fleet(2, start_us=0, events=[named(1, 5 * SECOND, "scale", replicas=1)]).membership
    placed = route("cache-aware", view, members)
    assert placed.replica.tolist() == [0, 1, 0, 0]
    assert [BRANCHES[b] for b in placed.branch][2:] == ["fallback", "fallback"]


def test_cache_aware_of_old_releases_sends_new_work_to_the_smallest_tree():
    """The busiest replica gets what is new if its tree is small, whatever its load."""
    rows = [
        {"at": 0, "ids": range(20)},
        {"at": 1, "ids": [50], "hold": LONG},
        {"at": 2, "ids": [60], "hold": LONG},
    ]
    assert [r for r, _ in _cache_aware(rows, no_match="smallest-tree")] == [0, 1, 1]
    assert [r for r, _ in _cache_aware(rows)] == [0, 1, 0]


# Dynamo kv-aware


def test_kv_aware_cost_is_the_formula():
    """Prefill left over plus distinct blocks in flight plus weighted requests, in blocks."""
    rows = [
        {"at": 0, "ids": [1, 2, 3], "tokens": 60, "hold": LONG, "first": 50},
        {"at": 1, "ids": [1, 2, 9, 9], "tokens": 70, "hold": LONG, "first": 1},
    ]
    router = KvAwareRouter(
        traffic(rows),
        options.KvAware(overlap_score_credit=0.5, prefill_load_scale=2.0, decode_active_request_weight=7.0),
    )
    router.join([0, 1])
    chosen, _ = router.choose(0, 0)
    router.load.send(0, chosen)
    router.load.advance(SECOND)
    costs = router.costs(1, [2 if replica == chosen else 0 for replica in range(2)])
    there = 2 * ((60 + 70) / 16 - 0.5 * 2) + (3 + 2) + 7 * 1
    elsewhere = 2 * 70 / 16 + 4
    assert costs[chosen] == pytest.approx(there)
    assert costs[1 - chosen] == pytest.approx(elsewhere)


def test_kv_aware_decay_weakens_the_credit_of_the_loaded():
    """The credit falls with the prefill backlog above the least loaded, in units of this prompt."""
    rows = [
        {"at": 0, "ids": [1, 2], "tokens": 64, "hold": LONG, "first": LONG},
        {"at": 1, "ids": [1, 2], "tokens": 32, "first": 1},
    ]
    router = KvAwareRouter(traffic(rows), options.KvAware(overlap_credit_decay=1.0))
    router.join([0, 1])
    chosen, _ = router.choose(0, 0)
    router.load.send(0, chosen)
    cost = router.costs(1, [2 if replica == chosen else 0 for replica in range(2)])[chosen]
    assert cost == pytest.approx((64 + 32) / 16 - 2 / (1 + 64 / 32) + 2 + 0)


@pytest.mark.parametrize(("at", "why"), [(119.9, "affinity"), (120, "tie")])
def test_kv_aware_believes_in_a_prefix_for_its_ttl(at, why):
    """A block expires 120 s after it was last sent."""
    rows = [{"at": 0, "ids": [1, 2, 3]}, {"at": at, "ids": [1, 2, 3]}]
    assert sent("kv-aware", rows)[1][1] == why


def test_kv_aware_prunes_what_expires_next():
    """Above the largest tree the blocks nearest to their end go, until a share of the limit is left."""
    limits = {"max_tree_blocks": 4, "prune_target": 0.5}
    rows = [
        {"at": 0, "ids": [1, 2, 3]},
        {"at": 1, "ids": [7, 8]},
        {"at": 2, "ids": [1, 2, 3]},
        {"at": 3, "ids": [7, 8]},
    ]
    found = sent("kv-aware", rows, options.KvAware(**limits), replicas=1)
    assert [why for _, why in found] == ["least_loaded", "least_loaded", "least_loaded", "least_loaded"]
    kept = sent("kv-aware", rows[:3], options.KvAware(max_tree_blocks=5), replicas=1)
    assert kept[2] == (0, "affinity")


def test_kv_aware_spills_when_the_load_outweighs_the_prefix():
    """A replica with a long prefill under way is dearer than computing 2 blocks again."""
    rows = [
        {"at": 0, "ids": [1, 2], "hold": 1, "first": 1},
        {"at": 1, "ids": [1, 2, *range(100, 140)], "hold": LONG, "first": LONG},
        {"at": 2, "ids": [1, 2], "hold": 1, "first": 1},
    ]
    first, second, third = sent("kv-aware", rows)
    assert second == (first[0], "affinity")
    assert third == (1 - first[0], "overload")


def test_kv_aware_samples_with_a_temperature():
    """Without one the cheapest always wins; with one the others get requests too."""
    rows = [{"at": n, "ids": [1, 2, 3]} for n in range(100)]
    cold = {replica for replica, _ in sent("kv-aware", rows)[1:]}
    warm = sent("kv-aware", rows, options.KvAware(temperature=5.0))
    assert len(cold) == 1
    assert {replica for replica, why in warm if why == "random"} == {0, 1}


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), max_size=4), st.integers(0, 1), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=100, deadline=None)
def test_active_blocks_count_each_block_once(requests):
    """The blocks of the requests in flight, as sets."""
    prompts = [ids for ids, _, _ in requests]
    view = traffic([{"ids": ids} for ids in prompts])
    active = ActiveBlocks(router_blocks(view.parent, view.last_block, BLOCK, BLOCK), 2)
    running = [[], []]

    def distinct(rows):
        return len({tuple(prompts[row][: n + 1]) for row in rows for n in range(len(prompts[row]))})

    for row, (_, replica, leave) in enumerate(requests):
        pieces = active.pieces(row)
        for each in range(2):
            more = distinct([*running[each], row]) - distinct(running[each])
            assert active.added(pieces, each) == more
        active.sent(row, replica)
        running[replica].append(row)
        if leave:
            active.ended(running[replica].pop(0), replica)
        assert active.total == [distinct(rows) for rows in running]


# llm-d


def test_llm_d_scores_are_weighted_and_summed():
    """Prefix 3, queue 2, KV utilization 2; the partial last block counts in the total."""
    rows = [
        {"at": 0, "ids": range(8), "tokens": 129, "hold": LONG},
        {"at": 1, "ids": range(8), "tokens": 129, "hold": LONG},
    ]
    router = LlmDPrefixRouter(traffic(rows, capacity_blocks=32), options.LlmDPrefix())
    router.join([0, 1])
    chosen, _ = router.choose(0, 0)
    router.load.send(0, chosen)
    scores = router.scores(1, [2 if replica == chosen else 0 for replica in range(2)])
    assert scores[chosen] == pytest.approx(3 * 2 / 3 + 2 * 0 + 2 * (1 - 8 / 32))
    assert scores[1 - chosen] == pytest.approx(3 * 0 + 2 * 1 + 2 * 1)


def test_llm_d_match_by_length_saturates():
    """With weight 1 the prefix score is (tokens / 8192) squared, at most 1."""
    view = traffic([{"ids": range(1024), "tokens": 16385}], replicas=3)
    router = LlmDPrefixRouter(view, options.LlmDPrefix(match_length_weight=1.0, queue_weight=0, kv_weight=0))
    router.join([0, 1, 2])
    assert router.scores(0, [64, 128, 256]) == pytest.approx([3 * 0.25, 3.0, 3.0])


@pytest.mark.parametrize(("shared", "stays"), [(16, True), (8, False)])
def test_llm_d_weighs_the_prefix_against_the_queue(shared, stays):
    """4 of 5 hashes are worth 2.4 and beat an empty queue (2); 2 of 5 are worth 1.2 and do not."""
    rows = [
        {"at": 0, "ids": range(16), "tokens": 257, "hold": LONG},
        {"at": 1, "ids": [*range(shared), *range(100, 116 - shared)], "tokens": 257},
    ]
    first, second = sent("llm-d-prefix", rows)
    assert second == ((first[0], "affinity") if stays else (1 - first[0], "overload"))


def test_llm_d_forgets_the_head_first_and_counts_behind_the_hole():
    """An LRU of 2 hashes keeps the last 2 of 3; with nobody holding the first, nothing counts."""
    rows = [{"at": 0, "ids": range(12), "tokens": 193}, {"at": 1, "ids": range(12), "tokens": 193}]
    assert sent("llm-d-prefix", rows, options.LlmDPrefix(lru_blocks=2))[1][1] == "tie"
    assert sent("llm-d-prefix", rows, options.LlmDPrefix(lru_blocks=3))[1][1] == "affinity"
    assert sent("llm-d-prefix", rows, capacity_blocks=2)[1][1] == "tie"
