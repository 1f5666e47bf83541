"""Measures prefixledger beside what a user would take instead, and its cost against size: ``make bench``.

    python benchmarks/run.py                        three logs, four sizes: some 15 minutes on two idle cores
    python benchmarks/run.py --week 100000          a shorter week, and sizes up to it: 5 minutes
    python benchmarks/run.py --write                puts the table into benchmarks/README.md, too

Logs: the agentic and the conversation trace beside the checkout, and a generated week of sessions over shared prefixes. Every
figure comes from a process of its own, one after the other; seconds are of the processor, so that a busy machine changes them
little; peak memory is what the operating system saw. Compare within a run. Writes out/benchmark.json and out/benchmark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard
from replays import AGENTIC, ROOT, TRACES
from week import BLOCK_SIZE, CAPACITY_BLOCKS, write_log

if TYPE_CHECKING:
    from collections.abc import Callable

RIVALS = ("libcachesim", "ordered-dict", "kvcache-simulator")
SHARES = (8, 4, 2, 1)
README, BEGIN, END = ROOT / "benchmarks" / "README.md", "<!-- the table of one run -->", "<!-- its end -->"
TITLES = {
    "ingest": "ingest, one process",
    "duckdb": "DuckDB reads the same columns, one thread",
    "replay": "replay, vLLM's rules",
    "libcachesim": "libCacheSim, LRU",
    "ordered-dict": "OrderedDict, LRU",
    "kvcache-simulator": "kvcache-simulator, LRU, its core alone; hits of the last half",
    "report": "report, from the log to HTML",
}


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Do something in a process of its own: the peak of this one would be that of every smaller task that it starts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measured(task: str, log: Path, folder: Path, block_size: int, capacity: int) -> dict[str, Any]:
    """Run a task and return what it found, with ``peak_bytes`` of its largest process, or ``failed``."""
    command = [sys.executable, str(ROOT / "benchmarks" / "tasks.py"), task, log, folder, block_size, capacity]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            lines = err.read().strip().splitlines() or [f"exit {child.returncode}"]
            return {"failed": lines[-1]}
        found: dict[str, Any] = json.loads(out.read().strip().splitlines()[-1])
    return {**found, "peak_bytes": usage.ru_maxrss * 1024}


def logs(folder: Path, week: int, wanted: list[str]) -> list[tuple[str, Path, int, int]]:
    """Return name, unpacked file, block size and capacity of each wanted log that is there."""
    found = []
    for name, packed, block_size, capacity in (
        ("agentic", AGENTIC, 64, 200_000),
        ("conversation", TRACES / "mooncake_conversation.jsonl.zst", 512, 16_384),
    ):
        if name in wanted and packed.exists():
            path = folder / f"{name}.jsonl"
            with packed.open("rb") as source, path.open("wb") as out:
                zstandard.ZstdDecompressor(max_window_size=1 << 31).copy_stream(source, out)
            found.append((f"{name} ({packed.name})", path, block_size, capacity))
    if "week" in wanted:
        path = folder / "week.jsonl"
        write_log(path, week)
        found.append((f"a generated week of {week:,} requests", path, BLOCK_SIZE, CAPACITY_BLOCKS))
    return found


def warm_up(folder: Path) -> None:
    """Compile the kernels, which would be counted as the first report's."""
    apart(write_log, folder / "warm.jsonl", 2_000)
    measured("report", folder / "warm.jsonl", folder, BLOCK_SIZE, CAPACITY_BLOCKS)


def compared(log: Path, folder: Path, block_size: int, capacity: int) -> dict[str, Any]:
    """Measure every task on one log."""
    folder.mkdir()
    found = {task: measured(task, log, folder, block_size, capacity) for task in TITLES}
    ours, read = found["ingest"], found["duckdb"]
    ratios = {"ingest_speed_of_duckdb": read["seconds"] / ours["seconds"]}
    for rival in RIVALS:
        if "seconds" in found[rival]:
            ratios[f"replay_times_{rival}"] = found[rival]["seconds"] / found["replay"]["seconds"]
    return {"tasks": found, "ratios": ratios}


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Return the slope of cost against size on logarithmic axes: 1 is linear."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def scaled(largest: int, folder: Path) -> dict[str, Any]:
    """Make reports of weeks of four sizes."""
    rows = []
    for share in SHARES:
        log = folder / "size.jsonl"
        apart(write_log, log, largest // share)
        found = measured("report", log, folder, BLOCK_SIZE, CAPACITY_BLOCKS)
        rows.append({"requests": largest // share, **found})
        print(json.dumps(rows[-1]), flush=True)
    sizes = [row["requests"] for row in rows]
    figures: dict[str, Any] = {"sizes": rows}
    for name, key in (("time", "seconds"), ("memory", "peak_bytes")):
        costs = [row[key] for row in rows]
        figures[f"{name}_exponent"] = exponent(sizes, costs)
        figures[f"{name}_exponent_of_last_doubling"] = exponent(sizes[-2:], costs[-2:])
    return figures


def table(figures: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    machine = figures["machine"]
    when = f"{machine['date']}, {machine['cores']} cores, {machine['processor']}, Python {machine['python']}"
    load = f"load {machine['load_before']} before and {machine['load_after']} after"
    out = [f"{when}, {load}. Seconds of the processor; MiB at the peak.\n"]
    for name, found in figures["logs"].items():
        tasks, rows = found["tasks"], found["tasks"]["replay"]["rows"]
        out.append(
            f"**{name}**, replays over its first {rows:,} requests, {tasks['replay']['accesses']:,} blocks\n"
        )
        out.append("| | CPU s | MiB | hit rate | ratio |\n|---|---:|---:|---:|---:|")
        for task, title in TITLES.items():
            one = tasks[task]
            if "failed" in one:
                out.append(f"| {title} | failed: {one['failed']} | | | |")
                continue
            hits = f"{100 * one['hit_rate']:.2f} %" if "hit_rate" in one else ""
            ratio = found["ratios"].get(f"replay_times_{task}")
            shown = f"{ratio:,.0f} times the replay" if ratio else ""
            if task == "ingest":
                shown = f"{found['ratios']['ingest_speed_of_duckdb']:.2f} of the speed of DuckDB"
            out.append(
                f"| {title} | {one['seconds']:.3g} | {one['peak_bytes'] / 2**20:,.0f} | {hits} | {shown} |"
            )
        out.append("")
    scale = figures["scale"]
    out.append("| requests | log MB | report, CPU s | µs a request | peak MiB |\n|---:|---:|---:|---:|---:|")
    for row in scale["sizes"]:
        each = 1e6 * row["seconds"] / row["requests"]
        out.append(
            f"| {row['requests']:,} | {row['log_bytes'] / 1e6:.0f} | {row['seconds']:.1f} | {each:.0f} | {row['peak_bytes'] / 2**20:,.0f} |"
        )
    for name in ("time", "memory"):
        fit, last = scale[f"{name}_exponent"], scale[f"{name}_exponent_of_last_doubling"]
        out.append(
            f"\n{name.capitalize()} grows with the power {fit:.2f} of the size, {last:.2f} in the last doubling."
        )
    return "\n".join(out) + "\n"


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--week", type=int, default=1_000_000, help="requests of the generated week")
    parser.add_argument(
        "--logs", default="agentic,conversation,week", help="those of the three that are measured"
    )
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "benchmark.json")
    given = parser.parse_args()
    processor = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    machine = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count(),
        "processor": processor,
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 1),
    }
    figures: dict[str, Any] = {"machine": machine, "logs": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm_up(folder)
        for number, (title, log, block_size, capacity) in enumerate(
            apart(logs, folder, given.week, given.logs.split(","))
        ):
            figures["logs"][title] = compared(log, folder / str(number), block_size, capacity)
            print(json.dumps({title: figures["logs"][title]}), flush=True)
            log.unlink()
        figures["scale"] = scaled(given.week, folder)
    machine["load_after"] = round(os.getloadavg()[0], 1)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    text = table(figures)
    given.output.with_suffix(".md").write_text(text, encoding="utf-8")
    if given.write:
        whole = README.read_text(encoding="utf-8")
        before, after = whole.split(BEGIN)[0], whole.split(END)[1]
        README.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
    print("\n" + text, end="")


if __name__ == "__main__":
    main()
