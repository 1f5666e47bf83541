from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from prefixledger.errors import UsageError
from prefixledger.replay import curve_kernel, needed
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.clairvoyant import clairvoyant_hits
from prefixledger.replay.curves import (
    CapacityCurve,
    TtlCurve,
    capacity_curve,
    part_capacity_curves,
    part_ttl_curves,
    thin,
    ttl_curve,
)
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.replay.touches import PoolLog, find_touches, vllm_cap_blocks
from support import shared
from twins.pool_logs import Ask, PoolCase, random_pool, repeating_pool
from twins.vllm_blocks import Row, Twin

A, B, C, D, E = range(5)


def touches_of(case):
    """Return the decomposed log, resets included."""
    return find_touches(case.pool_log()[0], case.reset_log())


def hand_made(parent, prompts, block=2):
    """Return a case of (tokens, path) prompts on one replica."""
    asks = [Ask(at, 0, tokens, path, len(path)) for at, (tokens, path) in enumerate(prompts)]
    return PoolCase(parent, asks, block, 1, 1, None, [], [(0, None)])


def replayed_hits(case, capacity, ttl=None):
    """Return the hit blocks of a direct replay."""
    return int(case.replay(capacity=capacity, ttl=ttl).hit_blocks.sum())


def check_every_capacity(case, ttl):
    """Compare the curve with direct replays until well after its last bend."""
    curve = capacity_curve(touches_of(case), ttl_us=ttl)
    asked = np.arange(case.largest, curve.capacity_blocks[-1] + 3)
    assert curve.hits_at(asked).tolist() == [replayed_hits(case, int(c), ttl) for c in asked]
    assert (np.diff(curve.hits_at(asked)) >= 0).all()


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_capacity_curve_equals_the_replay_at_every_capacity(seed):
    """From the largest prompt on, with tails, copies, replicas, resets and a TTL."""
    case = random_pool(seed)
    check_every_capacity(case, None)
    check_every_capacity(case, case.ttl)


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_capacity_curve_equals_physical_copies_block_by_block(seed):
    """The same against the cache that moves single physical blocks."""
    case = random_pool(seed)
    rows = [Row(a.at, a.replica, a.tokens, a.path[: a.keyed], a.keyed) for a in case.asks]
    curve = capacity_curve(touches_of(case))
    for capacity in range(case.largest, case.largest + 6):
        twin = Twin(
            rows, case.block, capacity, case.replicas, resets=[(at, r, True) for at, r in case.resets]
        )
        assert sum(twin.run().hit) == curve.hits_at(capacity)


def test_capacity_curve_of_older_versions_equals_the_replay():
    """A tail that waits in line is a block that nobody can hit: with copies, resets and a TTL, at every capacity."""
    for seed in range(150):
        for case in (random_pool(seed), repeating_pool(seed)):
            check_every_capacity(replace(case, in_line=True), case.ttl)


def test_capacity_curve_equals_the_replay_where_copies_abound():
    """Few prefixes asked for again and again, whole blocks: what one copy is worth depends on the capacity, and the TTL."""
    ghosts = 0
    for seed in range(500):
        case = repeating_pool(seed)
        ghosts += touches_of(case).ghost_older.size
        check_every_capacity(case, case.ttl)
    assert ghosts > 1000


def test_capacity_curve_equals_the_replay_on_long_logs():
    """Long logs with thousands of conditional ghosts, so that they are tidied up many times."""
    ghosts = 0
    for seed in range(150):
        case = repeating_pool(seed, longest=400)
        ghosts += touches_of(case).ghost_older.size
        check_every_capacity(case, case.ttl)
    assert ghosts > 1000


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_ghosts_may_be_settled_at_any_time(seed):
    """In plain Python, where a wrong index raises, and with a tidy-up after every ghost the curve is the same."""
    case = repeating_pool(seed)
    touches = touches_of(case)
    expected = capacity_curve(touches, ttl_us=case.ttl)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve_kernel, "_FEW_GHOSTS", 1)
        patch.setattr(needed, "needed_capacity", curve_kernel.needed_capacity.py_func)
        found = capacity_curve(touches, ttl_us=case.ttl)
        assert found.hits_at(case.capacity) == replayed_hits(case, case.capacity, case.ttl)
    assert np.array_equal(found.capacity_blocks, expected.capacity_blocks)
    assert np.array_equal(found.hit_blocks, expected.hit_blocks)


@pytest.mark.parametrize(
    ("parent", "prompts", "capacity", "hits"),
    [
        pytest.param([-1, -1, B], [(2, [A]), (4, [B, C]), (2, [B]), (3, [A])], 3, 0, id="a copy evicts"),
        pytest.param([-1, -1], [(3, [A]), (3, [B]), (3, [A])], 2, 0, id="a tail takes a slot"),
        pytest.param(
            [-1, A, -1, C, B],
            [(4, [A, B]), (5, [C, D]), (6, [A, B, E]), (3, [C])],
            4,
            2,
            id="a tail only until depth grows",
        ),
        pytest.param([-1, A], [(4, [A, B]), (2, [A]), (1, []), (5, [A, B])], 3, 1, id="tail and copy"),
        pytest.param(
            [-1, -1, B],
            [(2, [A]), (4, [B, C]), (2, [A]), (3, [A]), (3, [B])],
            3,
            2,
            id="which copy moves depends on the capacity",
        ),
    ],
)
def test_known_counterexamples_to_simpler_curves(parent, prompts, capacity, hits):
    """Logs on which a curve without tails, without copies, or with one stack for all capacities is wrong."""
    case = hand_made(parent, prompts)
    assert replayed_hits(case, capacity) == hits
    curve = capacity_curve(touches_of(replace(case, asks=case.asks)))
    if capacity >= case.largest:
        assert curve.hits_at(capacity) == hits
    check_every_capacity(case, None)


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_ttl_curve_equals_the_replay_at_every_ttl(seed):
    """Unlimited capacity, replicas, resets, gaps of 0 included."""
    case = random_pool(seed)
    curve = ttl_curve(touches_of(case))
    for ttl in range(60):
        assert curve.hits_at(ttl) == replayed_hits(case, None, ttl)
    assert (np.diff(curve.hit_blocks) > 0).all()


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_curves_of_the_replicas_sum_to_the_curve(seed):
    """Each replica has the capacity; what they hit together is the pool's curve."""
    case = random_pool(seed)
    touches = touches_of(case)
    capacities = np.arange(case.largest, case.largest + 40)
    parts = [
        curve.hits_at(capacities)
        for curve in part_capacity_curves(touches, touches.log.replica, touches.log.replicas, ttl_us=case.ttl)
    ]
    assert np.array_equal(np.sum(parts, axis=0), capacity_curve(touches, ttl_us=case.ttl).hits_at(capacities))
    ttls = np.arange(80)
    parts = [
        curve.hits_at(ttls) for curve in part_ttl_curves(touches, touches.log.replica, touches.log.replicas)
    ]
    assert np.array_equal(np.sum(parts, axis=0), ttl_curve(touches).hits_at(ttls))


def test_a_capacity_below_the_largest_prompt_has_no_answer():
    """The engine would refuse that prompt, so the curve says so instead of guessing."""
    case = hand_made([-1, A], [(4, [A, B]), (5, [A, B])])
    curve = capacity_curve(touches_of(case))
    assert curve.capacity_blocks[0] == 3
    with pytest.raises(UsageError, match="begins at 3 blocks"):
        curve.hits_at([5, 2])


def test_refused_lookups_stay_out_of_the_curve():
    """A prompt that the replayed cache refuses neither counts as the largest nor touches anything."""
    case = hand_made([-1, A, B, C], [(8, [A, B, C, D]), (3, [A]), (3, [A])])
    log, _ = case.pool_log()
    curve = capacity_curve(find_touches(replace(log, refused=np.array([True, False, False]))))
    assert curve.capacity_blocks[0] == 2
    assert curve.hits_at(2) == 1


def test_a_log_without_reuse_has_flat_curves():
    """No hit at any capacity, none at any TTL, and thinning does not mind."""
    case = hand_made([-1, -1], [(3, [A]), (3, [B])])
    touches = touches_of(case)
    assert capacity_curve(touches).hits_at([2, 10**9]).tolist() == [0, 0]
    assert ttl_curve(touches).hits_at([0, 10**15]).tolist() == [0, 0]
    assert thin(capacity_curve(touches), 5)[1].tolist() == [0]
    assert thin(ttl_curve(touches), 5)[0].size == 0


@given(st.integers(0, 2**32), st.integers(2, 60))
@settings(max_examples=100, deadline=None)
def test_thinning_keeps_ends_and_exact_values(seed, points):
    """At most so many points, ascending, each on the curve, the first and last of the curve among them."""
    rng = random.Random(seed)
    axis = np.cumsum([rng.randint(1, 10 ** rng.randint(1, 6)) for _ in range(rng.randint(1, 200))])
    slope = np.array([rng.randint(0, 5) for _ in axis])
    curves = [
        CapacityCurve(axis, np.append(0, np.cumsum(slope[1:] * np.diff(axis)))),
        TtlCurve(axis, np.cumsum(slope + 1)),
    ]
    for curve in curves:
        x, hits = thin(curve, points)
        assert x.size <= points
        assert (np.diff(x) > 0).all()
        assert {x[0], x[-1]} == {axis[0], axis[-1]}
        assert np.array_equal(hits, curve.hits_at(x))
    x, hits = thin(curves[1], points)
    assert set(x) <= set(axis)


def test_thinning_follows_the_shape():
    """No step of the hits is skipped that is larger than twice an even share."""
    axis = np.arange(1, 10_001)
    curve = TtlCurve(axis, np.cumsum(np.where(axis % 100 == 0, 50, 1)))
    _, hits = thin(curve, 42)
    assert np.diff(hits).max() <= 2 * (hits[-1] - hits[0]) / 20


def test_a_curve_of_one_point_is_refused():
    """A curve needs two ends."""
    with pytest.raises(UsageError, match="at least 2 points"):
        thin(TtlCurve(np.array([1]), np.array([1])), 1)


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_surface_equals_single_replays(seed, again):
    """Capacity and TTL together, at ten of each: one pass a TTL gives every capacity."""
    case = (repeating_pool if again else random_pool)(seed)
    touches = touches_of(case)
    capacities = np.arange(case.largest, case.largest + 10)
    for ttl in (0, 1, 2, 3, 5, 8, 13, 21, 40, None):
        found = capacity_curve(touches, ttl_us=ttl).hits_at(capacities)
        assert found.tolist() == [replayed_hits(case, int(c), ttl) for c in capacities]


@pytest.mark.slow
def test_the_surface_of_the_agentic_trace_equals_single_replays():
    """Ten capacities from the largest prompt to all blocks, ten TTLs from a second to for ever."""
    trace = traces.load(shared("traces/weka_agentic_blk64.jsonl.zst"), 64)
    parent, last_block = traces.forest(trace)
    chains = build_chains(parent)
    order = np.argsort(trace.arrival_us, kind="stable")
    paths = build_paths(chains, last_block[order])
    prompt, keyed = trace.prompt_tokens[order], np.diff(trace.offset)[order]
    rows = order.size
    at_us, replica = trace.arrival_us[order], np.zeros(rows, np.int32)
    cap = vllm_cap_blocks(prompt, keyed, 64)
    touches = find_touches(
        PoolLog(chains, paths, 64, 1, at_us, replica, prompt, keyed, cap, np.zeros(rows, bool))
    )
    traffic = Traffic(at_us, replica, prompt, keyed, paths.offset, paths.chain)
    capacities = None
    for ttl in (*(int(s * 1e6) for s in np.geomspace(1, 86_400, 9)), None):
        curve = capacity_curve(touches, ttl_us=ttl)
        if capacities is None:
            capacities = np.geomspace(curve.capacity_blocks[0], 4_000_000, 10).round().astype(np.int64)
        replays = [
            replay_extents(
                traffic, chains.chain_length, block_size=64, replicas=1, capacity_blocks=int(c), ttl_us=ttl
            )
            for c in capacities
        ]
        hits = [int(each.hit_blocks.sum(dtype=np.int64)) for each in replays]
        assert curve.hits_at(capacities).tolist() == hits
        bound = clairvoyant_hits(touches, capacities, ttl_us=ttl)
        assert (np.asarray(hits) <= bound).all()
        assert bound[-1] == hits[-1]
