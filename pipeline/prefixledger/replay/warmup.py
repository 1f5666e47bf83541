"""When each simulated cache is still filling, so that what is new then is not called new content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

HOUR_US = 3_600_000_000
SHORTEST_GAP_US = 15 * 60_000_000
GAP_MEDIANS = 3
LARGEST_SHARE = 5
"""A warm-up takes at most one fifth of the log."""
ALWAYS = np.iinfo(np.int64).min
"""Start of a coverage that no gap precedes."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """One warm-up of one replica.

    Attributes:
        replica: Index of the replica.
        from_us: Its first lookup, in the log or after a gap in coverage.
        to_us: When its cache first evicted, or the longest that a warm-up may take.
        cause: ``first_request`` or ``coverage_gap``.
    """

    replica: int
    from_us: int
    to_us: int
    cause: str


def covered_since(source: NDArray[np.int64], started_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Say for each row since when its source has covered the traffic without a gap.

    A gap is longer than 3 times the source's median inter-arrival and than 15 minutes. It is looked for within
    each source, where one pod's log may pause beside others, and at the head of each source against all that
    came before it, where a whole file may be missing between two.

    Args:
        source: int64[n], number of the source of each row.
        started_us: int64[n], arrival of each row, ascending.

    Returns:
        int64[n], microseconds since 1970; ``ALWAYS`` where no gap lies before the row.
    """
    since = np.full(started_us.size, ALWAYS)
    for rows in _groups(source):
        arrivals = started_us[rows]
        steps = np.diff(arrivals)
        longest = max(SHORTEST_GAP_US, GAP_MEDIANS * float(np.median(steps)) if steps.size else 0)
        before = started_us[rows[0] - 1] if rows[0] > 0 else arrivals[0]
        gap = np.concatenate(([arrivals[0] - before], steps)) > longest
        since[rows] = np.maximum.accumulate(np.where(gap, arrivals, ALWAYS))
    return since


def warm_ups(
    replica: NDArray[np.int64],
    admitted_us: NDArray[np.int64],
    since_us: NDArray[np.int64],
    evictions: dict[int, NDArray[np.int64]],
    *,
    ttl_us: int | None,
    log_us: int,
) -> list[WarmUp]:
    """List the warm-ups of one pool, by replica and time.

    Args:
        replica: int64[k], replica of each lookup, in order of admission.
        admitted_us: int64[k], ascending.
        since_us: int64[k], ``covered_since`` of each; a replica whose last lookup lies before it warms up again.
        evictions: Replica to int64[e], the times of its evictions, ascending.
        ttl_us: The time to live, None for ever.
        log_us: Length of the whole log, of which a warm-up takes at most a fifth.
    """
    longest = min(max(ttl_us or 0, HOUR_US), log_us // LARGEST_SHARE)
    found = []
    for mine in _groups(replica):
        times = admitted_us[mine]
        begins = np.concatenate(([True], since_us[mine][1:] > times[:-1]))
        evicted = evictions.get(int(replica[mine[0]]), np.empty(0, np.int64))
        for number, from_us in enumerate(times[begins].tolist()):
            later = evicted[np.searchsorted(evicted, from_us) :]
            to_us = min([from_us + longest, *later[:1].tolist()])
            cause = "coverage_gap" if number else "first_request"
            found.append(WarmUp(int(replica[mine[0]]), from_us, to_us, cause))
    return found


def _groups(number: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of each distinct number, ascending, in the order of the numbers."""
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    yield from (part for part in np.split(order, cuts) if part.size)
