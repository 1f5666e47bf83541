"""Measures what engines are worth: one worker against two, and Ray against the processes of this machine, in one run.

    python benchmarks/engines.py                    30,000 requests of token ids, a grid of 24 replays, 4 scenarios
    python benchmarks/engines.py --requests 200000

Every command runs in a process of its own that starts its cluster; that start is told apart from the work. Compare ratios
within a run: others may use the machine, too. What is left behind is compared byte for byte. Writes out/engines.json.
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
CAPACITIES = ",".join(str(500 * n) for n in range(4, 28))
CHILD = """
import json, sys, time
began = time.perf_counter()
from prefixledger import api
from prefixledger.engine import open_engine
engine, jobs, verb, given = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
with open_engine(engine, jobs=jobs):
    ready = time.perf_counter()
    getattr(api, verb)(engine=engine, jobs=jobs, **given)
    done = time.perf_counter()
print(json.dumps([ready - began, done - ready]))
"""


def write_log(path: Path, requests: int) -> None:
    """Write calls with token ids: parsing and hashing them is work that more workers share."""
    draw = random.Random(SEED)
    heads = [[draw.randrange(50_000) for _ in range(640)] for _ in range(20)]
    with path.open("w", encoding="utf-8") as out:
        for number in range(requests):
            ids = [*draw.choice(heads), *(draw.randrange(50_000) for _ in range(draw.randrange(20, 200)))]
            row = {"at": number * 604_800 / requests, "ids": ids, "out": 20, "pod": f"pod-{number % 4}"}
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


def run(engine: str, jobs: int, verb: str, given: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds until the engine was there, and those of the work."""
    command = [sys.executable, "-c", CHILD, engine, str(jobs), verb, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    ready, work = json.loads(done.stdout.splitlines()[-1])
    return ready, work


def digest(folder: Path) -> str:
    """Return what stands for all that a command left, but for its clock."""
    found = blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("run.json", ".lock"):
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "engines.json")
    given = parser.parse_args()
    figures: dict[str, Any] = {"requests": given.requests, "runs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        write_log(log, given.requests)
        figures["log_bytes"] = log.stat().st_size
        several, left = scenarios(folder), set()
        print(f"{'':10} {'start s':>8} {'ingest s':>9} {'scenarios s':>12} {'grid s':>8}", flush=True)
        for engine, jobs in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2)):
            place = {"workspace": str(folder / f"{engine}{jobs}")}
            read = {"sources": [str(log)], "map": str(log.with_suffix(".toml")), **place}
            starts, work = zip(
                *(
                    run(engine, jobs, verb, asked)
                    for verb, asked in (
                        ("ingest", read),
                        ("replay", {**place, "scenario": several}),
                        ("whatif", {**place, "scenario": several[0], "capacity": CAPACITIES}),
                    )
                ),
                strict=True,
            )
            left.add(digest(Path(place["workspace"])))
            row = {"engine": engine, "workers": jobs, "start_s": min(starts), "ingest_s": work[0]}
            row |= {"scenarios_s": work[1], "grid_s": work[2]}
            figures["runs"].append(row)
            print(
                f"{engine:>6} {jobs:3} {min(starts):8.1f} {work[0]:9.1f} {work[1]:12.1f} {work[2]:8.1f}",
                flush=True,
            )
    figures["same_bytes"] = len(left) == 1
    one, two, far_one, far_two = figures["runs"]
    for what in ("ingest_s", "scenarios_s", "grid_s"):
        figures[f"{what[:-2]}_ratios"] = ratios = {
            "local_two_workers": one[what] / two[what],
            "ray_two_workers": far_one[what] / far_two[what],
            "ray_over_local": far_two[what] / two[what],
        }
        print(f"{what[:-2]:10}", ", ".join(f"{key} {value:.2f}" for key, value in ratios.items()))
    print(f"same bytes: {figures['same_bytes']}")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
