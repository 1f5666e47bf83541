"""A generated week of sessions over shared prefixes, of any size; distinct blocks grow with the requests.

python benchmarks/week.py week.jsonl --requests 1000000
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

SEED, BLOCK_SIZE, CAPACITY_BLOCKS = 12, 16, 20_000
WEEK_MS = 7 * 86_400_000


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


def main() -> None:
    """Parse the command line and write the log."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--requests", type=int, default=1_000_000)
    given = parser.parse_args()
    write_log(given.log, given.requests)


if __name__ == "__main__":
    main()
