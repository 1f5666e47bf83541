"""Rows that tell of one answer more than once, and rows that carry no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.duplicates import id_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected

NO_TIMES: Final = "no row carries a time: their order is known, and nothing about time to live"


def place_untimed(
    started_us: NDArray[np.int64], collected: Collected
) -> tuple[NDArray[np.int64], str | None]:
    """Find a place for rows without a time: where the timed row before them stands, or else where the first does.

    Args:
        started_us: int64[rows], starts; what rows without a time say counts from the place they get.
        collected: The input.

    Returns:
        int64[rows], what to add to every time of a row, and a sentence for the report where any has none.
    """
    untimed = np.frombuffer(bytes(collected.rows.untimed), np.bool_)
    timed = np.flatnonzero(~untimed)
    nothing = np.zeros_like(started_us)
    if timed.size == untimed.size:
        return nothing, None
    if timed.size == 0:
        return nothing, NO_TIMES
    before = np.maximum.accumulate(np.where(untimed, -1, np.arange(untimed.size)))
    place = started_us[np.where(before < 0, timed[0], before)]
    note = (
        f"{untimed.size - timed.size:,} rows carry no time: each stands where the timed row before it does, "
        "and nothing is known about their time to live"
    )
    return np.where(untimed, place, 0), note


def earliest_of_each(ids: NDArray[np.void], started_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the earliest start among the rows of the same id.

    Args:
        ids: (hi, lo)[n].
        started_us: int64[n].
    """
    _, of_id = np.unique(ids, return_inverse=True)
    earliest = np.full(of_id.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(earliest, of_id, started_us)
    return earliest[of_id]


def vain_attempts(collected: Collected, alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return rows of attempts that brought no answer, where another attempt at the same request did.

    Args:
        collected: The input.
        alive: bool[rows], rows that are still taken for requests.
    """
    shared = id_pairs(collected.rows.retry_hash)
    retried = alive & ((shared["hi"] | shared["lo"]) != 0)
    answered = np.frombuffer(bytes(collected.rows.answered), np.bool_)
    vain = np.flatnonzero(retried & ~answered)
    return vain[np.isin(shared[vain], shared[retried & answered])]
