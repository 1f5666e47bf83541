"""Times index and replay on a block-hash log, and libCacheSim's LRU on the same accesses in the same run.

    python benchmarks/run.py                     the agentic trace beside the checkout, else a generated week
    python benchmarks/run.py LOG --block-size 64 any log that prefixledger reads without a map

Prints a table and writes out/benchmark.json. Single figures depend on the machine; the ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger import index, ingest
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.samples import generator
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
AGENTIC = ROOT.parent / "shared" / "traces" / "weka_agentic_blk64.jsonl.zst"
CAPACITY_BLOCKS = 200_000
MOST_ACCESSES = 20_000_000  # libCacheSim reads 24 bytes an access from disk


def best_of(runs: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest wall time of several runs, and the last result; one more run warms up."""
    result = work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of one run and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def accesses(parent: np.ndarray, last_block: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """Return the blocks that the first rows look up, in order, and the number of those rows."""
    rows, total = [], 0
    for last in last_block.tolist():
        path, block = [], last
        while block >= 0:
            path.append(block)
            block = int(parent[block])
        if total + len(path) > most:
            break
        rows.append(np.array(path[::-1], np.int64))
        total += len(path)
    return np.concatenate(rows), len(rows)


def libcachesim_lru(blocks: np.ndarray, capacity: int, folder: Path) -> tuple[float, float]:
    """Return wall seconds and hit ratio of libCacheSim's LRU over the accesses."""
    import libcachesim

    layout = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records = np.zeros(len(blocks), layout)
    records["time"], records["object"], records["size"], records["next"] = 1, blocks + 1, 1, -2
    path = folder / "accesses.oracleGeneral.bin"
    records.tofile(path)
    reader = libcachesim.TraceReader(
        trace=str(path),
        trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        reader_init_params=libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    cache = libcachesim.LRU(cache_size=capacity)
    seconds, (miss_ratio, _) = timed(lambda: cache.process_trace(reader))
    return seconds, 1.0 - float(miss_ratio)


def measure(log: Path, block_size: int, folder: Path, map_file: Path | None) -> dict[str, Any]:
    """Run every stage once, the kernels several times, and return the figures."""
    workspace = Workspace(folder / "workspace")
    options = ingest.IngestOptions(block_size=None if map_file else block_size, map_file=map_file, jobs=1)
    ingest_s, _ = timed(lambda: ingest.run([str(log)], workspace, options))
    index_s, _ = timed(lambda: index.update(workspace))
    loaded = index.load(workspace)
    forest, requests = loaded.forest, loaded.requests
    last_block = requests["last_block"].fill_null(-1).to_numpy().astype(np.int64)
    prompt = requests["prompt_tokens"].to_numpy().astype(np.int64)
    lookups = int((prompt // block_size).sum())
    chain_s, (chains, paths) = best_of(
        3, lambda: (built := build_chains(forest.parent), build_paths(built, last_block))
    )

    def traffic(rows: int) -> Traffic:
        return Traffic(
            arrival_us=np.arange(rows, dtype=np.int64),
            replica=np.zeros(rows, np.int32),
            prompt_tokens=prompt[:rows],
            keyed_blocks=prompt[:rows] // block_size,
            path_offset=paths.offset[: rows + 1],
            path_chain=paths.chain,
        )

    def replay(rows: int) -> Callable[[], Any]:
        given = traffic(rows)
        return lambda: replay_extents(
            given, chains.chain_length, block_size=block_size, replicas=1, capacity_blocks=CAPACITY_BLOCKS
        )

    replay_s, replayed = best_of(7, replay(len(prompt)))
    blocks, rows = accesses(forest.parent, last_block, MOST_ACCESSES)
    part_s, part = best_of(7, replay(rows))
    rival_s, rival_ratio = libcachesim_lru(blocks, CAPACITY_BLOCKS, folder)
    return {
        "log": log.name,
        "requests": len(prompt),
        "block_lookups": lookups,
        "distinct_blocks": len(forest.parent),
        "chains": len(chains.chain_length),
        "capacity_blocks": CAPACITY_BLOCKS,
        "hit_blocks": int(replayed.hit_blocks.sum()),
        "ingest_s": ingest_s,
        "index_s": index_s,
        "chains_s": chain_s,
        "replay_s": replay_s,
        "index_lookups_per_s": lookups / (ingest_s + index_s),
        "replay_lookups_per_s": lookups / replay_s,
        "same_accesses": len(blocks),
        "same_accesses_replay_s": part_s,
        "same_accesses_hit_rate": float(part.hit_blocks.sum() / len(blocks)),
        "libcachesim_lru_s": rival_s,
        "libcachesim_lru_hit_rate": rival_ratio,
        "replay_over_libcachesim": rival_s / part_s,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "benchmark.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, map_file = given.log or AGENTIC, None
        if not log.exists():
            log = generator("story").write(folder / "story.jsonl")
            map_file = ROOT / "sample_traces" / "story.map.toml"
        figures = measure(log, given.block_size, folder, map_file)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:28} {value:>20,.4g}" if isinstance(value, float) else f"{name:28} {value:>20}")


if __name__ == "__main__":
    main()
