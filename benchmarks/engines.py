"""Measures what engines are worth: one worker against two, and Ray against this process and its own, in one run.

    python benchmarks/engines.py                     200,000 requests of token ids, 4 scenarios, a grid of 120 replays
    python benchmarks/engines.py --requests 6000     a look at it

Every engine has a process of its own, which reads the log, replays the scenarios, and runs the grid; the start of its cluster is told
apart. Compare ratios within a run: others may use the machine, too. Processor seconds stay what they are then: from those of
the tasks and of the process that asks for them follows what two workers could gain at most. What is left behind is compared
byte for byte. Writes out/engines.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEED, BLOCK_SIZE = 7, 16
PODS = 4
ROUTINGS = "as-logged,random,prefix-hash,cache-aware"
STEPS = ("ingest", "replay", "whatif")
CHILD = """
import json, resource, sys, time
began = time.perf_counter()
from prefixledger import api
from prefixledger.engine import open_engine
engine, jobs, asked = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
found = {}
with open_engine(engine, jobs=jobs):
    ready = time.perf_counter()
    for verb, given in asked.items():
        at, cpu = time.perf_counter(), spent()
        getattr(api, verb)(engine=engine, jobs=jobs, **given)
        told = json.load(open(given["workspace"] + "/run.json", encoding="utf-8"))["tasks"]
        found[verb] = {"seconds": time.perf_counter() - at, "own_cpu_s": spent() - cpu, "tasks": told}
print(json.dumps({"start_s": ready - began, **found}))
"""


def write_log(path: Path, requests: int) -> None:
    """Write calls with token ids: parsing and hashing them is work that more workers share; some 1.4 kB and 4 new blocks each."""
    draw = random.Random(SEED)
    heads = [[draw.randrange(50_000) for _ in range(160)] for _ in range(200)]
    with path.open("w", encoding="utf-8") as out:
        for number in range(requests):
            ids = [*draw.choice(heads), *(draw.randrange(50_000) for _ in range(draw.randrange(20, 120)))]
            row = {"at": number * 604_800 / requests, "ids": ids, "out": 20, "pod": f"pod-{number % PODS}"}
            out.write(json.dumps(row) + "\n")
    path.with_suffix(".toml").write_text(
        f'format = "jsonl"\nblock_size = {BLOCK_SIZE}\n[columns]\nstarted_at = {{ from = "at", unit = "s" }}\n'
        'token_ids = "ids"\noutput_tokens = "out"\nreplica = "pod"\n',
        encoding="utf-8",
    )


def scenarios(folder: Path) -> list[str]:
    """Write four scenarios."""
    paths = []
    for number in range(4):
        path = folder / f"s{number}.toml"
        capacity = 2_000 * (number + 1)
        path.write_text(f'name = "s{number}"\n[cache]\ncapacity = "{capacity} blocks"\n', encoding="utf-8")
        paths.append(str(path))
    return paths


def run(engine: str, jobs: int, asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the seconds until the engine was there, and of every verb its own, its processor seconds, and its tasks."""
    command = [sys.executable, "-c", CHILD, engine, str(jobs), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def digest(folder: Path) -> str:
    """Return what stands for all that a command left, but for its clock."""
    found = blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("run.json", ".lock"):
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


def shown(engine: str, jobs: int, found: dict[str, Any]) -> str:
    """Return a line of the table: seconds, and processor seconds of tasks and of the process itself."""
    cells = [f"{engine:>6} {jobs:2} {found['start_s']:7.1f}"]
    for step in STEPS:
        tasks = sum(kind["cpu_s"] for kind in found[step]["tasks"])
        cells.append(f"{found[step]['seconds']:8.1f} ({tasks:5.1f} + {found[step]['own_cpu_s']:4.1f})")
    return " ".join(cells)


def ratios(runs: dict[tuple[str, int], dict[str, Any]], step: str) -> dict[str, float]:
    """Return what a second worker gains and what Ray costs, and what follows from the processor seconds of one worker."""
    seconds = {key: found[step]["seconds"] for key, found in runs.items()}
    alone = runs["ray", 1][step]
    tasks = sum(kind["cpu_s"] for kind in alone["tasks"])
    return {
        "local_two_workers": seconds["local", 1] / seconds["local", 2],
        "ray_two_workers": seconds["ray", 1] / seconds["ray", 2],
        "ray_two_workers_at_most": (alone["own_cpu_s"] + tasks) / (alone["own_cpu_s"] + tasks / 2),
        "ray_over_local_with_two": seconds["ray", 2] / seconds["local", 2],
        "ray_over_local_with_one": seconds["ray", 1] / seconds["local", 1],
    }


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--capacities", type=int, default=30, help="each is tried under four routings")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "engines.json")
    given = parser.parse_args()
    capacities = ",".join(str(2_000 + 1_000 * n) for n in range(given.capacities))
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        write_log(log, given.requests)
        figures: dict[str, Any] = {"requests": given.requests, "log_bytes": log.stat().st_size}
        several, left = scenarios(folder), set()

        def asked(place: Path, log: Path) -> dict[str, dict[str, Any]]:
            where = {"workspace": str(place)}
            return {
                "ingest": {"sources": [str(log)], "map": str(log.with_suffix(".toml")), **where},
                "replay": {**where, "scenario": several},
                "whatif": {**where, "scenario": several[0], "capacity": capacities, "routing": ROUTINGS},
            }

        write_log(folder / "first.jsonl", 200)
        run(
            "local", 1, asked(folder / "first", folder / "first.jsonl")
        )  # compiles kernels that nobody has yet
        print(
            f"{'':9} {'start s':>7} {'ingest s (tasks + own cpu s)':>23} {'4 scenarios':>23} {'grid':>23}",
            flush=True,
        )
        for engine, jobs in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2)):
            place = folder / f"{engine}{jobs}"
            runs[engine, jobs] = found = run(engine, jobs, asked(place, log))
            left.add(digest(place))
            print(shown(engine, jobs, found), flush=True)
    figures["runs"] = [{"engine": engine, "workers": jobs, **found} for (engine, jobs), found in runs.items()]
    figures["same_bytes"] = len(left) == 1
    figures["ratios"] = {step: ratios(runs, step) for step in STEPS}
    for step in STEPS:
        print(f"{step:7}", ", ".join(f"{key} {value:.2f}" for key, value in figures["ratios"][step].items()))
    print(f"same bytes: {figures['same_bytes']}")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
