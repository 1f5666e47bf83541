"""The slow, obvious twin of the kernel that finds records out of order."""

from __future__ import annotations

from itertools import combinations


def longest(times: list[int]) -> int:
    """Return the length of a longest subsequence that never goes back, by trying all of them, longest first."""
    for size in range(len(times), 0, -1):
        if any(list(kept) == sorted(kept) for kept in combinations(times, size)):
            return size
    return 0
