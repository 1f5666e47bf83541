from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from evidence_support import evidence_of, segments_of
from prefixledger.replay import evidence as module
from prefixledger.replay import evidence_kernel
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.evidence import (
    FOR_EVER_US,
    InFlight,
    Lifetimes,
    collect_evidence,
    evidence_table,
)
from prefixledger.replay.touches import PoolLog, find_touches, vllm_cap_blocks
from support import shared
from twins.block_touches import smallest_capacity
from twins.evidence_blocks import find_segments
from twins.pool_logs import random_pool, removal_log, repeating_pool
from twins.vllm_blocks import Row, Twin

CAUSES = ("misrouted", "elsewhere", "invalidated", "expired", "evicted", "cold")


def twin_segments(case, order):
    """Replay single blocks and walk over them."""
    rows = [Row(a.at, a.replica, a.tokens, a.path[: a.keyed], a.keyed, a.hold) for a in case.asks]
    ttl = -1 if case.ttl is None else case.ttl
    resets = [(at, replica, True) for at, replica in case.resets]
    answer = Twin(rows, case.block, case.capacity, case.replicas, ttl, resets=resets).run()
    return find_segments(case, answer, order.tolist(), case.lifetimes().rank.tolist())


def missed_by_cause(found, log, ttl):
    """Apply the four rules of causes to the facts; return the missed blocks of each lookup by cause."""
    missed = {cause: np.zeros(len(log), np.int64) for cause in CAUSES}
    for k in range(len(found)):
        i = found.lookup[k]
        if found.hit[k] or found.first_block[k] >= log.cap_blocks[i]:
            continue
        here = found.own_previous[k] >= 0
        user, reset = (
            (found.own_previous[k], found.own_reset[k])
            if here
            else (found.else_previous[k], found.else_reset[k])
        )
        if user < 0:
            cause = "cold"
        elif not here:
            cause = "misrouted" if found.resident_replica[k] >= 0 else "elsewhere"
        elif reset >= 0:
            cause = "invalidated"
        else:
            expired = ttl is not None and log.admitted_us[i] - log.admitted_us[user] > ttl
            cause = "expired" if expired else "evicted"
        missed[cause][i] += found.n_blocks[k]
    return missed


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=300, deadline=None)
def test_segments_equal_a_walk_over_single_blocks(seed, concurrent):
    """Last uses, resets, holders and removals of every block, with TTL, deaths, ties and overlapping requests."""
    case = random_pool(seed, concurrent=concurrent)
    found, _, _, order = evidence_of(case)
    assert segments_of(found, order) == twin_segments(case, order)


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_kernel_stays_inside_its_arrays(seed, concurrent):
    """In plain Python, where a wrong index raises, the kernel finds the same."""
    case = random_pool(seed, concurrent=concurrent)
    compiled = segments_of(evidence_of(case)[0], evidence_of(case)[3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.kernel, "collect_segments", evidence_kernel.collect_segments.py_func)
        found, _, _, order = evidence_of(case)
    assert segments_of(found, order) == compiled


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_full_block_lies_in_one_segment(seed, concurrent):
    """Segments tile [0, full), end at the hit and cap boundaries, and name their last block."""
    case = random_pool(seed, concurrent=concurrent)
    found, log, hits, order = evidence_of(case)
    ends = found.first_block + found.n_blocks
    for i, ask in enumerate(order):
        rows = np.flatnonzero(found.lookup == i)
        if log.refused[i]:
            assert rows.size == 0
            continue
        bounds = [0, *ends[rows].tolist()]
        assert bounds[:-1] == found.first_block[rows].tolist()
        assert bounds[-1] == log.keyed_blocks[i]
        assert {hits[i], log.cap_blocks[i]} <= set(bounds)
        assert found.n_blocks[rows][found.hit[rows]].sum() == hits[i]
        assert [case.asks[ask].path[end - 1] for end in bounds[1:]] == found.last_block[rows].tolist()


@given(st.integers(0, 2**32), st.sampled_from([random_pool, repeating_pool]))
@settings(max_examples=200, deadline=None)
def test_causes_equal_the_ladder_of_replays(seed, draw):
    """Per lookup: pooled, per replica, + resets, + TTL, + capacity; each rung loses what its causes say."""
    case = draw(seed)
    found, log, hits, order = evidence_of(case)
    missed = missed_by_cause(found, log, case.ttl)
    kept = order[~log.refused]
    relaxed = case.without(log.refused[np.argsort(order)])
    assert order.tolist() == sorted(order), "one at a time nobody overtakes"

    def rung(**rules):
        return relaxed.replay(capacity=None, **rules).hit_blocks.astype(np.int64)

    pooled = rung(ttl=None, resets=False, pooled=True)
    per_replica = rung(ttl=None, resets=False)
    with_resets = rung(ttl=None)
    with_ttl = rung(ttl=case.ttl)
    lost = [
        (("cold",), log.cap_blocks[kept] - pooled),
        (("misrouted", "elsewhere"), pooled - per_replica),
        (("invalidated",), per_replica - with_resets),
        (("expired",), with_resets - with_ttl),
        (("evicted",), with_ttl - hits[kept]),
    ]
    for causes, blocks in lost:
        assert np.array_equal(sum(missed[cause][kept] for cause in causes), blocks), causes


@given(st.integers(0, 2**32), st.sampled_from([random_pool, repeating_pool]))
@settings(max_examples=200, deadline=None)
def test_distances_agree_with_the_replayed_capacity(seed, draw):
    """What hit needed no more than the capacity; what was evicted needed more."""
    case = draw(seed)
    found, log, _, _ = evidence_of(case)
    i, user = found.lookup, found.own_previous
    gap = log.admitted_us[i] - log.admitted_us[user]
    due = (user >= 0) & (found.own_reset < 0) & (found.first_block < log.cap_blocks[i])
    if case.ttl is not None:
        due &= gap <= case.ttl
    assert (found.own_distance_blocks[due & found.hit] <= case.capacity).all()
    assert (found.own_distance_blocks[due & ~found.hit] > case.capacity).all()
    assert ((found.own_distance_blocks < 0) == (user < 0)).all()
    assert ((found.else_distance_blocks < 0) == (found.else_previous < 0)).all()


@given(st.integers(0, 2**32), st.sampled_from([random_pool, repeating_pool]))
@settings(max_examples=40, deadline=None)
def test_distances_are_the_smallest_capacity_that_hits(seed, draw):
    """Ever larger caches of single blocks, here and on the replica that used the segment last."""
    case = replace(draw(seed, longest=16), resets=[], ttl=None)
    case = replace(case, capacity=case.largest)
    found, log, _, _ = evidence_of(case)
    for k in range(len(found)):
        i, end = int(found.lookup[k]), int(found.first_block[k] + found.n_blocks[k])
        if found.first_block[k] >= log.cap_blocks[i]:
            continue
        if found.own_previous[k] >= 0:
            smallest = smallest_capacity(case, i, end, ttl=None)
            assert max(found.own_distance_blocks[k], case.largest) == smallest
        if found.else_previous[k] >= 0:
            there = int(log.replica[found.else_previous[k]])
            smallest = smallest_capacity(case, i, end, ttl=None, replica=there)
            assert max(found.else_distance_blocks[k], case.largest) == smallest


@pytest.mark.parametrize(
    ("name", "trace", "block_size", "rows"),
    [
        ("vllm_aligned_seq_120", "aligned_blk16.jsonl", 16, None),
        ("vllm_aligned_seq_1500", "aligned_blk16.jsonl", 16, None),
        ("vllm_conv_seq_2000", "mooncake_conversation.jsonl.zst", 512, None),
        ("vllm_conv_seq_10000", "mooncake_conversation.jsonl.zst", 512, None),
        ("vllm_synth_seq_1000", "mooncake_synthetic.jsonl.zst", 512, None),
    ],
)
def test_distances_tell_every_row_of_a_golden_file(name, trace, block_size, rows):
    """A segment needs at most the capacity iff the engine hit it, row by row, without any replay here."""
    capacity = int(name.rsplit("_", 1)[1])
    read = traces.load(shared("traces") / trace, block_size, rows)
    parent, last_block = traces.forest(read)
    chains = build_chains(parent)
    keyed = read.prompt_tokens // block_size
    log = PoolLog(
        chains=chains,
        paths=build_paths(chains, last_block),
        block_size=block_size,
        replicas=1,
        admitted_us=np.arange(keyed.size),
        replica=np.zeros(keyed.size, np.int32),
        prompt_tokens=read.prompt_tokens,
        keyed_blocks=keyed,
        cap_blocks=vllm_cap_blocks(read.prompt_tokens, keyed, block_size),
        refused=-(-read.prompt_tokens // block_size) > capacity,
    )
    hits = pq.read_table(shared(f"golden/{name}.parquet"))["hit_tokens"].to_numpy() // block_size
    live = Lifetimes(np.zeros(1, np.int64), np.full(1, FOR_EVER_US), np.zeros(1, np.int32))
    found = collect_evidence(find_touches(log), hits, live)
    reusable = (found.own_previous >= 0) & (found.first_block < log.cap_blocks[found.lookup])
    assert np.array_equal(found.hit[reusable], found.own_distance_blocks[reusable] <= capacity)
    assert not found.hit[~reusable].any()


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_what_somebody_was_computing_is_cut_off_and_named(seed):
    """Segments end where the other request's blocks do, those before it carry the rule, and nothing else changes."""
    case = random_pool(seed, concurrent=True)
    plain, log, hits, order = evidence_of(case)
    rng = np.random.default_rng(seed)
    lacks = (hits < log.cap_blocks) & ~log.refused & (rng.random(hits.size) < 0.7)
    end = np.where(lacks, rng.integers(hits, log.cap_blocks, endpoint=True), 0)
    lacks &= end > hits
    in_flight = InFlight(np.where(lacks, rng.integers(0, hits.size, hits.size), -1), np.where(lacks, end, 0))

    found = collect_evidence(
        find_touches(log, case.reset_log()),
        hits,
        case.lifetimes(),
        removals=removal_log(case.replay(capacity=case.capacity, ttl=case.ttl), order),
        ttl_us=case.ttl,
        in_flight=in_flight,
    )

    def spelled(each):
        return [
            (i, block, *facts)
            for i, first, n, *facts in zip(
                each.lookup, each.first_block, each.n_blocks, each.hit, each.own_previous, each.own_reset,
                each.resident_replica, each.else_previous, each.else_reset, strict=True,
            )
            for block in range(first, first + n)
        ]  # fmt: skip

    assert spelled(found) == spelled(plain)
    flying = (found.first_block >= hits[found.lookup]) & (
        found.first_block < in_flight.end_block[found.lookup]
    )
    assert (found.first_block + found.n_blocks <= in_flight.end_block[found.lookup])[flying].all()
    assert (found.rule == np.where(flying, 0, -1)).all()
    assert (found.in_flight == np.where(flying, in_flight.lookup[found.lookup], -1)).all()
    table = evidence_table(found)
    assert table["in_flight_lookup"].null_count == table["rule"].null_count == (~flying).sum()
