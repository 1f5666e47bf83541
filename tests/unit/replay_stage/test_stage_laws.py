from __future__ import annotations

from collections import Counter
from itertools import pairwise
from operator import itemgetter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from prefixledger.config.scenario import Cache, Fleet, InFlight, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_laws import RUNGS, cause_of, logs, rows_of
from stage_support import SECOND, make_log, named


@st.composite
def scenarios(draw, profile=None, in_flight=None):
    """A pool with little room, short lives and a short grace period; events at any time."""
    capacity = draw(st.sampled_from(["unlimited", "3 blocks", "5 blocks", "8 blocks"]))
    profile = profile or draw(st.sampled_from(["vllm", "sglang", "textbook"]))
    pool = Pool(
        cache=Cache(
            profile=profile,
            version=draw(st.sampled_from([None, "0.22"])) if profile == "vllm" else None,
            capacity=capacity,
            ttl=draw(st.sampled_from(["none", "2s", "5s"])),
        ),
        fleet=Fleet(replica_grace=draw(st.sampled_from(["3s", "10m"]))),
        in_flight=in_flight or InFlight(),
    )
    events = [
        named(
            number, draw(st.integers(0, 40)) * SECOND, draw(st.sampled_from(["restart", "flush", "deploy"]))
        )
        for number in range(1, draw(st.integers(1, 3)))
    ]
    return Scenario(pool=(pool,)), events


@settings(max_examples=70)
@given(logs() | logs(skips=True), scenarios())
def test_books_close_and_the_ladder_equals_the_causes(rows, scenario):
    """Each rung loses exactly the blocks whose rule names its limit, lookup by lookup, for every engine's profile."""
    scenario, events = scenario
    files, _ = replay_log(make_log(rows), scenario, events)
    facts, ladder = rows_of(files, "lookup_facts"), rows_of(files, "ladder")
    ttl_us = scenario.pool[0].cache.ttl_us
    assert [row["request_row"] for row in facts] == list(range(len(rows)))  # one at a time: as they arrived
    hits, missed, covered = Counter(), Counter(), Counter()
    for segment in rows_of(files, "facts"):
        lookup, blocks = segment["lookup"], segment["n_blocks"]
        covered[lookup] += blocks
        if segment["hit"]:
            hits[lookup] += blocks
        elif segment["first_block"] < facts[lookup]["cap_blocks"]:
            missed[lookup, cause_of(segment, facts, ttl_us)] += blocks

    for lookup, (row, rungs) in enumerate(zip(facts, ladder, strict=True)):
        assert row["lookup"] == rungs["lookup"] == lookup
        if row["refused"]:
            assert [rungs[rung] for rung in RUNGS] == [0] * 5
            assert covered[lookup] == 0
            continue
        assert covered[lookup] == row["full_blocks"]
        assert hits[lookup] == row["hit_blocks"] == rungs["capacity"]
        assert row["cap_blocks"] - rungs["pooled"] == missed[lookup, "cold"]
        lost = [rungs[above] - rungs[below] for above, below in pairwise(RUNGS)]
        assert lost == [missed[lookup, cause] for cause in ("elsewhere", "invalidated", "expired", "evicted")]
        assert rungs["pooled"] <= rungs["ideal_blocks"]


@settings(max_examples=60)
@given(logs(ends=True), scenarios(profile="vllm"))
def test_hits_never_exceed_the_ideal_with_running_requests_and_output(rows, scenario):
    """Whatever is pinned, queued or decoded, in order of arrival: one unlimited cache for all does at least as well in all."""
    scenario, events = scenario
    files, summary = replay_log(make_log(rows), scenario, events)
    admitted = [
        row["admitted_at"] for row in sorted(rows_of(files, "lookup_facts"), key=itemgetter("request_row"))
    ]
    assume(admitted == sorted(admitted))

    assert summary.pools[0].residence == "logged"
    assert summary.pools[0].output == "as_decoded"
    assert summary.hit_tokens <= summary.ideal_hit_tokens
    for row in rows_of(files, "lookup_facts"):
        assert 0 <= row["hit_blocks"] <= row["cap_blocks"] <= row["full_blocks"]


def test_an_admission_before_an_earlier_arrival_may_hit_one_block_more_than_the_ideal():
    """In order of arrival the short prompt cannot hit its last block; admitted first, it leaves that block to the long one."""
    row = {"block_size": 2, "replica": "a"}
    rows = [
        {
            **row,
            "at_us": 0,
            "ids": [1, 2],
            "prompt_tokens": 5,
            "admitted_at": 2 * SECOND,
            "finished_at": 3 * SECOND,
        },
        {
            **row,
            "at_us": SECOND,
            "ids": [1, 2],
            "prompt_tokens": 4,
            "admitted_at": SECOND,
            "finished_at": 4 * SECOND,
        },
    ]
    hits = {}
    for residence in ("logged", "none"):
        pool = Pool(in_flight=InFlight(residence=residence, output="ignore"))
        _, summary = replay_log(make_log(rows), Scenario(pool=(pool,)), [])
        hits[residence] = (summary.hit_tokens, summary.ideal_hit_tokens)
    assert hits == {"logged": (4, 2), "none": (2, 2)}


@pytest.mark.parametrize("routing", ["random", "round-robin", "prefix-hash"])
@settings(max_examples=25)
@given(rows=logs(), seed=st.integers(0, 3))
def test_a_dead_replica_is_never_resident(routing, rows, seed):
    """Scale from 3 to 1 to 2: nobody is sent to, or blamed on, a replica that is not there."""
    scenario = Scenario(seed=seed, pool=(Pool(fleet=Fleet(routing=routing, replicas=3)),))
    events = [named(1, 6 * SECOND, "scale", replicas=1), named(2, 14 * SECOND, "scale", replicas=2)]
    files, _ = replay_log(make_log(rows), scenario, events)

    live = {r["replica"]: (r["live_from"], r["live_to"]) for r in rows_of(files, "replicas")}
    facts = rows_of(files, "lookup_facts")
    for at_us, replica in [(row["admitted_at"], row["replica"]) for row in facts] + [
        (facts[segment["lookup"]]["admitted_at"], segment["resident_replica"])
        for segment in rows_of(files, "facts")
        if segment["resident_replica"] is not None
    ]:
        first, last = live[replica]
        assert first <= at_us
        assert last is None or at_us < last
