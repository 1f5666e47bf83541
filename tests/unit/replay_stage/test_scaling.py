"""Fleets that change: what a router sends elsewhere once replicas were added, and whose cache a split service has."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pyarrow.parquet as pq
import pytest

from prefixledger import api
from prefixledger.config.scenario import load_scenario, parse_scenario
from prefixledger.replay.chains import build_chains
from prefixledger.replay.named_events import name_events
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.samples import generator
from stage_support import SECOND, make_log, with_real_keys
from support import ROOT

PREFIXES = 900
TOLD = re.compile(r"scaled from (\d+) to (\d+) replicas, (\d+) of (\d+) prefixes")


def _rows():
    """Return 900 prefixes of 16 blocks, each asked twice before the fleet grows and twice after."""
    return [
        {
            "at_us": (n + 1) * SECOND,
            "ids": [*(1000 * (n % PREFIXES) + k for k in range(16)), 10_000_000 + n],
            "finished_at": (n + 2) * SECOND,
        }
        for n in range(4 * PREFIXES)
    ]


@pytest.mark.parametrize(
    ("routing", "moved"), [("consistent-hash", 1 / 9), ("prefix-hash", 8 / 9)], ids=["ring", "modulo"]
)
def test_a_ring_keeps_its_keys_when_the_fleet_grows_and_modulo_loses_nearly_all(routing, moved):
    """From 8 to 9 replicas by an event: what moves is told, and it is what the first requests after it miss."""
    log = with_real_keys(make_log(_rows()))
    scenario = parse_scenario(
        f'[fleet]\nrouting = "{routing}"\nreplicas = 8\n[in_flight]\nresidence = "none"\n'
        f"[[event]]\nat = {datetime.fromtimestamp(2 * PREFIXES + 0.5).astimezone().isoformat()}\n"
        'kind = "scale"\nreplicas = 9\n'
    )
    plan = make_plan(log, scenario, name_events(scenario, ()))
    (found,) = [TOLD.search(note) for note in plan.notes if TOLD.search(note)]
    before, after, gone, known = map(int, found.groups())
    assert (before, after, known) == (8, 9, PREFIXES)
    assert gone / known == pytest.approx(moved, abs=0.05)
    (pool,) = plan.pools
    run = run_pool(pool, log, build_chains(log.forest.parent))
    first_after = run.hit_blocks[2 * PREFIXES : 3 * PREFIXES]
    assert int((first_after == 0).sum()) == gone
    assert (run.hit_blocks[3 * PREFIXES :] >= 16).all()
    if routing == "consistent-hash":
        old, new = (pool.replica[part * PREFIXES : (part + 1) * PREFIXES] for part in (1, 2))
        assert {pool.fleet.replicas[r].name for r in new[old != new]} == {"r8"}


def test_the_scale_out_sample_tells_what_moves():
    """The shipped scenario on three days of a small story: a fifth of the prefixes under the ring, most under modulo."""
    story = generator("story")
    rows = [
        {
            "at_us": round(datetime.fromisoformat(row["ts"]).timestamp() * 1e6),
            "ids": row["hash_ids"],
            "block_size": story.BLOCK_TOKENS,
            "prompt_tokens": row["in"],
            "provider": "vllm",
            "finished_at": round(datetime.fromisoformat(row["ts"]).timestamp() * 1e6) + row["ms"] * 1000,
        }
        for row in story.rows(story.Story(tenants=60, requests_per_day=900, days=2, hosted_every=1000))
    ]
    log = with_real_keys(make_log(rows))
    ring = load_scenario(ROOT / "sample_traces" / "scale-out.scenario.toml")
    own = ring.pool[0]
    modulo = own.model_copy(update={"fleet": own.fleet.model_copy(update={"routing": "prefix-hash"})})
    shares = {}
    for scenario in (ring, ring.model_copy(update={"pool": (modulo, *ring.pool[1:])})):
        notes = make_plan(log, scenario, name_events(scenario, ())).notes
        (found,) = [TOLD.search(note) for note in notes if TOLD.search(note)]
        assert found.groups()[:2] == ("4", "5")
        shares[scenario.pool[0].fleet.routing] = int(found[3]) / int(found[4])
    assert 0.05 < shares["consistent-hash"] < 0.45
    assert shares["prefix-hash"] > 0.6


def test_the_prefill_worker_is_the_cache_of_a_split_service(tmp_path):
    """One prefix: hit wherever the prefill worker is the same, missed where only the decode worker is."""
    asked, start = [(7, 9), (7, 10), (8, 9), (8, 10), (7, 9)], 1_760_000_000_000
    path = tmp_path / "trace.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for n, (prefill, decode) in enumerate(asked):
            hashes = [11, 12, 13, 14, 500 + n]
            worker = {"prefill_worker_id": prefill, "prefill_dp_rank": 0, "decode_worker_id": decode}
            request = {
                "request_id": f"q{n}",
                "input_tokens": 69,
                "request_received_ms": start + 1000 * n,
                "worker": {**worker, "decode_dp_rank": 0},
                "replay": {"trace_block_size": 16, "input_length": 69, "input_sequence_hashes": hashes},
            }
            line = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "request": request}
            out.write(json.dumps({**line, "event_time_unix_ms": start + 1000 * n + 500}) + "\n")
    found = api.replay([path], workspace=tmp_path / "ws", jobs=1).replays[0]
    rows = pq.read_table(found.folder / "lookups.parquet").sort_by("request_id").to_pylist()
    assert [row["replica"] for row in rows] == ["7/dp0", "7/dp0", "8/dp0", "8/dp0", "7/dp0"]
    assert [row["hit_tokens"] for row in rows] == [0, 64, 0, 64, 64]
    assert rows[2]["miss_misrouted_tokens"] == 64
    assert found.pools[0].replicas == ("7/dp0", "8/dp0")
