"""What benchmarks share: a log as a user would replay it with other tools, and clocks."""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT.parent / "shared" / "traces"
AGENTIC = TRACES / "weka_agentic_blk64.jsonl.zst"
MOST_ACCESSES = 10_000_000  # an OrderedDict takes 0.4 s for a million


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


def cpu(work: Callable[[], Any], runs: int = 1) -> tuple[float, Any]:
    """Return the fewest processor seconds of some runs in this process, all threads, and the last result."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


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


def libcachesim_lru(
    blocks: np.ndarray, capacity: int, folder: Path, clock: Callable[[Callable[[], Any]], Any] = timed
) -> tuple[float, float]:
    """Return seconds and hit ratio of libCacheSim's LRU over the accesses."""
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
    seconds, (miss_ratio, _) = clock(lambda: cache.process_trace(reader))
    return seconds, 1.0 - float(miss_ratio)


def ordered_dict_lru(blocks: list[int], capacity: int) -> int:
    """Replay accesses through an OrderedDict, which is what a notebook would do; return the hits."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for block in blocks:
        if block in cache:
            hits += 1
            cache.move_to_end(block)
        else:
            cache[block] = None
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits


def duckdb_reads(log: Path) -> Any:
    """Let DuckDB read the columns that ingest needs, with one thread, and touch every value."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        return connection.execute(
            "SELECT count(*), sum(timestamp), sum(input_length), sum(output_length), sum(list_sum(hash_ids)) FROM read_json(?, "
            "format = 'newline_delimited', columns = {timestamp: 'BIGINT', input_length: 'BIGINT', output_length: 'BIGINT', "
            "hash_ids: 'BIGINT[]'})",
            [str(log)],
        ).fetchone()
