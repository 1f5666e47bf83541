"""Caches that are asked while requests are being routed: they hold what a replay of the requests routed so far leaves."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.replay import live_caches
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Output, Resets, Traffic, replay_extents
from prefixledger.replay.extents_kernel import NEVER
from prefixledger.replay.live_caches import LiveCaches
from twins.forests import random_log
from twins.vllm_blocks import Twin

REPLICAS = 3


def _inputs(log, *, in_line=False):
    """Return what both replays are given, and the chains."""
    chains = build_chains(np.array(log.parent, np.int64))
    paths = build_paths(chains, log.last_blocks())

    def column(field):
        return np.array([getattr(row, field) for row in log.rows], np.int64)

    traffic = Traffic(
        arrival_us=column("arrival"),
        replica=np.zeros(len(log.rows), np.int32),
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
    rules = {
        "block_size": log.block,
        "replicas": REPLICAS,
        "capacity_blocks": log.capacity,
        "ttl_us": None if log.ttl < 0 else log.ttl,
        "output": None if log.output == "ignore" else Output(log.output, column("output"), keyed),
        "resets": Resets(np.array(at, np.int64), np.array(replica, np.int32), np.array(force, np.bool_)),
        "hit_saves_us": log.hit_saves_us,
        "unhashed_in_line": in_line,
    }
    return traffic, chains.chain_length, rules


def _routed_at(log, rng, latest):
    """Draw when each row is routed, at its arrival or before; rows that arrive together are routed in their order."""
    at = []
    for number, row in enumerate(log.rows):
        drawn = row.arrival - rng.randint(0, latest)
        if number and log.rows[number - 1].arrival == row.arrival:
            drawn = max(drawn, at[-1])
        at.append(drawn)
    return at


def _assert_live(log, rng, *, latest, lag=0, in_line=False):
    """Route by what is held a while ago, with detours; compare with the twin at every arrival and with the usual replay at the end."""
    traffic, lengths, rules = _inputs(log, in_line=in_line)
    live = LiveCaches(traffic, lengths, **rules)
    routed_at = _routed_at(log, rng, latest)
    chosen = np.full(len(log.rows), -1, np.int32)
    seen = Counter()
    for row in sorted(range(len(log.rows)), key=lambda number: (routed_at[number], number)):
        live.advance(routed_at[row] - lag)
        held = live.resident(row).tolist()
        placed = [replace(each, replica=int(chosen[n])) for n, each in enumerate(log.rows) if chosen[n] >= 0]
        twin = Twin(
            placed, log.block, log.capacity, REPLICAS, log.ttl, log.output, log.hit_saves_us, log.resets
        )
        twin.until, twin.in_line = routed_at[row] - lag, in_line
        twin.run()
        assert held == twin.held(log.rows[row])
        seen["uneven"] += len(set(held)) > 1
        chosen[row] = held.index(max(held)) if rng.random() < 0.6 else rng.randrange(REPLICAS)
        live.place(row, int(chosen[row]))
    live.advance(NEVER)

    found = replay_extents(replace(traffic, replica=chosen), lengths, **rules)

    for name in ("hit_blocks", "admitted_us", "finished_us", "refused", "preempted", "recompute_tokens"):
        assert getattr(live.found, name).tolist() == getattr(found, name).tolist(), name
    assert live.found.first_eviction_us.tolist() == found.first_eviction_us.tolist()
    seen["hit"] += int(found.hit_blocks.sum())
    seen["preempted"] += int(found.preempted.sum())
    seen["waits"] += int((found.admitted_us > traffic.arrival_us).sum())
    return seen


@settings(deadline=None, max_examples=40)
@given(rng=st.randoms(use_true_random=False))
def test_live_caches_hold_what_a_replay_of_those_routed_so_far_leaves(rng):
    """At every arrival the blocks of the twin, whatever the residence, output, TTL and resets; the same hits in the end."""
    _assert_live(random_log(rng, longest=12), rng, latest=rng.choice([0, 0, 4]), lag=rng.choice([0, 0, 3]))


@pytest.mark.parametrize("output", ["ignore", "at_release", "as_decoded"])
def test_live_caches_under_pressure(output):
    """The same on longer logs, most of which wait and evict; some are routed before others that are admitted earlier."""
    seen = Counter()
    for seed in range(60):
        rng = random.Random(seed)
        log = random_log(rng, output=output, longest=25)
        for row in log.rows if seed % 4 == 0 else ():
            row.bypassed = rng.random() < 0.3
        seen += _assert_live(log, rng, latest=seed % 3 * 3, lag=seed % 5, in_line=seed % 7 == 0)
    assert min(seen[name] for name in ("uneven", "hit", "waits")) > 40, seen
    assert seen["preempted"] > 10 or output != "as_decoded", seen


def test_live_caches_where_a_copy_expires_before_its_children():
    """With a TTL the copy of a request that skipped its lookup can leave a hole above what others still use."""
    rng = random.Random(104776)
    log = random_log(rng, longest=30)
    for row in log.rows:
        row.bypassed = rng.random() < 0.3
    assert [rng.choice([0, 0, 5]), rng.choice([0, 0, 4])] == [0, 4]
    _assert_live(log, rng, latest=0, lag=4)


def test_tables_that_run_full_are_enlarged_in_between(monkeypatch):
    """Tables of two rows for a start: whoever was placed goes through again, and nothing else changes."""
    monkeypatch.setattr(live_caches, "FIRST_ROWS", 2)
    for seed in range(20):
        rng = random.Random(seed)
        log = random_log(rng, longest=25)
        _assert_live(log, rng, latest=0)
