"""Replays the design scenario under every router: hits by cause beside load, and the ranking in words.

    python benchmarks/routing_table.py               the whole week: 200 tenants, 50,000 requests a day, 8 replicas
    python benchmarks/routing_table.py --days 1      its first day

Generates the log, then prints what ``prefixledger whatif --routing all`` prints of it, and how long that took.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from prefixledger.cli import app
from prefixledger.samples import generator

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"


def main() -> None:
    """Parse the command line, generate, replay and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--routing", default="all", help="a comma list [default: all]")
    given = parser.parse_args()
    os.environ.setdefault("COLUMNS", "220")
    story = generator("story")
    with tempfile.TemporaryDirectory() as name:
        log = story.write(Path(name) / "full.jsonl", replace(story.FULL, days=given.days))
        common = ["--workspace", str(Path(name) / "workspace")]
        start = time.perf_counter()
        app.run(["ingest", str(log), "--map", str(SAMPLES / "story.map.toml"), "-q", *common])
        read = time.perf_counter()
        scenario = str(SAMPLES / "full.scenario.toml")
        app.run(["whatif", "--scenario", scenario, "--routing", given.routing, "--replicas", "8", *common])
        done = time.perf_counter()
    print(f"{read - start:.1f} s to read the log, {done - read:.1f} s for all routers")


if __name__ == "__main__":
    main()
