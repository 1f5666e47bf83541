from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extent_support import laid_out
from prefixledger.replay.extents import replay_extents
from prefixledger.replay.profile_runs import keys_of_extents
from prefixledger.replay.tiers import TierRules
from prefixledger.replay.unpromoted import replay_unpromoted
from twins.forests import Log, random_log, spread
from twins.unpromoted import OverTiers
from twins.vllm_blocks import Row

A, B, C, D, E = range(5)


def _given(log: Log):
    """Return what a replay of a log asks for: lookups, chains, resets, and the rest by name."""
    traffic, chains, resets, output = laid_out(log)
    size = {"block_size": log.block, "replicas": log.replicas, "capacity_blocks": log.capacity}
    return (
        traffic,
        chains,
        resets,
        {**size, "output": output, "hit_saves_us": log.hit_saves_us, "most_running": log.most_running},
    )


def _spelled(gone, chains) -> Counter:
    places = zip(chains.chain.tolist(), chains.position.tolist(), strict=True)
    block = {place: number for number, place in enumerate(places)}
    columns = (gone.lookup, gone.at_us, gone.replica, gone.chain, gone.first, gone.end)
    return Counter(
        (lookup, at, replica, block[chain, position])
        for lookup, at, replica, chain, first, end in zip(*(c.tolist() for c in columns), strict=True)
        for position in range(first, end)
    )


def _assert_equal(log: Log, rules: TierRules, *, in_line: bool = False) -> Counter:
    """Compare hits, times and what is gone with the twin."""
    log = replace(log, ttl=-1)
    if rules.shared:
        log = spread(log)
    traffic, chains, resets, rest = _given(log)
    twin = OverTiers(
        log.rows, log.block, log.capacity, log.replicas, -1, log.output, log.hit_saves_us, log.resets, in_line,
        most_running=log.most_running, rules=rules,
    )  # fmt: skip
    told = twin.run()

    done = replay_unpromoted(traffic, chains, rules, resets, unhashed_in_line=in_line, **rest)

    found = done.found
    assert found.hit_blocks.tolist() == told.hit
    assert done.host_blocks.tolist() == twin.host
    assert found.admitted_us.tolist() == told.admitted
    assert found.finished_us.tolist() == told.finished
    assert found.refused.tolist() == told.refused
    assert found.reset_ignored.tolist() == told.ignored
    assert found.first_eviction_us.tolist() == told.first_eviction
    assert dict(enumerate(found.preempted.tolist())) | told.preempted == dict(
        enumerate(found.preempted.tolist())
    )
    assert dict(enumerate(found.recompute_tokens.tolist())) | told.recompute == dict(
        enumerate(found.recompute_tokens.tolist())
    )
    assert _spelled(done.gone, chains) == Counter(twin.gone)
    return Counter(
        host=sum(twin.host),
        gone=len(twin.gone),
        resets=len(log.resets),
        preempted=sum(told.preempted.values()),
    )


def _random_rules(rng: random.Random, capacity: int) -> TierRules:
    write = rng.choice(["through", "through", "through-selective", "on-evict"])
    return TierRules(
        chunk_blocks=1 if write == "on-evict" else rng.choice([1, 1, 2, 3]),
        output=rng.random() < 0.7,
        capacity_blocks=rng.choice(
            [None, 0, 1, rng.randint(1, 2 * capacity), rng.randint(capacity, 6 * capacity)]
        ),
        shared=rng.random() < 0.4,
        write=write,
        min_blocks=rng.choice([0, 0, 0, 1, 2]),
        promote=False,
    )


@settings(deadline=None, max_examples=25)
@given(rng=st.randoms(use_true_random=False))
def test_both_caches_equal_the_block_by_block_twin(rng):
    """Hits above and below, admissions, preemptions and what is gone, for any policy, scope, output, reset and concurrency."""
    log = random_log(rng)

    _assert_equal(log, _random_rules(rng, log.capacity), in_line=rng.random() < 0.3)


def _assert_at_length(seeds: range) -> None:
    seen: Counter = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        log = replace(random_log(rng, longest=30), most_running=(1 << 30, 1 << 30, 2, 4)[seed % 4])
        for row in log.rows:
            row.bypassed = rng.random() < 0.1
        seen += _assert_equal(log, _random_rules(rng, log.capacity), in_line=rng.random() < 0.5)
    assert min(seen[k] for k in ("host", "gone", "resets", "preempted")) > len(seeds) / 4, seen


def test_both_caches_equal_it_under_pressure():
    """The same with requests that skip the lookup, many reads, losses, resets and preemptions."""
    _assert_at_length(range(200))


@pytest.mark.slow
def test_both_caches_equal_it_at_length():
    """No difference in 10,000 random logs."""
    _assert_at_length(range(1_000_000, 1_010_000))


def test_without_room_in_the_tier_the_cache_above_is_that_of_extents():
    """Nothing is read, so blocks one by one and extents of chains must say the same, what was removed included."""
    for seed in range(60):
        rng = random.Random(seed)
        traffic, chains, resets, rest = _given(replace(random_log(rng, longest=30), ttl=-1))
        options = {**rest, "unhashed_in_line": rng.random() < 0.5}
        rules = TierRules(0, shared=rng.random() < 0.5, promote=False)

        done = replay_unpromoted(traffic, chains, rules, resets, **options)

        whole = replay_extents(traffic, chains.chain_length, resets=resets, log_removals=True, **options)
        for name, column in done.found._asdict().items():
            assert (column == getattr(whole, name)).all(), name
        assert not done.host_blocks.any()
        assert _spelled(done.gone, chains) == _spelled(keys_of_extents(whole.removals), chains)


def _one_by_one(*prompts: list[int], parent: list[int], capacity: int) -> Log:
    """Prompts of one token more than their blocks of two, one at a time."""
    rows = [Row(at, 0, 2 * len(keys) + 1, keys, len(keys)) for at, keys in enumerate(prompts)]
    return Log(parent, rows, 2, capacity, 1, -1, "ignore", [], 0.0)


def _hits(log: Log, rules: TierRules) -> tuple[list[int], list[int]]:
    traffic, chains, resets, rest = _given(log)
    done = replay_unpromoted(traffic, chains, rules, resets, **rest)
    return done.found.hit_blocks.tolist(), done.host_blocks.tolist()


def test_what_is_read_is_read_again_and_never_cached_above():
    """A cache of three blocks: the second prompt pushes out the first, which then comes from the tier every time."""
    log = _one_by_one([A, B], [C, D], [A, B], [A, B], [A, B], parent=[-1, 0, -1, 2], capacity=3)

    assert _hits(log, TierRules(None, promote=False)) == ([0, 0, 0, 0, 0], [0, 0, 2, 2, 2])


def test_what_is_computed_behind_a_read_is_cached_and_out_of_reach():
    """The tier forgets the read head, so the block behind it that is still above hits for nobody."""
    parent = [-1, 0, -1, 2]
    log = _one_by_one([A], [C, D], [A, B], [D + 0], [A, B], parent=parent, capacity=3)
    log.rows[3].keys, log.rows[3].tokens, log.rows[3].prompt_keys = [], 1, 0  # takes one slot, the blank one

    above, below = _hits(log, TierRules(None, promote=False))
    assert (above[2], below[2]) == (0, 1)
    assert (above[4], below[4]) == (0, 2)  # b is above, behind a hole: it is read as well
    above, below = _hits(log, TierRules(None, write="through-selective", promote=False))
    assert (above[4], below[4]) == (2, 0)  # nothing was ever read: a is cached above as ever
