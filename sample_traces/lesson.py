"""Writes the lesson sample: one prompt layout under two routings, then the same with a volatile word on top."""

from __future__ import annotations

import hashlib
import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUESTS = 2_000
REPLICAS = 4
TENANTS = "ABCDEFGH"
SYSTEM = [f"sys{i}" for i in range(1_200)]
DOCUMENTS = {t: [f"{t}doc{i}" for i in range(800)] for t in TENANTS}
FRESH_WORDS = 60
HASHED_WORDS = 1_280
RUNS = ("random", "by-prefix-hash", "volatile-top")
START_S = 1_795_942_800  # 2026-11-29T09:00:00Z, a request every second after it


def prompts(run: str, draw: random.Random) -> Iterator[tuple[list[str], int, str]]:
    """Yield words, replica and tenant of each request of one run; ``draw`` goes on from run to run."""
    for _ in range(REQUESTS):
        tenant = draw.choice(TENANTS)
        fresh = [f"u{draw.randint(0, 10**6)}" for _ in range(FRESH_WORDS)]
        top = [f"time={draw.randint(0, 10**6)}"] if run == "volatile-top" else []
        words = top + SYSTEM + DOCUMENTS[tenant] + fresh
        if run == "random":
            replica = draw.randrange(REPLICAS)
        else:
            head = " ".join(words[:HASHED_WORDS]).encode()
            replica = int(hashlib.md5(head, usedforsecurity=False).hexdigest(), 16) % REPLICAS
        yield words, replica, tenant


def write(folder: Path) -> list[Path]:
    """Write one JSONL of token ids per run into ``folder`` and return their paths in order of ``RUNS``."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    ids: dict[str, int] = {}  # words are tokens: each gets the next number when first seen
    written = []
    for run in RUNS:
        path = folder / f"lesson-{run}.jsonl"
        with path.open("w", encoding="utf-8") as out:
            for number, (words, replica, tenant) in enumerate(prompts(run, draw)):
                row = {
                    "id": f"{run}-{number:04d}",
                    "ts": START_S + number,
                    "replica": f"r{replica}",
                    "tenant": tenant,
                    "ids": [ids.setdefault(word, len(ids)) for word in words],
                }
                out.write(json.dumps(row, separators=(",", ":")) + "\n")
        written.append(path)
    return written
