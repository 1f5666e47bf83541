from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from prefixledger.errors import InternalError
from prefixledger.replay import sglang
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Resets, Traffic, replay_extents
from prefixledger.replay.sglang import radix_pool
from support import ROOT, shared
from twins.forests import random_log
from twins.radix_tree import Prompt, replay


def _pool(parent, rows: list[Prompt], block: int, replicas: int = 1, resets=()):
    chains = build_chains(np.array(parent, np.int64))
    paths = build_paths(chains, np.array([row.keys[-1] if row.keys else -1 for row in rows], np.int64))
    traffic = Traffic(
        arrival_us=np.array([row.arrival for row in rows], np.int64),
        replica=np.array([row.replica for row in rows], np.int32),
        prompt_tokens=np.array([row.tokens for row in rows], np.int64),
        keyed_blocks=np.array([len(row.keys) for row in rows], np.int64),
        path_offset=paths.offset,
        path_chain=paths.chain,
        reach_blocks=np.array([0 if row.bypassed else UNLIMITED_BLOCKS for row in rows], np.int64),
    )
    packed = Resets(
        np.array([at for at, _ in resets], np.int64),
        np.array([of for _, of in resets], np.int32),
        np.ones(len(resets), np.bool_),
    )
    pool = radix_pool(traffic, chains, block_size=block, replicas=replicas, resets=packed)
    return pool, chains, traffic


def _hits(rows: list[tuple[int, list[int]]], parent: list[int], block: int, capacity: int) -> list[int]:
    """Replay (tokens, keys) one after the other."""
    prompts = [Prompt(at, 0, tokens, keys) for at, (tokens, keys) in enumerate(rows)]
    return _pool(parent, prompts, block)[0].replay(capacity_blocks=capacity).hit_blocks.tolist()


def _spelled(removals, chains) -> list[tuple[str, int, int, int, int]]:
    """Spell out removals as (cause, row, at, replica, block), deep blocks first."""
    block = {
        (c, p): b
        for b, (c, p) in enumerate(zip(chains.chain.tolist(), chains.position.tolist(), strict=True))
    }
    names = ("expired", "lookup", "at_us", "replica", "chain", "lo", "hi")
    return [
        ("expired" if expired else "evicted", row, at, replica, block[chain, position])
        for expired, row, at, replica, chain, lo, hi in zip(
            *(getattr(removals, name).tolist() for name in names), strict=True
        )
        for position in range(hi - 1, lo - 1, -1)
    ]


def _long_log(rng: random.Random):
    """Draw pieces of up to 70 blocks, so that nodes span chains and words of the table that says where they begin."""
    parent: list[int] = []
    child: dict[tuple[int, int], int] = {}
    known: list[list[int]] = [[]]
    rows = []
    block, replicas, labels = rng.choice([1, 2, 3]), rng.choice([1, 1, 2]), rng.choice([1, 2, 3])
    piece, pace, aligned, at = rng.choice([5, 40, 70]), rng.choice([0, 2]), rng.choice([0, 0.5, 0.9]), 0
    for _ in range(rng.randint(2, 40)):
        at += rng.randint(0, pace)
        stem = rng.choice(known[-6:])
        path = stem[: rng.randint(0, len(stem)) if rng.random() < 0.5 else len(stem)]
        label = rng.randrange(labels)
        for _ in range(rng.randint(0, piece)):
            step = (path[-1] if path else -1, label)
            if step not in child:
                child[step] = len(parent)
                parent.append(step[0])
            path = [*path, child[step]]
        tail = 0 if path and rng.random() < aligned else rng.randint(1, max(block - 1, 1))
        tokens = len(path) * block + (tail if block > 1 or not path else 0)
        keys = path[: rng.randint(0, len(path)) if rng.random() < 0.1 else len(path)]
        rows.append(Prompt(at, rng.randrange(replicas), tokens, keys))
        known.append(path)
    need = max(-(-row.tokens // block) for row in rows)
    capacity = max(1, rng.choice([need + rng.randint(0, 3), rng.randint(need, 3 * need), need - 1]))
    resets = sorted((rng.randint(0, at), rng.randrange(replicas)) for _ in range(rng.choice([0, 0, 1, 2])))
    return parent, rows, block, capacity, replicas, rng.choice([-1, -1, 0, rng.randint(1, 10)]), resets


def _short_log(rng: random.Random):
    log = random_log(rng, output="ignore")
    rows = [Prompt(row.arrival, row.replica, row.tokens, row.keys) for row in log.rows]
    resets = [(at, of) for at, of, _ in log.resets]
    return log.parent, rows, log.block, log.capacity, log.replicas, log.ttl, resets


def _assert_equal(rng: random.Random, *, skipped: float = 0.0) -> int:
    draw = rng.choice([_short_log, _short_log, _long_log])
    parent, rows, block, capacity, replicas, ttl, resets = draw(rng)
    for row in rows:
        row.bypassed = skipped > 0 and rng.random() < skipped
    expected = replay(rows, block, capacity, replicas, ttl, resets)

    pool, chains, _ = _pool(parent, rows, block, replicas, resets)
    found = pool.replay(capacity_blocks=capacity, ttl_us=None if ttl < 0 else ttl, log_removals=True)

    assert found.hit_blocks.tolist() == expected.hit
    assert found.refused.tolist() == expected.refused
    assert found.first_eviction_us.tolist() == expected.first_eviction
    removed = _spelled(found.removals, chains)
    assert [r for r in removed if r[0] == "evicted"] == [r for r in expected.removed if r[0] == "evicted"]
    assert sorted(removed) == sorted(expected.removed)
    return sum(r[0] == "evicted" for r in removed)


@settings(deadline=None, max_examples=100)
@given(rng=st.randoms(use_true_random=False))
def test_kernel_equals_a_tree_of_nodes(rng):
    """Hits, refusals and removals in their order equal those of a plain radix tree, with replicas, resets and a TTL."""
    _assert_equal(rng)


def test_kernel_equals_a_tree_of_nodes_under_pressure():
    """The same on many logs with tight caches and up to nine tenths of aligned prompts."""
    evicted = [_assert_equal(random.Random(seed)) for seed in range(800)]

    assert sum(count > 20 for count in evicted) > 200


def test_kernel_equals_a_tree_of_nodes_where_matches_are_skipped():
    """A request that skips the match hits nothing, and inserts what the tree does not have."""
    for seed in range(200):
        _assert_equal(random.Random(seed), skipped=0.4)


@pytest.mark.slow
def test_kernel_equals_a_tree_of_nodes_at_length():
    """No difference in 20,000 random logs."""
    for seed in range(20_000):
        _assert_equal(random.Random(1_000_000 + seed))


def test_kernel_stays_inside_its_arrays():
    """Run as plain Python, where numpy checks every index, the kernel gives the same answers."""
    code = (
        "import importlib.util as u, random\n"
        f"s = u.spec_from_file_location('unit_replay', {__file__!r})\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m)\n"
        "for seed in range(60):\n    m._assert_equal(random.Random(seed))\n"
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


A, B, C, D, E = range(5)


@pytest.mark.parametrize(
    ("parent", "prompts", "block", "capacity", "hits"),
    [
        ([-1, 0, 1], [(3, [A, B, C]), (1, [A]), (3, [A, B, C])], 1, 3, [0, 0, 1]),
        ([-1, 0, 1, -1], [(7, [A, B, C]), (3, [D]), (7, [A, B, C])], 2, 4, [0, 0, 0]),
        ([-1, 0, 1, -1, 0], [(7, [A, B, C]), (5, [A, E]), (3, [D]), (7, [A, B, C])], 2, 5, [0, 1, 0, 1]),
        ([-1, 0, -1], [(4, [A, B]), (4, [A, B]), (3, [C]), (3, [A])], 2, 3, [0, 1, 0, 1]),
    ],
    ids=["the cap cuts a node", "whole leaves go", "a split keeps the head", "no second copies"],
)
def test_what_the_tree_keeps(parent, prompts, block, capacity, hits):
    """Eviction takes whole nodes; what a match or a cap split off goes on its own."""
    assert _hits(prompts, parent, block, capacity) == hits


def test_the_lower_half_of_a_split_counts_as_accessed():
    """B is split off by a match of A alone and outlives C, which came after B's own last use."""
    parent = [-1, 0, -1, -1]
    prompts = [(5, [A, B]), (3, [C]), (3, [A]), (3, [D]), (5, [A, B])]

    assert _hits(prompts, parent, 2, 4) == [0, 0, 1, 0, 2]
    pool, chains, _ = _pool(parent, [Prompt(at, 0, *p) for at, p in enumerate(prompts)], 2)
    assert _spelled(pool.replay(capacity_blocks=4, log_removals=True).removals, chains)[0] == (
        "evicted",
        3,
        3,
        0,
        C,
    )


def test_a_prompt_larger_than_the_cache_is_refused_and_changes_nothing():
    """Nothing is evicted for it, and nothing of it is found afterwards."""
    rows = [(3, [A]), (9, [A, B, C, D]), (3, [A]), (7, [A, B, C])]

    assert _hits(rows, [-1, 0, 1, 2], 2, 4) == [0, 0, 1, 1]


def test_to_be_split_off_is_no_use_to_a_time_limit():
    """B was accessed by the split at 4 but used at 0 only: after a TTL of 5 it is gone at 6, and A is not."""
    rows = [Prompt(0, 0, 5, [A, B]), Prompt(4, 0, 3, [A]), Prompt(6, 0, 5, [A, B])]

    found = _pool([-1, 0], rows, 2)[0].replay(ttl_us=5, log_removals=True)

    assert found.hit_blocks.tolist() == [0, 1, 1]
    assert found.removals.at_us.tolist()[0] == 5


def test_without_a_limit_the_tree_hits_what_every_cache_hits():
    """Unlimited, with replicas, resets and a TTL, hits equal those of vLLM: the ladder may use one kernel for both."""
    for seed in range(100):
        parent, rows, block, _, replicas, ttl, resets = _short_log(random.Random(seed))
        pool, chains, traffic = _pool(parent, rows, block, replicas, resets)
        ttl_us = None if ttl < 0 else ttl
        packed = Resets(
            np.array([at for at, _ in resets], np.int64),
            np.array([of for _, of in resets], np.int32),
            np.ones(len(resets), np.bool_),
        )

        found = pool.replay(ttl_us=ttl_us)

        other = replay_extents(
            traffic, chains.chain_length, block_size=block, replicas=replicas, ttl_us=ttl_us, resets=packed
        )
        assert found.hit_blocks.tolist() == other.hit_blocks.tolist()
        enough = int(found.peak_blocks.max())
        same = pool.replay(capacity_blocks=max(enough, 1), ttl_us=ttl_us, log_removals=True)
        assert same.hit_blocks.tolist() == found.hit_blocks.tolist()
        assert same.removals.expired.all()


def test_tables_that_run_full_are_given_more_room(monkeypatch):
    """Tables that are too small at first change no result."""
    rows = [Prompt(at, 0, 81, list(range(40)) if at % 2 else list(range(40, 80))) for at in range(9)]
    rows += [Prompt(9 + n, 0, 2 * n + 1, list(range(n))) for n in range(40)]
    parent = [*range(-1, 39), -1, *range(40, 79)]
    expected = _pool(parent, rows, 2)[0].replay(capacity_blocks=81, log_removals=True)
    monkeypatch.setattr(sglang, "FIRST_ROWS", 1)

    found = _pool(parent, rows, 2)[0].replay(capacity_blocks=81, log_removals=True)

    assert found.hit_blocks.tolist() == expected.hit_blocks.tolist()
    assert found.removals.chain.tolist() == expected.removals.chain.tolist()


def test_lookups_that_do_not_fit_their_pool_are_refused():
    """Arrivals that fall, keyed blocks that tokens or path lack, unknown replicas: faults of the caller."""
    with pytest.raises(InternalError, match="order of arrival"):
        _pool([-1], [Prompt(5, 0, 2, [A]), Prompt(4, 0, 2, [A])], 2)
    with pytest.raises(InternalError, match="more keyed blocks"):
        _pool([-1], [Prompt(5, 0, 1, [A])], 2)
    with pytest.raises(InternalError, match="replica that the pool lacks"):
        _pool([-1], [Prompt(5, 1, 2, [A])], 2)


@pytest.mark.parametrize(
    ("name", "file", "block_size", "rows"),
    [
        ("conv_seq_500", "mooncake_conversation.jsonl.zst", 512, None),
        ("conv_seq_2000", "mooncake_conversation.jsonl.zst", 512, None),
        ("conv_seq_10000", "mooncake_conversation.jsonl.zst", 512, None),
        ("agentic3000_seq_50000", "weka_agentic_blk64.jsonl.zst", 64, 3000),
    ],
)
def test_hits_are_those_of_the_engine(name, file, block_size, rows):
    """Every row of a golden file, and none else."""
    trace = traces.load(shared("traces") / file, block_size, rows)
    parent, last_block = traces.forest(trace)
    chains = build_chains(parent)
    paths = build_paths(chains, last_block)
    full = trace.prompt_tokens // block_size
    order = np.arange(len(full))  # the engine was driven in file order
    traffic = Traffic(order, np.zeros_like(order), trace.prompt_tokens, full, paths.offset, paths.chain)
    capacity = int(name.split("_")[-1])

    found = radix_pool(traffic, chains, block_size=block_size, replicas=1).replay(capacity_blocks=capacity)

    golden = pq.read_table(shared(f"golden/sglang_{name}.parquet"))
    assert golden["row"].to_pylist() == order.tolist()
    assert (golden["hit_tokens"].to_numpy() != found.hit_blocks * block_size).sum() == 0
