"""Times every router on a block-hash log: how long it takes to place the requests, and what the placement is worth.

    python benchmarks/routers.py                     the agentic trace beside the checkout, else a generated week
    python benchmarks/routers.py LOG --block-size 64 any log that prefixledger reads without a map

Prints a table, for one request at a time and for many that hold memory while they run: seconds to route, block lookups per
second of the replay, these rates without and with routing over those of round-robin in the same run (a ratio means the same on
another machine), token hit rate, and the busiest replica over the mean by requests and by prefill tokens.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
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
RUNS = 3
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


@dataclass(frozen=True, slots=True)
class Measured:
    """One router, one request at a time (0) and with requests that hold memory while they run (1).

    Attributes:
        name: Of the router, and what it is told.
        route_s: Seconds to place all requests.
        rate: Block lookups per second of the replay.
        whole_rate: The same with the time to place them.
        hit_rate: Token hit rate.
        load: The busiest replica over the mean, by requests and by prefill tokens.
    """

    name: str
    route_s: tuple[float, float]
    rate: tuple[float, float]
    whole_rate: tuple[float, float]
    hit_rate: tuple[float, float]
    load: tuple[float, float]

    def row(self, reference: Measured) -> str:
        """Return a line of the table; ratios are rates over those of the reference in the same run."""
        ratios = [mine / its for mine, its in zip(self.rate, reference.rate, strict=True)]
        ratios += [mine / its for mine, its in zip(self.whole_rate, reference.whole_rate, strict=True)]
        return (
            f"{self.name:28} {self.route_s[0]:8.2f} {self.route_s[1]:8.2f} {self.rate[0]:10.3g} {self.rate[1]:10.3g} "
            f"{' '.join(f'{ratio:9.2f}' for ratio in ratios)} {self.hit_rate[0]:8.4f} {self.hit_rate[1]:8.4f} "
            f"{self.load[0]:9.2f} {self.load[1]:9.2f}"
        )


def measure(
    log: Log, chains: Chains, routing: str, mode: str | None, replicas: int, capacity: int
) -> Measured:
    """Route and replay under one router in both ways; the fastest of a few runs counts, the first compiles."""
    router = "" if mode is None else f'[fleet.router]\nmode = "{mode}"'
    found, load = [], (0.0, 0.0)
    for residence in ("none", "estimated"):
        scenario = parse_scenario(
            SCENARIO.format(
                routing=routing, router=router, replicas=replicas, capacity=capacity, residence=residence
            )
        )
        route_s = replay_s = math.inf
        for _ in range(RUNS):
            start = time.perf_counter()
            (pool,) = make_plan(log, scenario, []).pools
            routed = time.perf_counter()
            run = run_pool(pool, log, chains)
            route_s, replay_s = min(route_s, routed - start), min(replay_s, time.perf_counter() - routed)
        size = pool.block_size
        lookups = int((run.log.prompt_tokens // size).sum())
        left = run.log.prompt_tokens - run.hit_blocks * size
        requests = np.bincount(run.log.replica, minlength=replicas)
        prefill = np.bincount(run.log.replica, left, minlength=replicas)
        load = (requests.max() / requests.mean(), prefill.max() / prefill.mean())
        hits = 1 - left.sum() / run.log.prompt_tokens.sum()
        found.append((route_s, lookups / replay_s, lookups / (route_s + replay_s), hits))
    columns = [tuple(pair) for pair in zip(*found, strict=True)]
    return Measured(f"{routing} {mode}" if mode else routing, *columns, load)


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
        "                                  route s          lookups/s  over round-robin: replay, with routing     hits"
        "               busiest over mean"
    )
    print(
        f"{'routing':28} {'one':>8} {'many':>8} {'one':>10} {'many':>10} {'one':>9} {'many':>9} {'one':>9} {'many':>9} "
        f"{'one':>8} {'many':>8} {'requests':>9} {'prefill':>9}"
    )
    size = (given.replicas, given.capacity_blocks)
    reference = measure(log, chains, "round-robin", None, *size)
    for routing in ROUTINGS:
        if routing == "as-logged":
            continue
        for mode in MODES.get(routing, (None,)):
            try:
                print(measure(log, chains, routing, mode, *size).row(reference), flush=True)
            except UsageError as refused:
                print(f"{routing:28} {refused.message}")


if __name__ == "__main__":
    main()
