"""Gives every reader hostile records, and every stage hostile logs; counts what became of them.

    python benchmarks/fuzz.py                         100,000 records a reader, two logs a reader to the report
    python benchmarks/fuzz.py mooncake --records 5000 --logs 0

Prints a table and writes out/fuzz.json; exits 1 where any input raised something that is no error of prefixledger's.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fuzzing import NAMES, Found, context_of, mutated, read_one, records_of, whole_line  # noqa: E402

SEED = 9
SHOWN = 5


def fuzz_reader(name: str, records: int, seed: int) -> Found:
    """Give one reader mutated records of its fixture."""
    context, data = context_of(name)
    own, draw, found = records_of(context, data), random.Random(f"{name} {seed}"), Found()
    for _ in range(records):
        read_one(mutated(draw.choice(own), own, draw), context, found)
    return found


def fuzz_stages(name: str, logs: int, seed: int) -> Found:
    """Take mutated logs of one format through every stage."""
    draw, found = random.Random(f"{name} {seed} logs"), Found()
    for _ in range(logs):
        with tempfile.TemporaryDirectory() as folder:
            whole_line(name, Path(folder), 60, draw, found)
    return found


def told(found: Found) -> dict[str, Any]:
    """Return the counts, and the end of the first different faults."""
    ends = {text.strip().splitlines()[-1]: text for _, text in found.faults}
    return {
        "inputs": found.inputs,
        **dict(sorted(found.kinds.items())),
        "faults": len(found.faults),
        "kinds_of_faults": [text.strip().splitlines()[-6:] for text in list(ends.values())[:SHOWN]],
    }


def main() -> None:
    """Parse the command line, fuzz, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="*", default=NAMES)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--logs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "fuzz.json")
    given = parser.parse_args()
    counts: dict[str, Any] = {}
    print(
        f"{'reader':16} {'records':>8} {'rows':>8} {'rejects':>8} {'skips':>8} {'faults':>6} {'logs':>5} {'faults':>6} {'CPU s':>6}"
    )
    given.output.parent.mkdir(parents=True, exist_ok=True)
    for name in given.readers:
        start = time.process_time()
        records = told(fuzz_reader(name, given.records, given.seed))
        logs = told(fuzz_stages(name, given.logs, given.seed))
        seconds = round(time.process_time() - start, 1)
        counts[name] = {"records": records, "logs": logs, "seed": given.seed, "cpu_s": seconds}
        print(
            f"{name:16} {records['inputs']:8} {records.get('row', 0):8} {records.get('reject', 0):8} "
            f"{records.get('skip', 0):8} {records['faults']:6} {logs['inputs']:5} {logs['faults']:6} {seconds:6}",
            flush=True,
        )
        given.output.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(count[part]["faults"] for count in counts.values() for part in ("records", "logs")))


if __name__ == "__main__":
    main()
