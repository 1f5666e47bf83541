"""Measures the cost of a report at four sizes, and of its parts against what a user would take instead, in one run.

    python benchmarks/scale.py                      25,000 to 200,000 requests
    python benchmarks/scale.py --largest 1000000    a week of a million requests

Seconds are of the processor, children included, so that a busy machine changes little; memory is the peak that the operating
system saw. Ingest stands beside DuckDB reading the same columns, the replay beside a plain OrderedDict. Writes out/scale.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger import index, ingest
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
SEED, BLOCK_SIZE, CAPACITY_BLOCKS = 12, 16, 20_000
WEEK_MS = 7 * 86_400_000
CHILD = """
import json, resource, sys
from prefixledger import api
from prefixledger.config.scenario import Cache, Pool, Scenario
log, folder, capacity = sys.argv[1:]
pool = Pool(cache=Cache(profile="vllm", capacity=f"{capacity} blocks"))
api.report([log], workspace=folder + "/ws", output=folder + "/week.html", scenario=[Scenario(name="s", pool=(pool,))], jobs=1)
own, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps([own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime, own.ru_maxrss * 1024]))
"""


def write_log(path: Path, requests: int) -> None:
    """Write a week of sessions over shared prefixes in the Mooncake form; distinct blocks grow with the requests."""
    draw = random.Random(SEED)
    sessions: list[list[int]] = []
    fresh = 1_000_000
    with path.open("w", encoding="utf-8") as out:
        for number in range(requests):
            if sessions and draw.random() < 0.7:
                ids = sessions[draw.randrange(max(len(sessions) - 400, 0), len(sessions))]
            else:
                ids = list(range(tenant := 1_000 * draw.randrange(20), tenant + 60))
                sessions.append(ids)
            new = draw.randrange(1, 8)
            ids += range(fresh, fresh + new)
            fresh += new
            tail = draw.randrange(BLOCK_SIZE)
            shown = ids if not tail else [*ids, fresh]
            fresh += 1
            row = {"timestamp": number * WEEK_MS // requests, "input_length": BLOCK_SIZE * len(ids) + tail,
                   "output_length": draw.randrange(1, 400), "hash_ids": shown}  # fmt: skip
            out.write(json.dumps(row) + "\n")


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of some work in this process, all threads, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


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


def ordered_dict_lru(parent: np.ndarray, last_block: np.ndarray) -> int:
    """Replay every block access through an OrderedDict, which is what a notebook would do; return the hits."""
    cache: OrderedDict[int, None] = OrderedDict()
    above, hits = parent.tolist(), 0
    for last in last_block.tolist():
        path, block = [], last
        while block >= 0:
            path.append(block)
            block = above[block]
        for block in reversed(path):
            if block in cache:
                hits += 1
                cache.move_to_end(block)
            else:
                cache[block] = None
                if len(cache) > CAPACITY_BLOCKS:
                    cache.popitem(last=False)
    return hits


def parts(log: Path, folder: Path) -> dict[str, Any]:
    """Measure ingest and replay beside what a user would take instead, on one log."""
    workspace = Workspace(folder / "parts")
    ingest.run([str(log)], Workspace(folder / "warm"), ingest.IngestOptions(block_size=BLOCK_SIZE, jobs=1))
    ingest_s, _ = cpu(
        lambda: ingest.run([str(log)], workspace, ingest.IngestOptions(block_size=BLOCK_SIZE, jobs=1))
    )
    duckdb_s, _ = cpu(lambda: duckdb_reads(log))
    index.update(workspace)
    loaded = index.load(workspace)
    last, prompt = loaded.last_block(), loaded.requests["prompt_tokens"].to_numpy().astype(np.int64)
    chains = build_chains(loaded.forest.parent)
    paths = build_paths(chains, last)
    traffic = Traffic(
        np.arange(len(prompt), dtype=np.int64), np.zeros(len(prompt), np.int32), prompt, prompt // BLOCK_SIZE,
        paths.offset, paths.chain,
    )  # fmt: skip

    def replay() -> Any:
        return replay_extents(
            traffic, chains.chain_length, block_size=BLOCK_SIZE, replicas=1, capacity_blocks=CAPACITY_BLOCKS
        )

    replay()
    replay_s, replayed = cpu(replay)
    plain_s, plain_hits = cpu(lambda: ordered_dict_lru(loaded.forest.parent, last))
    return {
        "log_bytes": log.stat().st_size,
        "ingest_s": ingest_s,
        "duckdb_reads_s": duckdb_s,
        "ingest_speed_of_duckdb": duckdb_s / ingest_s,
        "replay_s": replay_s,
        "ordered_dict_s": plain_s,
        "replay_times_ordered_dict": plain_s / replay_s,
        "hit_blocks": int(replayed.hit_blocks.sum()),
        "ordered_dict_hit_blocks": plain_hits,
    }


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=200_000)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "scale.json")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'requests':>10} {'log MB':>8} {'CPU s':>8} {'us/request':>11} {'peak MiB':>9}")
        for requests in [given.largest // share for share in (8, 4, 2, 1)]:
            log = folder / f"week{requests}_blksz_{BLOCK_SIZE}.jsonl"
            write_log(log, requests)
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(log), str(folder / str(requests)), str(CAPACITY_BLOCKS)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            seconds, peak = json.loads(done.stdout)
            rows.append(
                {"requests": requests, "bytes": log.stat().st_size, "cpu_s": seconds, "peak_bytes": peak}
            )
            print(
                f"{requests:10,} {log.stat().st_size / 1e6:8.1f} {seconds:8.1f} {1e6 * seconds / requests:11.0f} {peak / 2**20:9.0f}",
                flush=True,
            )
        figures = {"sizes": rows, "parts": parts(log, folder)}
    for key, value in figures["parts"].items():
        print(f"{key:28} {value:>14,.4g}" if isinstance(value, float) else f"{key:28} {value:>14,}")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
