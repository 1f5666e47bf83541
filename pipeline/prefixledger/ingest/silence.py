"""Tells which replicas a log stops speaking of while it goes on with others: they went, or part of the log is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

QUIET_US: Final = 15 * 60 * 1_000_000
FEWEST_MISSED: Final = 20
"""Requests that a replica would have been asked in a silence for it to be told: by chance that is one in 500 million."""
MOST_NAMED: Final = 5
PAUSED: Final = "say nothing for a stretch while others go on"


def stops(at_us: NDArray[np.int64], end_us: int) -> bool:
    """Return whether a replica is silent up to the end: for longer than ever before, and than 15 minutes.

    A quiet hour is no end.

    Args:
        at_us: int64[k], when it was asked, in order; at least once.
        end_us: Last request to anybody.
    """
    return end_us - int(at_us[-1]) > int(np.diff(at_us).max(initial=QUIET_US))


def pause(at_us: NDArray[np.int64], all_us: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return between which two requests a replica is silent in mid-log although it should have been asked, None for none.

    It is its longest silence, longer than 15 minutes and than thrice any other; at its own rate it would have been asked
    20 times, and the others were asked at least half as often as else: a night or a scale-in that recurs is no such pause.

    Args:
        at_us: int64[k], when it was asked, in order.
        all_us: int64[n], when anybody was asked, in order, itself included.
    """
    if at_us.size < FEWEST_MISSED:
        return None
    gaps = np.diff(at_us)
    number = int(gaps.argmax())
    begin_us, end_us = int(at_us[number]), int(at_us[number + 1])
    gap_us, busy_us = end_us - begin_us, int(at_us[-1] - at_us[0]) - (end_us - begin_us)
    if gap_us <= max(QUIET_US, 3 * int(np.delete(gaps, number).max())):
        return None
    if at_us.size * gap_us < FEWEST_MISSED * busy_us:
        return None
    within = int(np.searchsorted(all_us, end_us) - np.searchsorted(all_us, begin_us, side="right"))
    spanned = int(np.searchsorted(all_us, at_us[-1], side="right") - np.searchsorted(all_us, at_us[0]))
    others = spanned - at_us.size - within
    return (begin_us, end_us) if 2 * within * busy_us >= others * gap_us and within else None


def stretch(name: str, pause_us: tuple[int, int]) -> str:
    """Return a replica and when it was silent, to the minute of UTC."""
    begin, end = (
        datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M") for at_us in pause_us
    )
    return f"{name} from {begin} to {end}"


def listed(names: list[str]) -> str:
    """Return names for a sentence, the first few of many."""
    return ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")


def silence_notes(replica: pa.ChunkedArray, started_us: NDArray[np.int64]) -> Iterator[str]:
    """Say which replicas stop or pause in one input; nothing where none does or at most one is named.

    Args:
        replica: Name of the replica of each row, null for none.
        started_us: int64[n], arrival of each.
    """
    column = replica.combine_chunks().dictionary_encode()
    names = column.dictionary.to_pylist()
    if len(names) < 2 or not started_us.size:  # noqa: PLR2004
        return
    code = pc.fill_null(column.indices, -1).to_numpy()
    all_us = np.sort(started_us)
    asked = {name: np.sort(started_us[code == number]) for number, name in enumerate(names)}
    if silent := sorted(name for name, at_us in asked.items() if stops(at_us, int(all_us[-1]))):
        yield (
            f"{len(silent)} of {len(names)} replicas ({listed(silent)}) stop in this log while others go on: if they were not "
            "taken away, part of the log is missing, and a replay lacks what was asked of them"
        )
    if paused := [stretch(name, when) for name in sorted(asked) if (when := pause(asked[name], all_us))]:
        yield (
            f"{len(paused)} of {len(names)} replicas ({listed(paused)}) {PAUSED}: if they were not taken away, part of the log is "
            "missing, and a replay lacks what was asked of them"
        )
