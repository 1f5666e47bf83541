from __future__ import annotations

import random
from collections import Counter

import pytest

from prefixledger.attribute.noise import draw_noise
from prefixledger.attribute.trial import Trials
from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.replay.prepared import prepared
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log


def _rows(count):
    """Prompts over two replicas that share beginnings, some of them whole blocks, some longer."""
    rng = random.Random(7)
    stems = [[10 * n + d for d in range(rng.randint(2, 6))] for n in range(9)]
    return [
        {
            "at_us": n * SECOND,
            "ids": (ids := [*rng.choice(stems)[: rng.randint(1, 6)], *([1000 + n] if n % 3 else [])]),
            "replica": f"r{n % 2}",
            "prompt_tokens": 16 * len(ids) + rng.choice([0, 3]),
        }
        for n in range(count)
    ]


def _replayed(count=120, **cache):
    files, summary = replay_log(make_log(_rows(count)), Scenario(pool=(Pool(cache=Cache(**cache)),)), ())
    tables = {name: files[f"{name}.parquet"].to_pylist() for name in ("capacity_curve", "capacity_marks")}
    return tables, {rung.rung: rung.hit_tokens for rung in summary.pools[0].ladder}


@pytest.mark.parametrize("profile", ["vllm", "sglang"])
@pytest.mark.parametrize("ttl", ["none", "20s"])
def test_the_bound_parts_what_the_ladder_loses_to_capacity(profile, ttl):
    """Today's capacity is a point; there the curve is the last rung, its end the rung above, and the bound lies between."""
    tables, rungs = _replayed(profile=profile, capacity="14 blocks", ttl=ttl)
    curve = tables["capacity_curve"]
    (today,) = [point for point in curve if point["capacity_blocks"] == 14]
    assert today["hit_tokens"] == rungs["capacity"] < today["clairvoyant_tokens"] < rungs["ttl"]
    assert curve[-1]["hit_tokens"] == curve[-1]["clairvoyant_tokens"] == rungs["ttl"]
    known = [point for point in curve if point["clairvoyant_tokens"] is not None]
    assert all(point["hit_tokens"] <= point["clairvoyant_tokens"] for point in known)


def test_marks_are_the_smallest_capacities():
    """One block less hits less than the share."""
    tables, _ = _replayed(60, profile="vllm")
    hits = {point["capacity_blocks"]: point["hit_tokens"] for point in tables["capacity_curve"]}
    first, last = min(hits), max(hits)
    assert len(hits) == last - first + 1  # so few that none is thinned out
    targets = tables["capacity_marks"]
    for mark in targets:
        at = mark["capacity_blocks"]
        assert hits[at] == mark["hit_tokens"] >= mark["share"] * hits[last]
        assert at == first or hits[at - 1] < mark["share"] * hits[last]
    assert [mark["share"] for mark in targets] == [0.5, 0.8, 0.9, 0.95, 0.99, 1.0]


def test_a_log_without_reuse_has_no_marks():
    """Nothing hits at any capacity, so there is no share to reach."""
    rows = [{"at_us": n * SECOND, "ids": [n]} for n in range(4)]
    files, _ = replay_log(make_log(rows), Scenario(), ())
    assert len(files["capacity_marks.parquet"]) == 0


def test_what_is_evicted_was_used_last_before():
    """Block by block: the last lookup of the replica, before the one that took its room, whose prompt holds the deepest."""
    log = make_log(_rows(120))
    files, _ = replay_log(log, Scenario(pool=(Pool(cache=Cache(profile="vllm", capacity="14 blocks")),)), ())
    facts, rows = files["lookup_facts.parquet"].to_pylist(), files["removals.parquet"].to_pylist()
    last_block, parent = log.lookups.last_block.tolist(), log.forest.parent.tolist()
    assert len(rows) > 50
    for row in rows:
        used = -1
        for earlier in range(row["lookup"]):
            block = last_block[earlier]
            while facts[earlier]["replica"] == row["replica"] and block >= 0:
                if block == row["last_block"]:
                    used = earlier
                block = parent[block]
        assert row["last_used_at"] == facts[used]["admitted_at"]
        assert row["tokens"] == 16 * row["n_blocks"]


def test_uses_and_gaps_are_those_of_single_blocks():
    """How often each block is used on each replica, and an even sample of the gaps of what could hit."""
    log = make_log(_rows(120))
    files, _ = replay_log(log, Scenario(), ())
    facts = files["lookup_facts.parquet"].to_pylist()
    uses, gaps = Counter(), []
    last_use = {}
    parent = log.forest.parent.tolist()
    for lookup, last in enumerate(log.lookups.last_block.tolist()):
        block, depth = last, log.lookups.n_blocks[lookup]
        while block >= 0:
            at = (facts[lookup]["replica"], block)
            if at in last_use and depth <= facts[lookup]["cap_blocks"]:
                gaps.append((lookup - last_use[at]) * SECOND)
            last_use[at] = lookup
            uses[at] += 1
            block, depth = parent[block], depth - 1
    reuse = {row["uses"]: row["blocks"] for row in files["reuse.parquet"].to_pylist()}
    assert reuse == Counter(uses.values())
    assert len(gaps) < 1000  # so all are in the sample
    assert files["gaps.parquet"]["gap_us"].to_pylist() == sorted(gaps)


def test_curves_of_parts_are_those_of_their_lookups():
    """Replicas and prefixes sum to the pool's hits at a size that all points of theirs have, the last; pooled hits no less."""
    files, summary = replay_log(make_log(_rows(120)), Scenario(), ())
    rungs = {rung.rung: rung.hit_tokens for rung in summary.pools[0].ladder}
    last = {}
    for row in files["curve_parts.parquet"].to_pylist():
        last[row["kind"], row["axis"], row["name"]] = row["hit_tokens"]
        assert 0 <= row["hit_tokens"] <= row["prompt_tokens"]
    for axis in ("capacity", "ttl"):
        sums = Counter()
        for (kind, at, _), hits in last.items():
            sums[kind] += hits if at == axis else 0
        assert sums["replica"] == rungs["per_replica"]
        assert sums["pooled"] == rungs["pooled"]
        assert 0 < sums["prefix"] <= rungs["per_replica"]


@pytest.mark.parametrize("ttl", ["none", "20s"])
def test_the_surface_is_a_replay_at_every_point(ttl):
    """Hits under each capacity and time to live together, today's among them; more of either never hits less."""
    log = make_log([{**row, "at_us": 9 * row["at_us"]} for row in _rows(120)])
    scenario = Scenario(pool=(Pool(cache=Cache(capacity="14 blocks", ttl=ttl)),))
    files, _ = replay_log(log, scenario, ())
    rows = files["curve_surface.parquet"].to_pylist()
    trials = Trials(prepared(log), draw_noise(log))
    for row in rows:
        life = "none" if row["ttl_us"] is None else f"{row['ttl_us'] // SECOND}s"
        cache = Cache(capacity=f"{row['capacity_blocks']} blocks", ttl=life)
        one = trials.run(Scenario(pool=(Pool(cache=cache),)), causes=False)
        assert one.by_arrival("hit_tokens").sum() == row["hit_tokens"]
    lives = list(dict.fromkeys(row["ttl_us"] for row in rows))
    sizes = {row["capacity_blocks"] for row in rows}
    assert len(rows) == len(lives) * len(sizes)
    assert lives == [*([] if ttl == "none" else [20 * SECOND]), 60 * SECOND, 300 * SECOND, None]
    assert 14 in sizes
    assert len({row["hit_tokens"] for row in rows}) > 10
