from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from prefixledger.errors import InternalError
from prefixledger.replay import evidence as module
from prefixledger.replay import evidence_kernel
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.evidence import (
    FOR_EVER_US,
    NO_TIME,
    InFlight,
    Lifetimes,
    collect_evidence,
    evidence_table,
)
from prefixledger.replay.touches import PoolLog, find_touches, vllm_cap_blocks
from prefixledger.schema import SEGMENT_FACTS
from support import shared
from twins.block_touches import smallest_capacity
from twins.evidence_blocks import Segment, find_segments
from twins.pool_logs import Ask, PoolCase, random_pool, removal_log, repeating_pool
from twins.vllm_blocks import Row, Twin

CAUSES = ("misrouted", "elsewhere", "invalidated", "expired", "evicted", "cold")


def evidence_of(case):
    """Replay a case and return (evidence, log, hits, which of ``asks`` each lookup is)."""
    replayed = case.replay(capacity=case.capacity, ttl=case.ttl)
    log, order = case.pool_log(replayed)
    hits = replayed.hit_blocks[order].astype(np.int64)
    found = collect_evidence(
        find_touches(log, case.reset_log()),
        hits,
        case.lifetimes(),
        removals=removal_log(replayed, order),
        ttl_us=case.ttl,
    )
    return found, log, hits, order


def segments_of(found, order):
    """Return the rows as the twin writes them."""
    asked = np.append(order, -1)

    def known(value):
        return None if value < 0 else int(value)

    return [
        Segment(
            ask=int(order[found.lookup[k]]),
            first=int(found.first_block[k]),
            blocks=int(found.n_blocks[k]),
            hit=bool(found.hit[k]),
            own=known(asked[found.own_previous[k]]),
            own_reset=known(found.own_reset[k]),
            resident=known(found.resident_replica[k]),
            elsewhere=known(asked[found.else_previous[k]]),
            else_reset=known(found.else_reset[k]),
            removed=None
            if found.removed_at_us[k] == NO_TIME
            else (int(found.removed_at_us[k]), int(asked[found.removed_by[k]])),
        )
        for k in range(len(found))
    ]


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


def hand_made(asks, *, replicas=1, resets=(), live=None, capacity=100, ttl=None):
    """Return a case on one chain of 8 blocks of 2 tokens; ``asks`` are (at, replica, tokens)."""
    path = list(range(8))
    made = [Ask(at, replica, tokens, path[: tokens // 2], tokens // 2) for at, replica, tokens in asks]
    live = live or [(0, None)] * replicas
    return PoolCase([-1, *path[:-1]], made, 2, replicas, capacity, ttl, list(resets), live)


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


def test_a_reset_takes_the_blocks_but_not_the_last_use():
    """The last use survives, the reset is named, and the distance ignores it."""
    case = hand_made([(0, 0, 5), (10, 0, 5)], resets=[(5, 0), (10, 0)])
    found, *_ = evidence_of(case)
    assert found.hit.tolist() == [False, False]
    assert found.own_previous.tolist() == [-1, 0]
    assert found.own_reset.tolist() == [-1, 101]
    assert found.own_distance_blocks.tolist() == [-1, 3]


def test_a_reset_at_the_moment_of_the_last_use_came_before_it():
    """Resets lie in (u, t]: at equal times events come before admissions."""
    found, *_ = evidence_of(hand_made([(5, 0, 5), (10, 0, 5)], resets=[(5, 0)]))
    assert found.own_reset.tolist() == [-1, -1]
    assert found.hit.tolist() == [False, True]


def test_the_holder_is_the_deepest_then_the_latest_then_the_smallest_name():
    """Names run against the indices: of three replicas, 2 has the smallest name."""
    deepest, *_ = evidence_of(hand_made([(0, 1, 9), (1, 2, 5), (2, 0, 9)], replicas=3))
    assert deepest.resident_replica.tolist() == [-1, 1, 1, 1]
    assert deepest.else_previous.tolist() == [-1, 0, 1, 0]
    latest, *_ = evidence_of(hand_made([(0, 2, 9), (1, 1, 9), (2, 0, 9)], replicas=3))
    assert latest.resident_replica.tolist() == [-1, 2, 1]
    smallest = hand_made([(1, 1, 9), (1, 2, 9), (2, 0, 9)], replicas=3)
    found, *_ = evidence_of(smallest)
    assert found.resident_replica.tolist() == [-1, 1, 2]
    assert found.else_previous.tolist() == [-1, 0, 1]


def test_the_latest_holder_changes_along_the_path():
    """Of two replicas that hold all of it, each is the later user of a part."""
    asks = [(0, 0, 17), (1, 1, 17), (2, 2, 17), (3, 1, 5), (5, 0, 17)]
    found, *_ = evidence_of(hand_made(asks, replicas=3, resets=[(4, 0)]))
    last = found.lookup == 4
    assert found.own_previous[last].tolist() == [0, 0]
    assert found.n_blocks[last].tolist() == [2, 6]
    assert found.resident_replica[last].tolist() == [1, 2]


def test_a_distance_admits_the_prompts_themselves():
    """The first two blocks lie on top of the stack, but a smaller cache would have refused the prompt that made them."""
    found, *_ = evidence_of(hand_made([(0, 0, 17), (1, 0, 5)]))
    assert found.own_distance_blocks.tolist() == [-1, 9]


def test_removals_and_resets_of_all_replicas_are_met_in_order_of_time():
    """What expired on one replica before a reset is not lost because another replica's blocks expired later."""
    found, *_ = evidence_of(
        hand_made([(17, 1, 5), (19, 0, 5), (33, 1, 5)], replicas=2, resets=[(20, 1)], ttl=2)
    )
    last = found.lookup == 2
    assert found.own_reset[last].tolist() == [100]
    assert found.removed_at_us[last].tolist() == [19]
    assert found.removed_by[last].tolist() == [-1]


def test_the_holder_is_told_for_what_was_evicted_here():
    """More room or the other replica would both have made it a hit; the cause is read from the own use."""
    case = hand_made([(0, 0, 5), (1, 1, 5), (2, 0, 16), (3, 0, 5)], replicas=2, capacity=8)
    found, *_ = evidence_of(
        replace(case, parent=[-1, 0, -1, 2, 3, 4, 5, 6, 7, 8], asks=_other_path(case.asks))
    )
    last = found.lookup == 3
    assert found.own_previous[last].tolist() == [0]
    assert found.resident_replica[last].tolist() == [1]
    assert found.else_previous[last].tolist() == [-1]
    assert (found.removed_by[last], found.removed_at_us[last]) == (2, 2)


def _other_path(asks):
    return [replace(ask, path=list(range(2, 10))) if ask.tokens == 16 else ask for ask in asks]


def test_a_dead_replica_holds_nothing():
    """Its end is a reset of the replica that used the blocks last."""
    case = hand_made([(0, 1, 5), (9, 0, 5)], replicas=2, resets=[(7, 1)], live=[(0, None), (0, 7)])
    found, *_ = evidence_of(case)
    assert found.resident_replica.tolist() == [-1, -1]
    assert found.else_previous.tolist() == [-1, 0]
    assert found.else_reset.tolist() == [-1, 100]


def test_an_expired_copy_is_no_holder():
    """A holder must still be within the TTL; the last use elsewhere is told all the same."""
    for ttl, holder in ((9, 1), (8, -1)):
        found, *_ = evidence_of(hand_made([(0, 1, 5), (9, 0, 5)], replicas=2, ttl=ttl))
        assert found.resident_replica.tolist() == [-1, holder]
        assert found.else_previous.tolist() == [-1, 0]


def test_the_block_that_is_computed_anew_is_a_segment_of_its_own():
    """An aligned prompt asks again for its last block: not hit, behind the cap, with its own last use."""
    found, *_ = evidence_of(hand_made([(0, 0, 6), (1, 0, 6)]))
    assert found.first_block.tolist() == [0, 2, 0, 2]
    assert found.hit.tolist() == [False, False, True, False]
    assert found.own_previous.tolist() == [-1, -1, 0, 0]


def test_an_empty_pool_and_short_prompts_have_no_segment():
    """Below one block there is nothing to say."""
    case = hand_made([(0, 0, 1), (1, 0, 1)])
    found, *_ = evidence_of(case)
    assert len(found) == 0
    assert evidence_table(found).num_rows == 0


def test_hits_behind_the_cap_are_a_fault():
    """The kernel would read past the prompt, so the wrapper refuses."""
    case = hand_made([(0, 0, 6)])
    log, _ = case.pool_log()
    with pytest.raises(InternalError, match="behind its cap"):
        collect_evidence(find_touches(log), np.array([3]), case.lifetimes())


def test_room_for_segments_grows(monkeypatch):
    """More segments than the first guess are found all the same."""
    case = random_pool(12, longest=80)
    expected = segments_of(evidence_of(case)[0], evidence_of(case)[3])
    kernel, rooms = evidence_kernel.collect_segments, []

    def cramped(*given):
        given = list(given)
        if len(rooms) < 2:
            given[-1] = given[-1][: 5 * len(rooms)]
        rooms.append(given[-1].shape[0])
        return kernel(*given)

    monkeypatch.setattr(module.kernel, "collect_segments", cramped)
    found, _, _, order = evidence_of(case)
    assert segments_of(found, order) == expected
    assert len(rooms) == 3


def test_table_renumbers_lookups_and_replicas_and_writes_nulls():
    """Lookups and replicas get the numbers they have among all pools; absent is null."""
    case = hand_made([(0, 1, 5), (9, 0, 5), (10, 0, 5)], replicas=2)
    found, *_ = evidence_of(case)
    table = evidence_table(found, lookup=np.array([10, 20, 30]), first_replica=7)
    assert table.schema.equals(SEGMENT_FACTS.arrow(), check_metadata=True)
    rows = table.to_pylist()
    assert [row["lookup"] for row in rows] == [10, 20, 30]
    assert [row["resident_replica"] for row in rows] == [None, 8, None]
    assert [row["else_previous"] for row in rows] == [None, 10, None]
    assert [row["own_previous"] for row in rows] == [None, None, 20]
    assert [row["removed_at"] for row in rows] == [None] * 3
