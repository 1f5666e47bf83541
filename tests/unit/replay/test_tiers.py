from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Output, Resets, Traffic, replay_extents
from prefixledger.replay.profile_runs import keys_of_extents
from prefixledger.replay.sglang import radix_pool
from prefixledger.replay.sglang_running import replay_running
from prefixledger.replay.tiers import NEVER_US, TierRules, Upper, replay_tier
from prefixledger.replay.touches import PoolLog, vllm_cap_blocks
from support import shared
from twins.forests import Log, random_log, spread
from twins.tiers import WatchedTree, WatchedTwin, run_tiers
from twins.vllm_blocks import Row

A, B, C, D, E = range(5)


def _upper(log: Log, profile: str = "vllm", *, in_line: bool = False, chunk: int | None = None):
    """Replay a log without a tier; return the lookups in order of admission, what was done, and that order."""
    chains = build_chains(np.array(log.parent, np.int64))
    paths = build_paths(chains, log.last_blocks())

    def column(field: str) -> np.ndarray:
        return np.array([getattr(row, field) for row in log.rows], np.int64)

    keyed, tokens = column("prompt_keys"), column("tokens")
    at, replica, force = zip(*log.resets, strict=True) if log.resets else ((), (), ())
    resets = Resets(np.array(at, np.int64), np.array(replica, np.int32), np.array(force, np.bool_))
    output = None
    if log.output != "ignore":
        output = Output(log.output, column("output"), np.array([len(r.keys) for r in log.rows], np.int64))
    traffic = Traffic(
        arrival_us=column("arrival"),
        replica=column("replica").astype(np.int32),
        prompt_tokens=tokens,
        keyed_blocks=keyed,
        path_offset=paths.offset,
        path_chain=paths.chain,
        hold_us=column("hold"),
        prefill_us=column("prefill"),
        reach_blocks=np.where(column("bypassed"), 0, UNLIMITED_BLOCKS),
    )
    ttl_us = None if log.ttl < 0 else log.ttl
    size = {"capacity_blocks": log.capacity, "ttl_us": ttl_us, "log_removals": True}
    whole = {"block_size": log.block, "replicas": log.replicas, "resets": resets}
    running = {"output": output, "hit_saves_us": log.hit_saves_us}
    if profile == "vllm":
        found = replay_extents(
            traffic, chains.chain_length, **whole, **running, **size, unhashed_in_line=in_line
        )
    elif profile == "sglang running":
        found = replay_running(
            traffic,
            chains,
            **whole,
            **running,
            **size,
            chunk_tokens=None if chunk is None else chunk * log.block,
        )
    else:
        found = radix_pool(traffic, chains, **whole).replay(**size)
    admitted = traffic.arrival_us if profile == "sglang" else found.admitted_us
    order = np.argsort(admitted, kind="stable")
    number = np.empty(order.size + 1, np.int64)
    number[order] = np.arange(order.size)
    number[-1] = -1
    gone = keys_of_extents(found.removals)
    pool = PoolLog(
        chains=chains,
        paths=build_paths(chains, log.last_blocks()[order]),
        block_size=log.block,
        replicas=log.replicas,
        admitted_us=admitted[order],
        replica=column("replica")[order].astype(np.int32),
        prompt_tokens=tokens[order],
        keyed_blocks=keyed[order],
        cap_blocks=np.where(column("bypassed"), 0, vllm_cap_blocks(tokens, keyed, log.block))[order],
        refused=found.refused[order],
    )
    upper = Upper(
        hit_blocks=found.hit_blocks[order].astype(np.int64),
        finished_us=pool.admitted_us,
        stored_blocks=pool.keyed_blocks,
        gone=replace(
            gone,
            lookup=number[gone.lookup],
            after=None if gone.after is None else number[gone.after],
        ),
        resets=resets,
        output_at_release=log.output == "at_release",
        ttl_us=ttl_us,
    )
    if profile == "sglang":
        return pool, upper, order
    took = ~found.reset_ignored
    shown_us = None
    if profile == "sglang running":
        shown_us = np.where(found.stored_blocks >= 0, found.admitted_us + traffic.prefill_us, NEVER_US)[order]
    upper = replace(
        upper,
        finished_us=found.finished_us[order],
        stored_blocks=found.stored_blocks[order],
        resets=Resets(resets.at_us[took], resets.replica[took], resets.force[took]),
        shown_us=shown_us,
    )
    return pool, upper, order


def _fitting(log: Log, rules: TierRules, profile: str) -> Log:
    """Take out of a log what the twin and the tier need not put in one order."""
    if profile == "sglang":
        log = replace(log, output="ignore")
        for row in log.rows:
            row.hold = row.prefill = row.output = 0
    # A preempted request that is admitted again takes time to prefill; a prompt is shown after its admission.
    if log.output == "as_decoded" or profile == "sglang running":
        log = replace(log, hit_saves_us=0.0)
        for row in log.rows:
            row.prefill = max(row.prefill, 1)
            row.hold = max(row.hold, row.prefill)
    return spread(log) if rules.shared else log


def _assert_follows(
    log: Log, rules: TierRules, profile: str = "vllm", *, in_line: bool = False, chunk: int | None = None
) -> Counter:
    """Compare hits, and what is gone from a replica, with the twin.

    ``in_line`` is the free order of vLLM up to 0.22, ``chunk`` the blocks that SGLang computes in one go.
    """
    log = _fitting(log, rules, profile)
    chunk = None if rules.shared else chunk  # chunks of several replicas would end at one moment
    option = in_line if profile == "vllm" else chunk if profile == "sglang running" else None
    twin = (WatchedTwin if profile == "vllm" else WatchedTree)(
        log.rows,
        log.block,
        log.capacity,
        log.replicas,
        log.ttl,
        log.output,
        log.hit_saves_us,
        log.resets,
        option,
    )
    hits, host, gone = run_tiers(twin, rules, apart=profile == "sglang running")
    pool, upper, order = _upper(log, profile, in_line=in_line, chunk=chunk)

    found = replay_tier(rules, pool, upper)

    assert upper.hit_blocks.tolist() == [hits[row] for row in order]
    assert found.host_blocks.tolist() == [host[row] for row in order]
    if not rules.shared:
        spelled, told = _spelled(found.gone, pool, order), Counter(gone)
        if log.ttl >= 0:  # who made room for what expired above is told by the tier alone
            spelled, told = (
                Counter((r, key) for _, _, r, key in each.elements()) for each in (spelled, told)
            )
            assert (found.gone.lookup[~found.gone.expired] >= 0).all()
        assert spelled == told
    return Counter(
        host=sum(host),
        gone=len(gone),
        resets=len(log.resets),
        output=sum(r.output for r in log.rows),
        expired=sum(each.kind == "removed" and each.row < 0 for each in twin.events),
    )


def _spelled(gone, pool: PoolLog, order) -> Counter:
    chains = pool.chains
    places = zip(chains.chain.tolist(), chains.position.tolist(), strict=True)
    block = {place: number for number, place in enumerate(places)}
    columns = (gone.lookup, gone.at_us, gone.replica, gone.chain, gone.first, gone.end)
    return Counter(
        (int(order[lookup]), at, replica, block[chain, position])
        for lookup, at, replica, chain, first, end in zip(*(c.tolist() for c in columns), strict=True)
        for position in range(first, end)
    )


def _random_rules(rng: random.Random, capacity: int) -> TierRules:
    write = rng.choice(["through", "through-selective", "on-evict", "on-evict"])
    return TierRules(
        chunk_blocks=1 if write == "on-evict" else rng.choice([1, 1, 2, 3]),
        output=rng.random() < 0.7,
        capacity_blocks=rng.choice(
            [None, 0, 1, rng.randint(1, 2 * capacity), rng.randint(capacity, 6 * capacity)]
        ),
        shared=rng.random() < 0.3,
        write=write,
        inclusive=write != "on-evict" or rng.random() < 0.5,
        min_blocks=rng.choice([0, 0, 0, 1, 2]),
    )


PROFILES = ["vllm", "sglang", "sglang running"]


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None, max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_a_tier_follows_the_block_by_block_cache(profile, rng):
    """Hits in the tier and what left both, for any policy, size, chunk, scope, output, TTL, reset and concurrency."""
    log = random_log(rng)

    _assert_follows(log, _random_rules(rng, log.capacity), profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_tier_follows_it_under_pressure(profile):
    """The same on longer logs, with many hits, losses, resets, expiries and much output."""
    seen: Counter = Counter()
    for seed in range(300):
        rng = random.Random(seed)
        log = random_log(rng, longest=30)
        for row in log.rows:
            row.bypassed = rng.random() < 0.1
        options = {"in_line": rng.random() < 0.5, "chunk": rng.choice([None, 1, 2])}
        seen += _assert_follows(log, _random_rules(rng, log.capacity), profile, **options)
    assert min(seen[k] for k in ("host", "gone", "expired")) > 300, seen
    assert (seen["output"] > 300) == (profile != "sglang")
    assert seen["resets"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_a_tier_follows_it_at_length(profile):
    """No difference in 10,000 random logs."""
    for seed in range(10_000):
        rng = random.Random(1_000_000 + seed)
        log = random_log(rng)
        options = {"in_line": rng.random() < 0.5, "chunk": rng.choice([None, 1, 2])}
        _assert_follows(log, _random_rules(rng, log.capacity), profile, **options)


@settings(deadline=None, max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_more_room_in_the_tier_never_lowers_hits(rng):
    """Inclusive and written through; without room it hits nothing, and what hits above hits with any tier."""
    log = replace(random_log(rng), ttl=-1)
    pool, upper, _ = _upper(log)
    rules = TierRules(0, shared=rng.random() < 0.5)

    hits = [
        replay_tier(replace(rules, capacity_blocks=c), pool, upper).host_blocks for c in (*range(8), 60, None)
    ]

    assert not hits[0].any()
    assert all((more >= less).all() for less, more in pairwise(hits))
    assert (upper.hit_blocks + hits[-1] <= pool.cap_blocks).all()


def test_a_tier_without_room_leaves_the_removals_as_they_are():
    """What is gone from a replica without a tier is what the cache above removed."""
    for seed in range(40):
        pool, upper, order = _upper(replace(random_log(random.Random(seed)), ttl=-1))

        found = replay_tier(TierRules(0, write="on-evict"), pool, upper)

        assert _spelled(found.gone, pool, order) == _spelled(upper.gone, pool, order)


def _one_by_one(*prompts: list[int], parent: list[int], capacity: int, replicas=None) -> Log:
    """Prompts of one token more than their blocks of two, one at a time."""
    where = replicas or [0] * len(prompts)
    rows = [Row(at, where[at], 2 * len(keys) + 1, keys, len(keys)) for at, keys in enumerate(prompts)]
    return Log(parent, rows, 2, capacity, max(where) + 1, -1, "ignore", [], 0.0)


@pytest.mark.parametrize(
    ("rules", "host"),
    [
        (TierRules(9), [0, 0, 2, 0, 1]),
        (TierRules(9, write="through-selective"), [0, 0, 0, 0, 0]),
        (TierRules(9, write="on-evict"), [0, 0, 2, 0, 1]),
        (TierRules(9, write="on-evict", inclusive=False), [0, 0, 2, 0, 1]),
        (TierRules(9, min_blocks=3), [0, 0, 0, 0, 0]),
        (TierRules(1), [0, 0, 0, 0, 0]),
        (TierRules(3), [0, 0, 1, 0, 1]),
    ],
    ids=["through", "selective", "on evict", "exclusive", "too few to read", "one block", "three blocks"],
)
def test_policies_on_one_log(rules, host):
    """Two prompts of two blocks take turns in a cache that holds one."""
    log = _one_by_one([A, B], [C, D], [A, B], [E], [A, B], parent=[-1, 0, -1, 2, -1], capacity=3)
    pool, upper, _ = _upper(log)

    assert upper.hit_blocks.tolist() == [0, 0, 0, 0, 1]
    assert replay_tier(rules, pool, upper).host_blocks.tolist() == host


def test_replicas_read_what_others_wrote_only_from_a_shared_store():
    """The second replica never saw the prompt."""
    log = _one_by_one([A, B], [A, B], parent=[-1, 0], capacity=9, replicas=[0, 1])
    pool, upper, _ = _upper(log)

    own = replay_tier(TierRules(9), pool, upper).host_blocks
    shared_store = replay_tier(TierRules(9, shared=True), pool, upper).host_blocks

    assert own.tolist() == [0, 0]
    assert shared_store.tolist() == [0, 2]


@pytest.mark.slow
def test_a_tier_of_the_agentic_trace_takes_about_a_second():
    """94.3 million block lookups; unlimited host memory brings every hit of an unlimited cache."""
    trace = traces.load(shared("traces") / "weka_agentic_blk64.jsonl.zst", 64)
    parent, last = traces.forest(trace)
    chains = build_chains(parent)
    paths = build_paths(chains, last)
    n = len(trace.arrival_us)
    traffic = Traffic(
        np.sort(trace.arrival_us), np.zeros(n, np.int32), trace.prompt_tokens, trace.prompt_tokens // 64,
        paths.offset, paths.chain,
    )  # fmt: skip

    def hits(capacity):
        return replay_extents(
            traffic,
            chains.chain_length,
            block_size=64,
            replicas=1,
            capacity_blocks=capacity,
            log_removals=True,
        )

    found = hits(20_000)
    cap = vllm_cap_blocks(traffic.prompt_tokens, traffic.keyed_blocks, 64)
    pool = PoolLog(
        chains, paths, 64, 1, found.admitted_us, traffic.replica, traffic.prompt_tokens, traffic.keyed_blocks, cap,
        found.refused,
    )  # fmt: skip
    upper = Upper(
        found.hit_blocks.astype(np.int64), found.finished_us, found.stored_blocks, keys_of_extents(found.removals),
        Resets(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.bool_)),
    )  # fmt: skip

    tier = replay_tier(TierRules(None), pool, upper)

    assert (found.hit_blocks + tier.host_blocks == hits(None).hit_blocks).all()
