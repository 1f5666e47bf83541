"""Tells which replicas a log stops speaking of while it goes on with others: they went, or part of the log is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

QUIET_US: Final = 15 * 60 * 1_000_000
MOST_NAMED: Final = 5


def stops(at_us: NDArray[np.int64], end_us: int) -> bool:
    """Return whether a replica is silent up to the end: for longer than ever before, and than 15 minutes.

    A quiet hour is no end.

    Args:
        at_us: int64[k], when it was asked, in order; at least once.
        end_us: Last request to anybody.
    """
    return end_us - int(at_us[-1]) > int(np.diff(at_us).max(initial=QUIET_US))


def listed(names: list[str]) -> str:
    """Return names for a sentence, the first few of many."""
    return ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")


def silence_note(replica: pa.ChunkedArray, started_us: NDArray[np.int64]) -> str | None:
    """Say which replicas stop in one input, None where none does or at most one is named.

    Args:
        replica: Name of the replica of each row, null for none.
        started_us: int64[n], arrival of each.
    """
    column = replica.combine_chunks().dictionary_encode()
    names = column.dictionary.to_pylist()
    if len(names) < 2 or not started_us.size:  # noqa: PLR2004
        return None
    code = pc.fill_null(column.indices, -1).to_numpy()
    end_us = int(started_us.max())
    silent = sorted(
        name for number, name in enumerate(names) if stops(np.sort(started_us[code == number]), end_us)
    )
    if not silent:
        return None
    return (
        f"{len(silent)} of {len(names)} replicas ({listed(silent)}) stop in this log while others go on: if they were not "
        "taken away, part of the log is missing, and a replay lacks what was asked of them"
    )
