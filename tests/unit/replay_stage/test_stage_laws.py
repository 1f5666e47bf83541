from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.config.scenario import Cache, Fleet, InFlight, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log, named

RUNGS = ("pooled", "per_replica", "resets", "ttl", "capacity")


@st.composite
def logs(draw, *, ends: bool = False):
    """A small log with shared prefixes, ties, aligned prompts, several replicas; block size 2."""
    rows = []
    at = 0
    for _ in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 3))
        head = draw(st.sampled_from([[], [1], [1, 2], [1, 2, 3], [1, 4], [5, 6]]))
        ids = head + [7] * draw(st.integers(0, 2))
        tail = draw(st.integers(0, 1)) if ids else 1
        row = {
            "at_us": at * SECOND,
            "ids": ids,
            "block_size": 2,
            "prompt_tokens": 2 * len(ids) + tail,
            "replica": draw(st.sampled_from(["a", "b", "c"])),
            "output_tokens": draw(st.integers(0, 5)),
        }
        if ends:
            row["finished_at"] = (at + draw(st.integers(0, 6))) * SECOND
        rows.append(row)
    return rows


@st.composite
def scenarios(draw, profile=None, in_flight=None):
    """A pool with little room, short lives and a short grace period; events at any time."""
    capacity = draw(st.sampled_from(["unlimited", "3 blocks", "5 blocks", "8 blocks"]))
    pool = Pool(
        cache=Cache(
            profile=profile or draw(st.sampled_from(["vllm", "textbook"])),
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


def _rows(files, name):
    table = files[f"{name}.parquet"]
    columns = [
        column.cast("int64") if str(column.type).startswith("timestamp") else column
        for column in table.columns
    ]
    return [
        dict(zip(table.column_names, values, strict=True))
        for values in zip(*(c.to_pylist() for c in columns), strict=True)
    ]


def _cause(segment, facts, ttl_us):
    """Product rules 2 to 4, in words: cause and whether it was elsewhere."""
    own, other = segment["own_previous"], segment["else_previous"]
    if own is None and other is None:
        return "cold"
    if own is None and segment["resident_replica"] is not None:
        return "elsewhere"
    previous = other if own is None else own
    gap = facts[segment["lookup"]]["admitted_at"] - facts[previous]["admitted_at"]
    if own is None:
        return "elsewhere"
    if segment["own_reset"] is not None:
        return "invalidated"
    return "expired" if ttl_us is not None and gap > ttl_us else "evicted"


@settings(max_examples=80)
@given(logs(), scenarios())
def test_books_close_and_the_ladder_equals_the_causes(rows, scenario):
    """Each rung loses exactly the blocks whose rule names its limit, lookup by lookup, for both profiles."""
    scenario, events = scenario
    files, _ = replay_log(make_log(rows), scenario, events)
    facts, ladder = _rows(files, "lookup_facts"), _rows(files, "ladder")
    ttl_us = scenario.pool[0].cache.ttl_us
    assert [row["request_row"] for row in facts] == list(range(len(rows)))  # one at a time: as they arrived
    hits, missed, covered = Counter(), Counter(), Counter()
    for segment in _rows(files, "facts"):
        lookup, blocks = segment["lookup"], segment["n_blocks"]
        covered[lookup] += blocks
        if segment["hit"]:
            hits[lookup] += blocks
        elif segment["first_block"] < facts[lookup]["cap_blocks"]:
            missed[lookup, _cause(segment, facts, ttl_us)] += blocks

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
    """Whatever is pinned, queued or decoded: one unlimited cache for everybody does at least as well in all."""
    scenario, events = scenario
    files, summary = replay_log(make_log(rows), scenario, events)

    assert summary.pools[0].residence == "logged"
    assert summary.pools[0].output == "as_decoded"
    assert summary.hit_tokens <= summary.ideal_hit_tokens
    for row in _rows(files, "lookup_facts"):
        assert 0 <= row["hit_blocks"] <= row["cap_blocks"] <= row["full_blocks"]


@pytest.mark.parametrize("routing", ["random", "round-robin", "prefix-hash"])
@settings(max_examples=25)
@given(rows=logs(), seed=st.integers(0, 3))
def test_a_dead_replica_is_never_resident(routing, rows, seed):
    """Scale from 3 to 1 to 2: nobody is sent to, or blamed on, a replica that is not there."""
    scenario = Scenario(seed=seed, pool=(Pool(fleet=Fleet(routing=routing, replicas=3)),))
    events = [named(1, 6 * SECOND, "scale", replicas=1), named(2, 14 * SECOND, "scale", replicas=2)]
    files, _ = replay_log(make_log(rows), scenario, events)

    live = {r["replica"]: (r["live_from"], r["live_to"]) for r in _rows(files, "replicas")}
    facts = _rows(files, "lookup_facts")
    for at_us, replica in [(row["admitted_at"], row["replica"]) for row in facts] + [
        (facts[segment["lookup"]]["admitted_at"], segment["resident_replica"])
        for segment in _rows(files, "facts")
        if segment["resident_replica"] is not None
    ]:
        first, last = live[replica]
        assert first <= at_us
        assert last is None or at_us < last
