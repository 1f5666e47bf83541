from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.replay import extents
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Output, Resets, Traffic, replay_extents
from support import ROOT
from twins.forests import Log, random_log
from twins.vllm_blocks import Row, Twin


def _replay(
    log: Log, *, capacity: int | None = None, log_removals: bool = False, unhashed_in_line: bool = False
):
    """Replay a log with the kernel; return what it found, and the chains."""
    chains = build_chains(np.array(log.parent, np.int64))
    paths = build_paths(chains, log.last_blocks())

    def column(field: str) -> np.ndarray:
        return np.array([getattr(row, field) for row in log.rows], np.int64)

    traffic = Traffic(
        arrival_us=column("arrival"),
        replica=column("replica").astype(np.int32),
        prompt_tokens=column("tokens"),
        keyed_blocks=column("prompt_keys"),
        path_offset=paths.offset,
        path_chain=paths.chain,
        hold_us=column("hold"),
        prefill_us=column("prefill"),
        reach_blocks=np.where(column("bypassed"), 0, UNLIMITED_BLOCKS),
    )
    keyed = np.array([len(row.keys) for row in log.rows], np.int64)
    at, replica, force = zip(*log.resets, strict=True) if log.resets else ((), (), ())
    found = replay_extents(
        traffic,
        chains.chain_length,
        block_size=log.block,
        replicas=log.replicas,
        capacity_blocks=capacity or log.capacity,
        ttl_us=None if log.ttl < 0 else log.ttl,
        output=None if log.output == "ignore" else Output(log.output, column("output"), keyed),
        resets=Resets(np.array(at, np.int64), np.array(replica, np.int32), np.array(force, np.bool_)),
        hit_saves_us=log.hit_saves_us,
        unhashed_in_line=unhashed_in_line,
        log_removals=log_removals,
        most_running=log.most_running,
    )
    return found, chains


def _twin(log: Log, *, in_line: bool = False):
    return Twin(
        log.rows,
        log.block,
        log.capacity,
        log.replicas,
        log.ttl,
        log.output,
        log.hit_saves_us,
        log.resets,
        in_line,
        most_running=log.most_running,
    ).run()


def _assert_equal(log: Log, *, in_line: bool = False) -> None:
    expected = _twin(log, in_line=in_line)

    found, chains = _replay(log, log_removals=True, unhashed_in_line=in_line)

    assert found.hit_blocks.tolist() == expected.hit
    assert found.admitted_us.tolist() == expected.admitted
    assert found.finished_us.tolist() == expected.finished
    for name, column in (("preempted", found.preempted), ("recompute", found.recompute_tokens)):
        some = getattr(expected, name)
        assert column.tolist() == [some.get(row, 0) for row in range(len(log.rows))]
    assert found.refused.tolist() == expected.refused
    assert found.reset_ignored.tolist() == expected.ignored
    assert found.first_eviction_us.tolist() == expected.first_eviction
    assert _removed_blocks(found.removals, chains) == Counter(r for r in expected.removed if r[4] is not None)


def _removed_blocks(removals, chains) -> Counter:
    """Spell out removals as (cause, row, at, replica, block, whether the key is gone with it)."""
    block = {
        place: b for b, place in enumerate(zip(chains.chain.tolist(), chains.position.tolist(), strict=True))
    }
    columns = (removals.lookup, removals.at_us, removals.replica, removals.chain, removals.lo, removals.hi)
    columns += (removals.resident, removals.expired)
    return Counter(
        ("expired" if expired else "evicted", row, at, replica, block[chain, position], position >= resident)
        for row, at, replica, chain, lo, hi, resident, expired in zip(
            *(c.tolist() for c in columns), strict=True
        )
        for position in range(lo, hi)
    )


@settings(deadline=None, max_examples=150)
@given(rng=st.randoms(use_true_random=False))
def test_extents_equal_physical_blocks(rng):
    """Hits, admissions, releases, refusals, ignored flushes and every removal equal those of the block-by-block twin."""
    _assert_equal(replace(random_log(rng, longest=15), most_running=rng.choice([1, 2, 3, 1 << 30])))


@pytest.mark.parametrize("output", ["ignore", "at_release", "as_decoded"])
def test_extents_equal_physical_blocks_under_pressure(output):
    """The same on longer logs, most of which wait, evict, expire, copy and refuse."""
    seen = Counter()
    for seed in range(400):
        log = random_log(random.Random(seed), output=output)
        log = replace(log, most_running=(1 << 30, 1, 1 << 30, 2, 4)[seed % 5])
        _assert_equal(log)
        answer = _twin(log)
        seen["waits"] += sum(a > row.arrival for a, row in zip(answer.admitted, log.rows, strict=True))
        seen["refused"] += sum(answer.refused)
        seen["preempted"] += sum(answer.preempted.values())
        seen["ignored"] += sum(answer.ignored)
        for cause, *_, gone in answer.removed:
            seen[cause] += 1
            seen["copies"] += not gone
    assert min(seen[k] for k in ("waits", "refused", "evicted", "expired", "copies")) > 500, seen
    assert seen["ignored"] > 20
    assert seen["preempted"] > 200 or output != "as_decoded", seen


def test_extents_equal_physical_blocks_where_lookups_are_skipped():
    """A request that skips the lookup hits nothing and leaves second copies of whatever is there."""
    copies = 0
    for seed in range(300):
        rng = random.Random(seed)
        log = random_log(rng)
        for row in log.rows:
            row.bypassed = rng.random() < 0.4
        _assert_equal(log)
        copies += sum(not gone for *_, gone in _twin(log).removed)
    assert copies > 500


@pytest.mark.parametrize("seed", [2466, *range(20)])
def test_extents_equal_physical_blocks_where_a_copy_expires_before_its_children(seed):
    """The copy of a request that skipped its lookup steps in, nobody has used it, and what is below it lives on (seed 2466)."""
    rng = random.Random(seed)
    log = random_log(rng, longest=40)
    for row in log.rows:
        row.bypassed = rng.random() < 0.35
    _assert_equal(replace(log, ttl=rng.randint(3, 25)))


def test_extents_equal_physical_blocks_of_older_versions():
    """Where freed slots without a key wait behind all others nothing else differs from the twin, and hits do change."""
    changed = 0
    for seed in range(400):
        log = random_log(random.Random(seed))
        _assert_equal(log, in_line=True)
        changed += _twin(log, in_line=True).hit != _twin(log).hit
    assert changed > 15


@pytest.mark.slow
def test_extents_equal_physical_blocks_at_length():
    """No difference in 30,000 random logs."""
    for seed in range(30_000):
        log = replace(random_log(random.Random(1_000_000 + seed)), most_running=(1 << 30, 2, 3)[seed % 3])
        _assert_equal(log, in_line=seed % 4 == 0)


def test_kernel_stays_inside_its_arrays():
    """Run as plain Python, where numpy checks every index, the kernel gives the same answers."""
    code = (
        "import random\nfrom unit_replay import _assert_equal\nfrom twins.forests import random_log\n"
        "for seed in range(60):\n    _assert_equal(random_log(random.Random(seed), longest=25), in_line=seed % 3 == 0)\n"
    )
    code = code.replace(
        "from unit_replay import _assert_equal",
        "import importlib.util as u, sys\n"
        f"s = u.spec_from_file_location('unit_replay', {__file__!r})\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m); _assert_equal = m._assert_equal",
    )
    paths = os.pathsep.join([str(ROOT / "pipeline"), str(ROOT / "tests")])

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr


def _log(parent: list[int], rows: list[Row], block: int, capacity: int, **rest) -> Log:
    return Log(
        parent=parent,
        rows=rows,
        block=block,
        capacity=capacity,
        replicas=rest.get("replicas", 1),
        ttl=rest.get("ttl", -1),
        output=rest.get("output", "ignore"),
        resets=rest.get("resets", []),
        hit_saves_us=rest.get("hit_saves_us", 0.0),
    )


def _prompts(*prompts: tuple[int, list[int]]) -> list[Row]:
    return [Row(at, 0, tokens, keys, len(keys)) for at, (tokens, keys) in enumerate(prompts)]


A, B, C, D, E = 0, 1, 2, 3, 4


@pytest.mark.parametrize(
    ("parent", "prompts", "capacity", "hits"),
    [
        ([-1, -1, 1], [(2, [A]), (4, [B, C]), (2, [B]), (3, [A])], 3, [0, 0, 0, 0]),
        ([-1, -1], [(3, [A]), (3, [B]), (3, [A])], 2, [0, 0, 0]),
        ([-1, 0, -1, 2, 1], [(4, [A, B]), (5, [C, D]), (6, [A, B, E]), (3, [C])], 4, [0, 0, 1, 1]),
        ([-1, 0], [(4, [A, B]), (2, [A]), (1, []), (5, [A, B])], 3, [0, 0, 0, 1]),
        ([-1, -1, 1], [(2, [A]), (4, [B, C]), (2, [A]), (3, [A]), (3, [B])], 3, [0, 0, 0, 1, 1]),
    ],
    ids=["no copies", "no tail slot", "neither curve", "tail without copies", "one stack of copies"],
)
def test_logs_that_simpler_rules_get_wrong(parent, prompts, capacity, hits):
    """Copies of aligned last blocks and partial slots take room, as in vLLM (blocks of two tokens)."""
    found, _ = _replay(_log(parent, _prompts(*prompts), 2, capacity))

    assert found.hit_blocks.tolist() == hits


def test_a_freed_partial_slot_waits_in_line_up_to_0_22():
    """Of two slots C takes B's freed tail; while that waits behind A, A must go (blocks of two tokens, three slots)."""
    log = _log([-1, -1, -1], _prompts((2, [A]), (3, [B]), (2, [C]), (3, [A])), 2, 3)

    now, before = _replay(log)[0], _replay(log, unhashed_in_line=True)[0]

    assert now.hit_blocks.tolist() == [0, 0, 0, 1]
    assert before.hit_blocks.tolist() == [0, 0, 0, 0]


def test_one_lookup_takes_its_blocks_from_two_copies():
    """A prompt whose first block survives in one copy and whose second in another hits both."""
    rows = [
        Row(0, 0, 1, [A, B], 0, hold=200, output=8),
        Row(0, 0, 7, [A, B], 2, hold=115, output=4),
        Row(0, 0, 10, [A, B, C], 3, hold=410),
    ]

    found, _ = _replay(_log([-1, 0, 1], rows, 3, 4, output="at_release"))

    assert found.admitted_us.tolist() == [0, 0, 200]
    assert found.hit_blocks.tolist() == [0, 0, 2]


def test_a_flush_waits_for_no_one_and_a_restart_for_everyone():
    """A flush is ignored while a request runs unless forced; what a restart found running publishes nothing afterwards."""
    rows = [Row(0, 0, 3, [A], 1, hold=10), Row(6, 0, 3, [A], 1), Row(20, 0, 3, [A], 1)]

    ignored, _ = _replay(_log([-1], rows, 2, 9, resets=[(5, 0, False)]))
    forced, _ = _replay(_log([-1], rows, 2, 9, resets=[(5, 0, True)]))

    assert ignored.reset_ignored.tolist() == [True]
    assert ignored.hit_blocks.tolist() == [0, 1, 1]
    assert forced.reset_ignored.tolist() == [False]
    assert forced.hit_blocks.tolist() == [0, 0, 1]


def test_at_equal_times_releases_go_before_resets_and_resets_before_admissions():
    """A flush at the moment of the release finds nothing running, and the admission at that moment an empty cache."""
    rows = [Row(0, 0, 3, [A], 1, hold=5), Row(5, 0, 3, [A], 1)]

    found, _ = _replay(_log([-1], rows, 2, 2, resets=[(5, 0, False)]))

    assert found.reset_ignored.tolist() == [False]
    assert found.admitted_us.tolist() == [0, 5]
    assert found.hit_blocks.tolist() == [0, 0]


@pytest.mark.parametrize(("gap", "hits"), [(7, 1), (8, 0)])
def test_a_gap_of_exactly_the_ttl_hits(gap, hits):
    """The gap is counted from admission to admission, and the TTL itself still hits."""
    rows = [Row(0, 0, 3, [A], 1, hold=2), Row(gap, 0, 3, [A], 1)]

    found, _ = _replay(_log([-1], rows, 2, 9, ttl=7), log_removals=True)

    assert found.hit_blocks.tolist() == [0, hits]
    assert found.removals.at_us.tolist() == ([14] if hits else [7, 15])


def test_a_waiting_request_blocks_those_behind_it_and_a_refused_one_does_not():
    """First come, first served; a prompt larger than the cache is refused when its turn comes and changes nothing."""
    rows = [
        Row(0, 0, 5, [], 0, hold=10),
        Row(1, 0, 5, [], 0, hold=10),
        Row(2, 0, 7, [], 0),
        Row(3, 0, 1, [], 0, hold=1),
    ]

    found, _ = _replay(_log([], rows, 2, 3))

    assert found.refused.tolist() == [False, False, True, False]
    assert found.admitted_us.tolist() == [0, 10, 10, 20]
    assert found.finished_us.tolist() == [10, 20, 10, 21]


def test_a_hit_shortens_the_prefill_and_never_more_than_that():
    """A hit block saves so many microseconds, of the prefill only."""
    rows = [Row(0, 0, 5, [A, B], 2, hold=100, prefill=50), Row(1, 0, 5, [A, B], 2, hold=100, prefill=50)]

    some, _ = _replay(_log([-1, 0], rows, 2, 9, hit_saves_us=10.0))
    all_of_it, _ = _replay(_log([-1, 0], rows, 2, 9, hit_saves_us=40.0))

    assert some.finished_us.tolist() == [100, 81]
    assert all_of_it.finished_us.tolist() == [100, 51]


def test_output_is_found_by_the_next_turn():
    """The next turn hits the blocks of prompt and output, all but the one that the last output token began."""
    turn = Row(
        0, 0, 3, [A, B, C], 1, hold=10, output=5
    )  # 3 + 5 - 1 tokens with KV: three full blocks of two and one token
    rows = [turn, Row(10, 0, 9, [A, B, C, D], 4)]

    for output in ("at_release", "as_decoded"):
        found, _ = _replay(_log([-1, 0, 1, 2], rows, 2, 9, output=output))
        assert found.hit_blocks.tolist() == [0, 3]


@settings(deadline=None, max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_more_capacity_never_lowers_hits_one_at_a_time(rng):
    """Under residence none and output ignore, copies included, once the largest prompt fits."""
    log = random_log(rng, output="ignore")
    for row in log.rows:
        row.hold = row.prefill = 0
    largest = max(-(-row.tokens // log.block) for row in log.rows)

    hits = [_replay(log, capacity=c)[0].hit_blocks.sum() for c in range(largest, largest + 12)]

    assert hits == sorted(hits)


def test_tables_that_run_full_are_enlarged(monkeypatch):
    """A table that is too small at first changes no result."""
    log = random_log(random.Random(5), output="as_decoded")
    expected, _ = _replay(log, log_removals=True)
    deep = _log(
        list(range(-1, 63)), [Row(i, 0, 2 * i + 1, list(range(i)), i, hold=99) for i in range(1, 64)], 2, 9999
    )
    monkeypatch.setattr(extents, "FIRST_ROWS", 2)

    found, _ = _replay(log, log_removals=True)
    many, _ = _replay(deep)

    assert found.hit_blocks.tolist() == expected.hit_blocks.tolist()
    assert found.removals.hi.tolist() == expected.removals.hi.tolist()
    assert many.hit_blocks.tolist() == list(range(63))


def test_lookups_out_of_order_are_refused():
    """Arrivals of one replica that fall are a fault of the caller."""
    with pytest.raises(InternalError, match="order of arrival"):
        _replay(_log([], [Row(5, 0, 1, [], 0), Row(4, 0, 1, [], 0)], 2, 9))


def test_a_residence_shorter_than_its_prefill_is_refused():
    """Time cannot run backwards within a request."""
    with pytest.raises(InternalError, match="before its prefill"):
        _replay(_log([], [Row(0, 0, 1, [], 0, hold=1, prefill=2)], 2, 9))


def test_a_replica_that_the_pool_lacks_is_refused():
    """A lookup names one of the replicas."""
    with pytest.raises(InternalError, match="replica that the pool lacks"):
        _replay(_log([], [Row(0, 1, 1, [], 0)], 2, 9))


def test_a_pool_without_lookups_has_an_empty_replay():
    """Nothing in, nothing out, for each replica."""
    found, _ = _replay(_log([], [], 2, 9, replicas=2), log_removals=True)

    assert found.hit_blocks.size == 0
    assert found.first_eviction_us.tolist() == [-1, -1]
    assert found.removals.lookup.size == 0


def test_more_keyed_blocks_than_tokens_are_refused():
    """A lookup cannot have more full blocks than its tokens fill."""
    with pytest.raises(InternalError, match="more keyed blocks"):
        _replay(_log([-1, 0], [Row(0, 0, 3, [A, B], 2)], 2, 9))


def test_decode_that_runs_out_of_room_preempts_the_last_request():
    """The later request gives way, waits for the first, hits what is left of itself and computes the rest again."""
    rows = [
        Row(0, 0, 3, [A], 1, hold=40, prefill=8, output=5),
        Row(1, 0, 3, [B, C], 1, hold=40, prefill=8, output=5),
    ]

    found, _ = _replay(_log([-1, -1, 1], rows, 2, 5, output="as_decoded"))

    # Token 5 of the first, at 16, takes the last slot; that of the second finds none at 17 and gives up two tokens.
    assert found.preempted.tolist() == [0, 1]
    assert found.admitted_us.tolist() == [0, 1]
    assert found.hit_blocks.tolist() == [0, 0]
    # Token 7 of the first takes the deeper of its two blocks at 32. It fits at 40: 5 tokens, of which 2 still hit; 13 us of
    # prefill at its rate, then two steps of 8.
    assert found.recompute_tokens.tolist() == [0, 3]
    assert found.finished_us.tolist() == [40, 69]


def test_a_request_that_fills_the_cache_stops_growing():
    """Alone it has nobody to preempt; under a TTL nobody is preempted at all."""
    alone = [Row(0, 0, 3, [A], 1, hold=40, prefill=8, output=9)]
    two = [Row(at, 0, 3, [at], 1, hold=40, prefill=8, output=9) for at in (0, 1)]

    one, _ = _replay(_log([-1], alone, 2, 3, output="as_decoded"))
    timed, _ = _replay(_log([-1, -1], two, 2, 5, output="as_decoded", ttl=99))

    assert one.finished_us.tolist() == [40]
    assert timed.finished_us.tolist() == [40, 41]
    assert one.preempted.tolist() + timed.preempted.tolist() == [0, 0, 0]
