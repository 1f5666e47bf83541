"""The story under all routers: hits beside load."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from prefixledger import api
from prefixledger.config.registry import ROUTINGS
from prefixledger.config.scenario import parse_scenario
from prefixledger.replay.chains import build_chains
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.report.ranking import melting, options_of, ranking
from prefixledger.samples import generator
from stage_support import make_log, with_real_keys
from support import ROOT

REPLICAS = 8
BLIND = {"random", "round-robin", "least-loaded"}
FAITHFUL = {"cache-aware", "llm-d-prefix", "production-stack-prefix", "ray-prefix"}


def _table(log):
    """Return hit rate, and the busiest replica over the mean by prefill tokens, for every routing."""
    chains, found = build_chains(log.forest.parent), {}
    for routing in ROUTINGS:
        if routing == "as-logged":
            continue
        scenario = parse_scenario(
            f'[cache]\ncapacity = "1500 blocks"\n[fleet]\nrouting = "{routing}"\nreplicas = {REPLICAS}\n'
        )
        (pool,) = make_plan(log, scenario, []).pools
        run = run_pool(pool, log, chains)
        left = run.log.prompt_tokens - run.hit_blocks * pool.block_size
        prefill = np.bincount(run.log.replica, left, minlength=REPLICAS)
        found[routing] = (1 - left.sum() / run.log.prompt_tokens.sum(), prefill.max() / prefill.mean())
    return found


@pytest.mark.slow
def test_affinity_wins_hits_and_loses_balance():
    """A day of the story, 80 tenants on 8 replicas: blind routers hit least and load evenly, faithful ones the reverse."""
    story = generator("story")
    rows = []
    for row in story.rows(story.Story(tenants=80, requests_per_day=15_000, replicas=REPLICAS, days=1)):
        at_us = round(datetime.fromisoformat(row["ts"]).timestamp() * 1e6)
        rows.append(
            {
                "at_us": at_us,
                "request_id": row["id"],
                "ids": row["hash_ids"],
                "block_size": story.BLOCK_TOKENS,
                "prompt_tokens": row["in"],
                "output_tokens": row["out"],
                "finished_at": at_us + row["ms"] * 1000,
                "session_id": row["session"],
            }
        )
    table = _table(with_real_keys(make_log(rows)))
    assert set(table) == set(ROUTINGS) - {"as-logged"}
    blind = [table[routing] for routing in BLIND]
    faithful = [table[routing] for routing in FAITHFUL]
    assert min(hits for hits, _ in faithful) > max(hits for hits, _ in blind) + 0.1
    assert min(uneven for _, uneven in faithful) > max(uneven for _, uneven in blind)
    assert all(min(hits for hits, _ in blind) - 0.01 <= hits <= 1 for hits, _ in table.values())


@pytest.mark.slow
def test_the_design_scenario_under_all_routers_in_one_table(tmp_path):
    """Its first day, 200 tenants on 8 replicas: hits by cause, load and words for every router; each book closes."""
    story = generator("story")
    log = story.write(tmp_path / "full.jsonl", replace(story.FULL, days=1))
    api.ingest([log], workspace=tmp_path / "ws", map=ROOT / "sample_traces" / "story.map.toml")
    scenario = ROOT / "sample_traces" / "full.scenario.toml"
    found = api.whatif([tmp_path / "ws"], scenario=scenario, routing="all", replicas=[REPLICAS])
    assert [cell.axes["routing"] for cell in found.cells] == list(ROUTINGS)
    cells = {str(cell.axes["routing"]): cell for cell in found.cells}
    for cell in cells.values():
        totals = cell.totals
        assert totals["hit_tokens"] + sum(cell.misses["by_cause"].values()) == totals["prompt_tokens"]
        assert totals["token_hit_rate_low"] <= totals["token_hit_rate"] <= totals["token_hit_rate_high"]
        assert totals["imbalance_requests"] >= 1
        assert totals["peak_in_flight"] >= 1
        assert totals["waited_s"] >= 0
    assert [name for name in ROUTINGS if cells[name].totals["seeds"] > 1] == [
        name
        for name in ROUTINGS
        if name
        not in {"as-logged", "round-robin", "prefix-hash", "session", "consistent-hash", "cache-aware"}
    ]
    # One tenant has a third of the traffic: whoever keeps it in one place melts that replica, and must look bad.
    melts = dict(zip(cells, melting(options_of(found.cells)), strict=True))
    assert melts["prefix-hash"]
    assert not any(melts[routing] for routing in BLIND)
    told = ranking(options_of(found.cells))
    assert len([text for text in told if text[0].isdigit()]) == len(cells)
    (hashed,) = [text for text in told if ". prefix-hash hits" in text]
    assert "more than random, because it takes away" in hashed
    assert "at the price of an uneven load" in hashed
    assert hashed.endswith("it melts a replica.")
