"""What running requests hold at every single microsecond: the slow, obvious twin of ``count_held``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One request: ``path`` are the keyed blocks of its prompt; it runs in [begin, end), from ``first`` on with output."""

    replica: int
    path: tuple[int, ...]
    tokens: int
    output: int
    begin: int
    first: int
    end: int

    def slots(self, at: int, block: int) -> int:
        """Return the blocks that prompt and output take."""
        steps = self.output - 1
        due = [s for s in range(steps) if self.first + s * (self.end - self.first) // steps <= at]
        return -(-(self.tokens + len(due)) // block)


def held(runs: list[Run], replica: int, at: int, block: int) -> int:
    """Return the distinct blocks held: keyed ones by content, all others one by one."""
    now = [run for run in runs if run.replica == replica and run.begin <= at < run.end]
    return len({b for run in now for b in run.path}) + sum(
        run.slots(at, block) - len(run.path) for run in now
    )


def slices(runs: list[Run], block: int, width: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (most, sum over microseconds) of each replica and slice in which anything is held."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for replica in {run.replica for run in runs}:
        for at in range(max(run.end for run in runs)):
            found[replica, at // width].append(held(runs, replica, at, block))
    return {place: (max(counts), sum(counts)) for place, counts in found.items() if any(counts)}
