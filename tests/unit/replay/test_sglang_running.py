from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from extent_support import laid_out
from prefixledger.errors import InternalError
from prefixledger.replay import sglang_running
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Traffic
from prefixledger.replay.sglang import radix_pool
from prefixledger.replay.sglang_running import replay_running
from support import ROOT, shared
from twins.forests import Log, random_log
from twins.radix_running import Running
from twins.vllm_blocks import Row


def _replay(log: Log, chunk: int | None = None):
    """Replay a log with the kernel; return what it found, and the chains."""
    traffic, chains, resets, output = laid_out(log)
    found = replay_running(
        traffic,
        chains,
        block_size=log.block,
        replicas=log.replicas,
        capacity_blocks=log.capacity,
        ttl_us=None if log.ttl < 0 else log.ttl,
        output=output,
        resets=resets,
        hit_saves_us=log.hit_saves_us,
        most_running=log.most_running,
        chunk_tokens=None if chunk is None else chunk * log.block,
        log_removals=True,
    )
    return found, chains


def _twin(log: Log, chunk: int | None = None):
    cache = (log.rows, log.block, log.capacity, log.replicas, log.ttl, log.output, log.hit_saves_us)
    return Running(*cache, log.resets, chunk, log.most_running).run()


def _spelled(removals, chains) -> list[tuple[str, int, int, int, int]]:
    """Spell out removals as (cause, row, at, replica, block), deep blocks first."""
    block = {
        place: b for b, place in enumerate(zip(chains.chain.tolist(), chains.position.tolist(), strict=True))
    }
    names = ("expired", "lookup", "at_us", "replica", "chain", "lo", "hi")
    return [
        ("expired" if expired else "evicted", row, at, replica, block[chain, position])
        for expired, row, at, replica, chain, lo, hi in zip(
            *(getattr(removals, name).tolist() for name in names), strict=True
        )
        for position in range(hi - 1, lo - 1, -1)
    ]


def _assert_equal(log: Log, chunk: int | None = None) -> Counter:
    expected = _twin(log, chunk)

    found, chains = _replay(log, chunk)

    assert found.hit_blocks.tolist() == expected.hit
    assert found.admitted_us.tolist() == expected.admitted
    assert found.finished_us.tolist() == expected.finished
    assert found.refused.tolist() == expected.refused
    assert found.reset_ignored.tolist() == expected.ignored
    again = {row: count for row, count in enumerate(found.retracted.tolist()) if count}
    assert again == expected.retracted
    assert {row: found.recompute_tokens[row] for row in expected.recompute} == expected.recompute
    assert found.first_eviction_us.tolist() == expected.first_eviction
    assert (
        list(zip(found.in_flight.tolist(), found.in_flight_end.tolist(), strict=True)) == expected.in_flight
    )
    removed = _spelled(found.removals, chains)
    assert [r for r in removed if r[0] == "evicted"] == [r for r in expected.removed if r[0] == "evicted"]
    assert sorted(removed) == sorted(expected.removed)
    return Counter(
        waits=sum(at > row.arrival for at, row in zip(expected.admitted, log.rows, strict=True)),
        evicted=sum(r[0] == "evicted" for r in removed),
        expired=sum(r[0] == "expired" for r in removed),
        in_flight=sum(other >= 0 for other, _ in expected.in_flight),
        stopped=expected.stopped,
        freed_at_once=expected.freed_at_once,
        retracted=sum(expected.retracted.values()),
    )


@settings(deadline=None, max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_kernel_equals_a_tree_of_nodes_with_locks(rng):
    """Hits, admissions, releases, refusals, ignored flushes, who computes what, and every removal equal those of the twin."""
    log = replace(random_log(rng, longest=15), most_running=rng.choice([1, 2, 3, 1 << 30]))
    _assert_equal(log, rng.choice([None, 1, 2, 3]))


@pytest.mark.parametrize("output", ["ignore", "at_release", "as_decoded"])
def test_kernel_equals_a_tree_of_nodes_with_locks_under_pressure(output):
    """The same on longer logs, most of which wait, evict, expire, compute twice and run out of room."""
    seen = Counter()
    for seed in range(300):
        rng = random.Random(seed)
        log = replace(random_log(rng, output=output), most_running=(1 << 30, 1 << 30, 2, 4)[seed % 4])
        seen += _assert_equal(log, rng.choice([None, None, 1, 2, 4]))

    assert min(seen[what] for what in ("waits", "evicted", "expired", "in_flight", "freed_at_once")) > 100
    assert (min(seen["stopped"], seen["retracted"]) > 50) == (output == "as_decoded"), seen


def test_kernel_equals_a_tree_of_nodes_where_matches_are_skipped():
    """A request that skips the match locks nothing, and inserts what the tree does not have."""
    for seed in range(200):
        rng = random.Random(seed)
        log = random_log(rng)
        for row in log.rows:
            row.bypassed = rng.random() < 0.4
        _assert_equal(log)


@pytest.mark.slow
def test_kernel_equals_a_tree_of_nodes_with_locks_at_length():
    """No difference in 20,000 random logs."""
    for seed in range(20_000):
        rng = random.Random(1_000_000 + seed)
        log = replace(random_log(rng), most_running=(1 << 30, 2, 3)[seed % 3])
        _assert_equal(log, rng.choice([None, 1, 2, 4]))


def test_kernel_stays_inside_its_arrays():
    """Run as plain Python, where numpy checks every index, the kernel gives the same answers."""
    code = (
        "import importlib.util as u, random\n"
        f"s = u.spec_from_file_location('unit_replay', {__file__!r})\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m)\n"
        "for seed in range(100):\n    m._assert_equal(m.random_log(random.Random(seed)))\n"
    )
    paths = os.pathsep.join([str(ROOT / "pipeline"), str(ROOT / "tests")])

    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr


def test_without_residence_it_is_the_tree_of_one_request_at_a_time():
    """With nothing held and no output, hits, refusals and evictions equal those of the sequential kernel."""
    evicted = 0
    for seed in range(300):
        log = random_log(random.Random(seed), output="ignore")
        for row in log.rows:
            row.hold = row.prefill = 0
        traffic, chains, resets, _ = laid_out(log)
        pool = radix_pool(traffic, chains, block_size=log.block, replicas=log.replicas, resets=resets)
        ttl_us = None if log.ttl < 0 else log.ttl

        found, _ = _replay(log)

        expected = pool.replay(capacity_blocks=log.capacity, ttl_us=ttl_us, log_removals=True)
        assert found.hit_blocks.tolist() == expected.hit_blocks.tolist()
        assert found.refused.tolist() == expected.refused.tolist()
        assert found.first_eviction_us.tolist() == expected.first_eviction_us.tolist()
        assert sorted(_spelled(found.removals, chains)) == sorted(_spelled(expected.removals, chains))
        assert (found.admitted_us == traffic.arrival_us).all()
        assert (found.in_flight == -1).all()
        evicted += int((~found.removals.expired).sum())
    assert evicted > 1000


def test_without_residence_hits_are_those_of_the_engine():
    """Every row of a golden file, from the kernel that knows running requests."""
    trace = traces.load(shared("traces/mooncake_conversation.jsonl.zst"), 512)
    parent, last_block = traces.forest(trace)
    chains = build_chains(parent)
    paths = build_paths(chains, last_block)
    order = np.arange(len(last_block))  # the engine was driven in file order
    tokens = trace.prompt_tokens
    traffic = Traffic(order, np.zeros_like(order), tokens, tokens // 512, paths.offset, paths.chain)

    found = replay_running(traffic, chains, block_size=512, replicas=1, capacity_blocks=2000)

    golden = pq.read_table(shared("golden/sglang_conv_seq_2000.parquet"))["hit_tokens"].to_numpy()
    assert (golden != 512 * found.hit_blocks).sum() == 0


A, B, C, D, E = range(5)


def _log(rows: list[Row], capacity: int, *, parent=(-1, -1, -1, -1, -1), output="ignore", **more) -> Log:
    """Return a log of blocks of two tokens; a row is (arrival, replica, tokens, keys, keys of the prompt, ...)."""
    log = Log(list(parent), rows, 2, capacity, 1, -1, output, [], 0.0)
    return replace(log, **more)


def test_what_a_running_request_matched_is_never_evicted():
    """A is older than B, but who hit it runs until 50 with a slot of its own: B has to go for C, and D waits."""
    rows = [
        Row(0, 0, 3, [A], 1),
        Row(1, 0, 3, [B], 1),
        Row(2, 0, 3, [A], 1, hold=48),
        Row(3, 0, 3, [C], 1, hold=1),
        Row(10, 0, 5, [D, E], 2),
    ]

    found, chains = _replay(_log(rows, 4, parent=(-1, -1, -1, -1, 3)))

    assert found.hit_blocks.tolist() == [0, 0, 1, 0, 0]
    assert found.admitted_us.tolist() == [0, 1, 2, 3, 50]
    evicted = _spelled(found.removals, chains)
    assert evicted[0] == ("evicted", 3, 3, 0, B)
    assert evicted[1:] == [("evicted", 4, 50, 0, C)]


def test_a_prompt_is_shown_at_the_end_of_its_prefill():
    """Until 10 another lookup computes A and B once more, and the first one that computes them is named."""
    rows = [Row(at, 0, 5, [A, B], 2, hold=20, prefill=10) for at in (0, 4, 9, 10)]

    found, _ = _replay(_log(rows, 30, parent=(-1, 0)))

    assert found.hit_blocks.tolist() == [0, 0, 0, 2]
    assert found.in_flight.tolist() == [-1, 0, 0, -1]
    assert found.in_flight_end.tolist() == [0, 2, 2, 0]


def test_chunks_of_a_prompt_are_shown_as_they_are_computed():
    """Nine tokens take 27: in chunks of a block A is shown at 6, B at 12, so that whoever comes at 13 hits two."""
    rows = [Row(at, 0, 9, [A, B, C, D], 4, hold=30, prefill=27) for at in (0, 13, 28)]

    found, _ = _replay(_log(rows, 30, parent=(-1, 0, 1, 2)), chunk=1)
    whole, _ = _replay(_log(rows, 30, parent=(-1, 0, 1, 2)))

    assert found.hit_blocks.tolist() == [0, 2, 4]
    assert found.in_flight.tolist() == [-1, 0, -1]
    assert whole.hit_blocks.tolist() == [0, 0, 4]


def test_slots_of_what_was_computed_twice_are_free_at_once():
    """Two copies of A and B fill the cache; at 14 the second is inserted and its two slots let C in, before any release."""
    rows = [Row(at, 0, 4, [A, B], 2, hold=50, prefill=10) for at in (0, 4)]
    rows += [Row(5, 0, 4, [C, D], 2, hold=1)]

    found, _ = _replay(_log(rows, 4, parent=(-1, 0, -1, 2)))

    assert found.admitted_us.tolist() == [0, 4, 14]


def test_output_is_shown_at_the_end_and_leaves_before_its_prompt():
    """B is output of the first: at 15 it is in flight, at 21 it hits; two blocks for D take B alone."""
    rows = [
        Row(0, 0, 2, [A, B], 1, hold=20, prefill=10, output=3),
        Row(15, 0, 5, [A, B], 2, hold=1),
        Row(21, 0, 5, [A, B], 2, hold=0),
        Row(30, 0, 4, [C, D], 2, hold=0),
        Row(40, 0, 5, [A, B], 2, hold=0),
    ]
    for mode in ("as_decoded", "at_release"):
        log = _log(rows[:1] + rows[2:], 3, parent=(-1, 0, -1, 2), output=mode)

        found, chains = _replay(log)

        assert found.hit_blocks.tolist() == [0, 2, 0, 1]
        assert _spelled(found.removals, chains)[0] == ("evicted", 2, 30, 0, B)
        waiting, _ = _replay(_log(rows[:2], 9, parent=(-1, 0), output=mode))
        assert waiting.hit_blocks.tolist() == [0, 1]
        assert waiting.in_flight.tolist() == [-1, 0]
        assert waiting.in_flight_end.tolist() == [0, 2]


def test_who_has_the_least_output_is_retracted_and_loses_it():
    """At 30 the first wants a third slot: the second has 2 tokens of output against 3, and is prefilled anew at 60."""
    rows = [
        Row(0, 0, 2, [A], 1, hold=60, prefill=10, output=6),
        Row(10, 0, 2, [B, C], 1, hold=60, prefill=10, output=6),
    ]

    found, chains = _replay(_log(rows, 4, parent=(-1, -1, 1), output="as_decoded"))

    assert found.retracted.tolist() == [0, 1]
    assert found.admitted_us.tolist() == [0, 10]  # the first admission is the one in the books
    # Twice the tokens take 20 to prefill, and 3 of 5 steps are left; its prompt stayed in the tree until the first took it.
    assert found.finished_us.tolist() == [60, 60 + 20 + 30]
    assert found.recompute_tokens.tolist() == [0, 4]
    assert _spelled(found.removals, chains)[0] == ("evicted", 0, 50, 0, B)


def test_who_waits_blocks_who_comes_after():
    """E would fit at 2, but stands behind D, which fits once A, B and C are shown and need no room of their own."""
    rows = [
        Row(0, 0, 6, [A, B, C], 3, hold=30, prefill=9),
        Row(1, 0, 8, [A, B, C, D], 4),
        Row(2, 0, 2, [E], 1),
    ]

    found, _ = _replay(_log(rows, 4, parent=(-1, 0, 1, 2, -1)))

    assert found.admitted_us.tolist() == [0, 9, 9]
    assert found.hit_blocks.tolist() == [0, 3, 0]


def test_a_restart_takes_the_keys_and_leaves_the_room_to_who_runs():
    """After the restart at 5 nothing hits, and two blocks are taken until 30, so that the third prompt has to wait."""
    rows = [Row(0, 0, 4, [A, B], 2, hold=30), Row(6, 0, 4, [A, B], 2, hold=0), Row(7, 0, 6, [A, B, C], 3)]
    forced = _log(rows, 4, parent=(-1, 0, 1), resets=[(5, 0, True)])

    found, _ = _replay(forced)
    ignored, _ = _replay(replace(forced, resets=[(5, 0, False)]))

    assert found.hit_blocks.tolist() == [0, 0, 2]
    assert found.admitted_us.tolist() == [0, 6, 30]
    assert not found.reset_ignored[0]
    assert ignored.hit_blocks.tolist() == [0, 1, 2]
    assert ignored.admitted_us.tolist() == [0, 6, 7]
    assert ignored.reset_ignored[0]


def test_tables_that_run_full_are_given_more_room(monkeypatch):
    """Tables that are too small at first change no result."""
    logs = [random_log(random.Random(seed)) for seed in range(60)]
    expected = [_replay(log) for log in logs]
    monkeypatch.setattr(sglang_running, "FIRST_ROWS", 1 - min(len(log.rows) for log in logs))

    for log, (before, chains) in zip(logs, expected, strict=True):
        found, _ = _replay(log)

        assert found.hit_blocks.tolist() == before.hit_blocks.tolist()
        assert _spelled(found.removals, chains) == _spelled(before.removals, chains)


def test_lookups_that_do_not_fit_their_pool_are_refused():
    """A residence shorter than its prefill, or falling arrivals, are faults of the caller."""
    with pytest.raises(InternalError, match="before its prefill"):
        _replay(_log([Row(0, 0, 2, [A], 1, hold=1, prefill=2)], 3))
    with pytest.raises(InternalError, match="order of arrival"):
        _replay(_log([Row(1, 0, 2, [A], 1), Row(0, 0, 2, [A], 1)], 3))
