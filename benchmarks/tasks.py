"""One measurement, in a process of its own: ``python benchmarks/tasks.py TASK LOG FOLDER BLOCK_SIZE CAPACITY``.

Prints what it found as JSON. Seconds are of the processor: of the work alone, without imports. Who starts it reads its peak
memory from the operating system.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from replays import MOST_ACCESSES, accesses, cpu, duckdb_reads, libcachesim_lru, ordered_dict_lru

from prefixledger import api, index, ingest
from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Case:
    """A log, a folder for what is made of it, and a cache."""

    log: Path
    folder: Path
    block_size: int
    capacity: int

    @property
    def workspace(self) -> Workspace:
        """The workspace that ``ingest`` leaves for the replays."""
        return Workspace(self.folder / "workspace")


def ingest_log(case: Case) -> dict[str, Any]:
    """Read the log twice with one process, the first time to load kernels, and index it."""

    def read() -> None:
        shutil.rmtree(case.workspace.root, ignore_errors=True)
        ingest.run([str(case.log)], case.workspace, ingest.IngestOptions(block_size=case.block_size, jobs=1))

    seconds, _ = cpu(read, 2)
    index_s, _ = cpu(lambda: index.update(case.workspace))
    return {"seconds": seconds, "index_s": index_s, "log_bytes": case.log.stat().st_size}


def duckdb(case: Case) -> dict[str, Any]:
    """Let DuckDB read the same columns."""
    seconds, found = cpu(lambda: duckdb_reads(case.log), 3)
    return {"seconds": seconds, "requests": found[0]}


def _first_rows(case: Case) -> tuple[Any, np.ndarray, np.ndarray, int]:
    """Return the index, the last block of each row, the first accesses, and the rows that make them."""
    loaded = index.load(case.workspace)
    last = loaded.last_block()
    blocks, rows = accesses(loaded.forest.parent, last, MOST_ACCESSES)
    return loaded, last, blocks, rows


def replay(case: Case) -> dict[str, Any]:
    """Replay the first rows under vLLM's rules."""
    loaded, last, blocks, rows = _first_rows(case)
    prompt = loaded.requests["prompt_tokens"].to_numpy().astype(np.int64)[:rows]
    chains = build_chains(loaded.forest.parent)
    paths = build_paths(chains, last[:rows])
    traffic = Traffic(
        np.arange(rows, dtype=np.int64), np.zeros(rows, np.int32), prompt, prompt // case.block_size, paths.offset, paths.chain
    )  # fmt: skip

    def run() -> Any:
        return replay_extents(
            traffic,
            chains.chain_length,
            block_size=case.block_size,
            replicas=1,
            capacity_blocks=case.capacity,
        )

    run()
    seconds, done = cpu(run, 5)
    return {
        "seconds": seconds,
        "rows": rows,
        "accesses": len(blocks),
        "hit_rate": int(done.hit_blocks.sum()) / len(blocks),
    }


def libcachesim(case: Case) -> dict[str, Any]:
    """Replay the same accesses with libCacheSim's LRU."""
    blocks = _first_rows(case)[2]
    seconds, hit_rate = libcachesim_lru(blocks, case.capacity, case.folder, cpu)
    return {"seconds": seconds, "hit_rate": hit_rate}


def ordered_dict(case: Case) -> dict[str, Any]:
    """Replay the same accesses with an OrderedDict."""
    blocks = _first_rows(case)[2].tolist()
    seconds, hits = cpu(lambda: ordered_dict_lru(blocks, case.capacity))
    return {"seconds": seconds, "hit_rate": hits / len(blocks)}


def kvcache_simulator(case: Case) -> dict[str, Any]:
    """Let kvcache-simulator read and replay the same rows: its parser in Python, then its core in C++.

    Its hit rate is that of the last half of the requests; of all it gives none while the cache fills.
    """
    from kvcache_sim.cpp_backend import ensure_cpp_simulator, run_cpp_sweep
    from kvcache_sim.trace import parse_trace_file

    rows = _first_rows(case)[3]
    ensure_cpp_simulator()
    compiled_s = _below_s()
    parse_s, trace = cpu(lambda: parse_trace_file(case.log, block_size=case.block_size, max_records=rows))
    hand_over_s, swept = cpu(
        lambda: run_cpp_sweep(trace, capacities=[case.capacity], policies=["lru"], warmup_requests=rows // 2)
    )
    (found,) = swept.results.values()
    core_s = _below_s() - compiled_s
    return {
        "seconds": core_s,
        "parse_s": parse_s + hand_over_s,
        "rows": trace.request_count,
        "hit_rate": found.hitRate,
    }


def _below_s() -> float:
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return below.ru_utime + below.ru_stime


def report(case: Case) -> dict[str, Any]:
    """Make a report of the log from its first byte, with one process."""
    cache = Cache(profile="vllm", capacity=f"{case.capacity} blocks")
    scenario = Scenario(name="s", pool=(Pool(cache=cache),))
    seconds, _ = cpu(
        lambda: api.report(
            [case.log], workspace=case.folder / "report", output=case.folder / "report.html", scenario=[scenario],
            block_size=case.block_size, jobs=1,
        )
    )  # fmt: skip
    shutil.rmtree(case.folder / "report")
    return {"seconds": seconds, "log_bytes": case.log.stat().st_size}


TASKS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "ingest": ingest_log,
    "duckdb": duckdb,
    "replay": replay,
    "libcachesim": libcachesim,
    "ordered-dict": ordered_dict,
    "kvcache-simulator": kvcache_simulator,
    "report": report,
}

if __name__ == "__main__":
    task, log, folder, block_size, capacity = sys.argv[1:]
    found = TASKS[task](Case(Path(log), Path(folder), int(block_size), int(capacity)))
    print("\n" + json.dumps(found))
