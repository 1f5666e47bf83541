"""Estimates by how much the clocks of two inputs differ, from calls that both hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.duplicates import NO_START
from prefixledger.ingest.record_order import duration_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_CALLS: Final = 3
"""One call may have waited in a queue between two logs; three do not agree by chance."""
LEAST_US: Final = 100_000
"""Two integrations see one call start within 50 ms of each other; less than twice that is no matter of clocks."""


def skew_note(here_us: NDArray[np.int64], there_us: NDArray[np.int64]) -> str | None:
    """Say how far the clock of an input is from that of earlier ones; None where nothing shows that it is.

    The difference counts as one of clocks where the middle half of the calls lies within half of the median: attempts at
    one call under one id, and calls that waited between two logs, are apart by all kinds of times.

    Args:
        here_us: int64[n], starts of calls that an earlier input holds too.
        there_us: int64[n], when it says that they started; ``NO_START`` where it does not.
    """
    lag_us = (here_us - there_us)[there_us != NO_START]
    if lag_us.size < FEWEST_CALLS:
        return None
    low, middle, high = (int(at) for at in np.percentile(lag_us, [25, 50, 75]))
    if abs(middle) < LEAST_US or high - low > abs(middle) / 2:
        return None
    return (
        f"its clock is about {duration_text(abs(middle))} {'ahead of' if middle > 0 else 'behind'} that of earlier inputs "
        f"(median over {lag_us.size:,} calls that both hold, middle half within {duration_text(high - low)}): not corrected"
    )
