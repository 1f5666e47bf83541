"""Times all capacities at once, and libCacheSim's LRU at 20 of them, on the same accesses in the same run.

    python benchmarks/curves.py                     the agentic trace beside the checkout, else a generated week
    python benchmarks/curves.py LOG --block-size 64 any log that prefixledger reads without a map

Also times the clairvoyant bound at the same 20, and a warm what-if of 100 scenarios. Prints a table and writes
out/benchmark-curves.json. The curve is held to a replay at each of the 20 capacities before it is timed, the bound to both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from replays import AGENTIC, MOST_ACCESSES, ROOT, accesses, best_of, libcachesim_lru, timed

from prefixledger import api
from prefixledger.index import load
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.clairvoyant import clairvoyant_hits
from prefixledger.replay.curves import capacity_curve
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.replay.touches import PoolLog, find_touches, vllm_cap_blocks
from prefixledger.samples import generator
from prefixledger.workspace import Workspace

SIZES = 20
WHATIF_CELLS = 100


def measure(workspace: Path, most: int, folder: Path) -> dict[str, Any]:
    """Hold the curve to replays, time both, and return the figures."""
    loaded = load(Workspace(workspace))
    forest, requests = loaded.forest, loaded.requests
    last_block, block_size = loaded.last_block(), int(requests["block_size"][0].as_py())
    blocks, rows = accesses(forest.parent, last_block, most)
    prompt = requests["prompt_tokens"].to_numpy().astype(np.int64)[:rows]
    keyed = requests["n_blocks"].to_numpy().astype(np.int64)[:rows]
    chains = build_chains(forest.parent)
    paths = build_paths(chains, last_block[:rows])
    log = PoolLog(
        chains=chains,
        paths=paths,
        block_size=block_size,
        replicas=1,
        admitted_us=np.arange(rows, dtype=np.int64),
        replica=np.zeros(rows, np.int32),
        prompt_tokens=prompt,
        keyed_blocks=keyed,
        cap_blocks=vllm_cap_blocks(prompt, keyed, block_size),
        refused=np.zeros(rows, np.bool_),
    )
    all_s, curve = best_of(5, lambda: capacity_curve(find_touches(log)))
    low, high = int(curve.capacity_blocks[0]), int(curve.capacity_blocks[-1])
    sizes = np.unique(np.geomspace(low, max(high, low + SIZES), SIZES).round().astype(np.int64))
    touches = find_touches(log)
    bound_s, bound = best_of(3, lambda: clairvoyant_hits(touches, sizes.tolist()))
    if (bound < curve.hits_at(sizes)).any():
        raise SystemExit("the cache hits more than the clairvoyant bound allows")
    traffic = Traffic(log.admitted_us, log.replica, prompt, keyed, paths.offset, paths.chain)
    replays_s = 0.0
    for size, hits in zip(sizes.tolist(), curve.hits_at(sizes).tolist(), strict=True):
        took_s, replayed = timed(
            lambda size=size: replay_extents(
                traffic, chains.chain_length, block_size=block_size, replicas=1, capacity_blocks=size
            )
        )
        replays_s += took_s
        if int(replayed.hit_blocks.sum()) != hits:
            raise SystemExit(
                f"the curve says {hits} hit blocks at {size}, a replay {replayed.hit_blocks.sum()}"
            )
    rival_s = sum(libcachesim_lru(blocks, size, folder)[0] for size in sizes.tolist())
    grid = [str(size) for size in np.linspace(low, high, WHATIF_CELLS // 5).astype(np.int64).tolist()]
    ttls = ["none", "1m", "5m", "30m", "1h"]
    whatif_s, found = best_of(1, lambda: api.whatif([workspace], capacity=grid, ttl=ttls))
    return {
        "requests": rows,
        "same_accesses": len(blocks),
        "capacities_with_a_bend": int(curve.capacity_blocks.size),
        "all_capacities_s": all_s,
        "libcachesim_sizes": int(sizes.size),
        "libcachesim_s": rival_s,
        "all_over_libcachesim": rival_s / all_s,
        "replays_s": replays_s,
        "clairvoyant_s": bound_s,
        "clairvoyant_over_replays": replays_s / bound_s,
        "clairvoyant_over_libcachesim": rival_s / bound_s,
        "whatif_cells": len(found.cells) - 1,
        "whatif_warm_s": whatif_s,
    }


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--most-accesses", type=int, default=MOST_ACCESSES)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "benchmark-curves.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, rules = given.log or AGENTIC, {"block_size": given.block_size}
        if not log.exists():
            log = generator("story").write(folder / "story.jsonl")
            rules = {"map": ROOT / "sample_traces" / "story.map.toml"}
        workspace = folder / "workspace"
        ingest_s, _ = timed(lambda: api.whatif([log], workspace=workspace, capacity="1000000", **rules))
        figures = {"log": log.name, "first_whatif_s": ingest_s}
        figures |= measure(workspace, given.most_accesses, folder)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:28} {value:>20,.4g}" if isinstance(value, float) else f"{name:28} {value:>20}")


if __name__ == "__main__":
    main()
