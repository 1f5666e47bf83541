"""What running requests held of the memory of each replica, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldSlice:
    """One replica in one slice of time.

    Attributes:
        replica: Its name.
        at_us: Start of the slice, UTC microseconds.
        length_us: Width of the slice.
        peak_blocks: Distinct blocks that running requests held at the busiest moment.
        block_us: Blocks held, times microseconds.
    """

    replica: str
    at_us: int
    length_us: int
    peak_blocks: int
    block_us: int

    @property
    def mean_blocks(self) -> float:
        """Blocks held on average over the slice."""
        return self.block_us / self.length_us


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """One replica over all slices.

    Attributes:
        replica: Its name.
        busiest_us: Start of the slice with the busiest moment, UTC microseconds.
        length_us: Width of that slice.
        peak_blocks: Distinct blocks that running requests held then.
        mean_blocks: Blocks held on average, from the first slice of any replica to the last.
    """

    replica: str
    busiest_us: int
    length_us: int
    peak_blocks: int
    mean_blocks: float


def by_replica(slices: tuple[HeldSlice, ...]) -> tuple[HeldReplica, ...]:
    """Return the replicas, that with the busiest moment first."""
    found: dict[str, list[HeldSlice]] = {}
    for one in slices:
        found.setdefault(one.replica, []).append(one)
    length_us = max((s.at_us + s.length_us for s in slices), default=0) - min(
        (s.at_us for s in slices), default=0
    )
    replicas = []
    for name, its in found.items():
        most = max(its, key=lambda s: (s.peak_blocks, -s.at_us))
        mean = sum(s.block_us for s in its) / length_us
        replicas.append(HeldReplica(name, most.at_us, most.length_us, most.peak_blocks, mean))
    return tuple(sorted(replicas, key=lambda r: (-r.peak_blocks, r.replica)))
