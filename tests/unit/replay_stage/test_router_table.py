"""The story under all routers: hits beside load."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from prefixledger.config.registry import ROUTINGS
from prefixledger.config.scenario import parse_scenario
from prefixledger.replay.chains import build_chains
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.samples import generator
from stage_support import make_log

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
    table = _table(make_log(rows))
    assert set(table) == set(ROUTINGS) - {"as-logged"}
    blind = [table[routing] for routing in BLIND]
    faithful = [table[routing] for routing in FAITHFUL]
    assert min(hits for hits, _ in faithful) > max(hits for hits, _ in blind) + 0.1
    assert min(uneven for _, uneven in faithful) > max(uneven for _, uneven in blind)
    assert all(min(hits for hits, _ in blind) - 0.01 <= hits <= 1 for hits, _ in table.values())
