"""Tells whether the records of an input stand in order of time, and how far those that do not were moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.record_order_kernel import longest_ascent

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUT_OF_ORDER: Final = "out of order"
"""In the notes of an input some of whose records are."""
_BACKWARDS: Final = 0.9
"""Share of steps to an earlier time from which a log is one that runs backwards."""
_SHUFFLED: Final = 0.5
"""Shares, of the records and of the time that they span, from which on there is no order: of calls that overlap and
were logged at their end many may be out of order, but none by half of the log."""
_FEWEST: Final = 3
"""Fewer records have no direction."""


@dataclass(frozen=True, slots=True)
class Disorder:
    """How far an input is from being in order of time.

    Attributes:
        records: Records with a time.
        moved: The fewest that must be moved to bring the others into order.
        farthest_us: Most time between one of those and the nearest neighbour that stays.
        span_us: Time between the earliest and the latest.
        backwards: Whether nearly every step between neighbours goes back in time.
    """

    records: int
    moved: int
    farthest_us: int
    span_us: int
    backwards: bool


def disorder(started_us: NDArray[np.int64]) -> Disorder:
    """Measure the order of some times.

    Args:
        started_us: int64[n], in order of the input. O(n) where they ascend, else O(n log n).
    """
    steps = np.diff(started_us)
    if not (steps < 0).any():
        return Disorder(started_us.size, 0, 0, 0, False)
    stays = longest_ascent(started_us)
    kept = started_us[stays]
    moved = np.flatnonzero(~stays)
    behind = np.cumsum(stays)[moved]  # how many that stay stand before each
    before = kept[np.maximum(behind - 1, 0)]
    after = kept[np.minimum(behind, kept.size - 1)]
    own = started_us[moved]
    distance = np.where(own < before, before - own, own - after)
    changes = steps[steps != 0]
    backwards = started_us.size >= _FEWEST and bool((changes < 0).mean() >= _BACKWARDS)
    return Disorder(started_us.size, moved.size, int(distance.max()), int(np.ptp(started_us)), backwards)


def order_note(started_us: NDArray[np.int64], finished_us: NDArray[np.int64] | None) -> str | None:
    """Say that records are not in order of time; None where they are, by their starts or by their ends.

    Args:
        started_us: int64[n], starts in order of the input.
        finished_us: int64[n], ends; None where some are not known.
    """
    found = disorder(started_us)
    if found.moved and finished_us is not None:  # most gateways write a call when it ends
        found = min(found, disorder(finished_us), key=lambda one: one.moved)
    if not found.moved:
        return None
    farthest = f"the farthest by {duration_text(found.farthest_us)}"
    if found.backwards:
        return f"the log runs backwards, its latest record first ({farthest}): read in order of time"
    how_many = f"{found.moved:,} of {found.records:,} records stand {OUT_OF_ORDER}"
    if found.moved > _SHUFFLED * found.records and found.farthest_us > _SHUFFLED * found.span_us:
        return f"the log is shuffled: {how_many}, {farthest}; read in order of time"
    return f"{how_many}, {farthest}: read in order of time"


def duration_text(us: int) -> str:
    """Return a duration in the largest unit of which it has two, as ``2 h`` or ``4.02 s``."""
    seconds = us / 1_000_000
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
