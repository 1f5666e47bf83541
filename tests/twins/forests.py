"""Random logs that force contention: tight caches, aligned prompts, ties in time, shared and growing prefixes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twins.vllm_blocks import Row

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True)
class Log:
    """A log and the cache it is replayed on.

    Attributes:
        parent: Parent of each block, -1 at the root.
        rows: In order of arrival.
        block: Tokens per block.
        capacity: Blocks per replica.
        replicas: Number of replicas.
        ttl: -1 for none.
        output: ignore, at_release or as_decoded.
        resets: (at, replica, force), in order of time.
        hit_saves_us: What a hit block saves.
        most_running: Rows that may run on a replica at a time.
    """

    parent: list[int]
    rows: list[Row]
    block: int
    capacity: int
    replicas: int
    ttl: int
    output: str
    resets: list[tuple[int, int, bool]]
    hit_saves_us: float
    most_running: int = 1 << 30

    def last_blocks(self) -> np.ndarray:
        """Return int64[n], the deepest block that each row walks, -1 for none."""
        return np.array([row.keys[-1] if row.keys else -1 for row in self.rows], np.int64)


class _Forest:
    def __init__(self) -> None:
        self.parent: list[int] = []
        self.child: dict[tuple[int, int], int] = {}

    def extend(self, path: list[int], labels: list[int]) -> list[int]:
        path = list(path)
        for label in labels:
            above = path[-1] if path else -1
            if (above, label) not in self.child:
                self.child[above, label] = len(self.parent)
                self.parent.append(above)
            path.append(self.child[above, label])
        return path


def random_log(rng: random.Random, *, output: str | None = None, longest: int = 40) -> Log:
    """Draw one log; ``output`` None draws the mode too."""
    forest, known, rows = _Forest(), [[]], []
    block, replicas = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 1, 2, 3])
    output = output or rng.choice(["ignore", "ignore", "at_release", "as_decoded"])
    aligned, one_at_a_time = rng.choice([0.0, 0.3, 0.6, 0.9]), rng.random() < 0.3
    labels, deepest, pace = rng.choice([1, 2, 3]), rng.choice([3, 6, 12]), rng.choice([0, 1, 3, 8])
    arrival, longest_hold = 0, rng.choice([3, 10, 40])
    for _ in range(rng.randint(2, longest)):
        arrival += rng.randint(0, pace)
        stem = rng.choice(known[-8:])
        path = forest.extend(
            stem[: rng.randint(0, len(stem)) if rng.random() < 0.4 else len(stem)],
            [rng.randrange(labels) for _ in range(rng.randint(0, 3))],
        )[:deepest]
        tail = 0 if path and rng.random() < aligned else rng.randint(1, max(block - 1, 1))
        tokens = len(path) * block + (tail if block > 1 or not path else 0)
        row = Row(
            arrival, rng.randrange(replicas), tokens, path[: tokens // block], min(len(path), tokens // block)
        )
        if rng.random() < 0.05:
            row.prompt_keys = rng.randint(0, row.prompt_keys)
            row.keys = row.keys[: row.prompt_keys]
        if not one_at_a_time:
            row.hold = rng.randint(0, longest_hold)
            row.prefill = rng.randint(0, row.hold)
        known.append(path)
        if output != "ignore":
            row.output = rng.randint(0, 4 * block)
            whole = row.prompt_keys == tokens // block
            count = max(tokens + row.output - 1, tokens) // block - row.prompt_keys if whole else 0
            row.keys = forest.extend(row.keys, [rng.randrange(labels) for _ in range(rng.randint(0, count))])
            known.append(row.keys)
        rows.append(row)
    need = max(-(-row.tokens // block) for row in rows)
    capacity = max(1, rng.choice([need + rng.randint(0, 3), rng.randint(2 * need, 3 * need), need - 1]))
    end = arrival + longest_hold
    resets = sorted(
        (rng.randint(0, end), rng.randrange(replicas), rng.random() < 0.5)
        for _ in range(rng.choice([0, 0, 1, 3]))
    )
    ttl = rng.choice([-1, -1, 0, rng.randint(1, 10), rng.randint(5, 60)])
    saves = rng.choice([0.0, 0.0, 1.3])
    return Log(forest.parent, rows, block, capacity, replicas, ttl, output, resets, saves)


def spread(log: Log) -> Log:
    """Give every replica moments of its own: at equal times only the order within a replica is defined."""
    for row in log.rows:
        row.arrival = 4 * row.arrival + row.replica
        row.hold, row.prefill = 4 * row.hold, 4 * (row.hold and row.prefill)
    resets = [(4 * at + replica, replica, force) for at, replica, force in log.resets]
    output = "at_release" if log.output == "as_decoded" else log.output  # growth would fall anywhere
    ttl = 4 * log.ttl if log.ttl > 0 else log.ttl
    return replace(log, resets=sorted(resets), hit_saves_us=0.0, output=output, ttl=ttl)
