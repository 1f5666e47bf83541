"""Times every router on a block-hash log: how long it takes to place the requests, and what the placement is worth.

    python benchmarks/routers.py                     the agentic trace beside the checkout, else a generated week
    python benchmarks/routers.py LOG --block-size 64 any log that prefixledger reads without a map

Prints a table: seconds to route, to replay one request at a time and concurrently, block lookups per second of routing
and replay together, token hit rate, and the busiest replica over the mean by requests and by prefill tokens.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prefixledger import index, ingest
from prefixledger.config.registry import ROUTINGS
from prefixledger.config.scenario import parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay.chains import build_chains
from prefixledger.replay.lookups import Log, read_lookups, read_rows
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.samples import generator
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from prefixledger.replay.chains import Chains

ROOT = Path(__file__).resolve().parents[1]
AGENTIC = ROOT.parent / "shared" / "traces" / "weka_agentic_blk64.jsonl.zst"
SCENARIO = """
[cache]
capacity = "{capacity} blocks"
[fleet]
routing = "{routing}"
replicas = {replicas}
{router}
[in_flight]
residence = "{residence}"
output = "ignore"
prefill_ms_per_token = 0.02
decode_ms_per_token = 10
"""
MODES = {"kv-aware": ("approximate", "exact"), "llm-d-prefix": ("approximate", "precise")}
"""Routers that can be told what the caches hold, beside what they sent themselves."""


def read(folder: Path, log: Path, block_size: int, map_file: Path | None) -> Log:
    """Ingest and index a log, and load what a replay reads."""
    workspace = Workspace(folder / "workspace")
    ingest.run(
        [str(log)],
        workspace,
        ingest.IngestOptions(block_size=None if map_file else block_size, map_file=map_file, jobs=1),
    )
    index.update(workspace)
    loaded = index.load(workspace)
    rows = read_rows(loaded.requests)
    return Log(rows, read_lookups(rows), loaded.forest)


def line(log: Log, chains: Chains, routing: str, mode: str | None, replicas: int, capacity: int) -> str:
    """Route and replay under one router, the second of two runs, and return its row of the table."""
    seconds = {}
    run = None
    router = "" if mode is None else f'[fleet.router]\nmode = "{mode}"'
    for residence in ("estimated", "none"):
        scenario = parse_scenario(
            SCENARIO.format(
                routing=routing, router=router, replicas=replicas, capacity=capacity, residence=residence
            )
        )
        for _ in range(2):
            start = time.perf_counter()
            (pool,) = make_plan(log, scenario, []).pools
            routed = time.perf_counter()
            run = run_pool(pool, log, chains)
            seconds[residence] = (routed - start, time.perf_counter() - routed)
    assert run is not None
    size = run.plan.block_size
    left = run.log.prompt_tokens - run.hit_blocks * size
    load = [
        counts.max() / counts.mean()
        for counts in (
            np.bincount(run.log.replica, minlength=replicas),
            np.bincount(run.log.replica, left, minlength=replicas),
        )
    ]
    lookups = int((run.log.prompt_tokens // size).sum())
    rate = lookups / sum(seconds["none"])
    hits = 1 - left.sum() / run.log.prompt_tokens.sum()
    return (
        f"{f'{routing} {mode}' if mode else routing:26} {seconds['none'][0]:8.2f} {seconds['none'][1]:9.3f} {seconds['estimated'][1]:10.3f} {rate:12.3g} "
        f"{hits:8.4f} {load[0]:9.2f} {load[1]:9.2f}"
    )


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--capacity-blocks", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path, map_file = given.log or AGENTIC, None
        if not path.exists():
            path = generator("story").write(Path(name) / "story.jsonl")
            map_file = ROOT / "sample_traces" / "story.map.toml"
        log = read(Path(name), path, given.block_size, map_file)
    chains = build_chains(log.forest.parent)
    print(f"{len(log.lookups)} requests, {given.replicas} replicas of {given.capacity_blocks} blocks")
    print(
        f"{'routing':26} {'route s':>8} {'replay s':>9} {'concurr. s':>10} {'lookups/s':>12} {'hits':>8} {'requests':>9} "
        f"{'prefill':>9}"
    )
    for routing in ROUTINGS:
        if routing == "as-logged":
            continue
        for mode in MODES.get(routing, (None,)):
            try:
                print(line(log, chains, routing, mode, given.replicas, given.capacity_blocks))
            except UsageError as refused:
                print(f"{routing:26} {refused.message}")


if __name__ == "__main__":
    main()
