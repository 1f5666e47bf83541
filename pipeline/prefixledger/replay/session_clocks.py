"""Finds inputs whose clocks differ, from sessions whose turns they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from prefixledger.ingest.record_order import duration_text
from prefixledger.replay.lookups import number_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Log

FEWEST_SESSIONS: Final = 3
"""One turn may be asked again later, or a sub-agent may start late; three sessions do not do so by chance."""
_MOST: Final = 0.8
"""Share of turns from one input to another that must go back in time."""
_MOST_BLOCKS: Final = 4_096
"""Steps up the forest for one pair; a turn that adds more (65 thousand tokens in blocks of 16) is passed over."""


def clock_notes(log: Log) -> Iterator[str]:
    """Say which inputs, going by sessions whose turns they share, must have clocks that differ.

    A turn whose prompt carries on all of another's comes after it. Where the next turn of a session lies in another input
    and, session after session, starts before the one that it carries on, that input's clock is behind. By how much is
    known from below only: people also take time to answer.
    """
    row = log.lookups.request_row
    source = number_sources(log.rows)[row]
    sessions = log.rows.table["session_id"].take(row)
    if source.size == 0 or source.min() == source.max() or sessions.null_count == len(sessions):
        return
    codes = pc.fill_null(sessions.combine_chunks().dictionary_encode().indices, -1).to_numpy()
    before, after = _turns(log, codes, source)
    back_us = log.lookups.started_us[before] - log.lookups.started_us[after]
    files = log.rows.table["source_file"].take(row)
    for one, other in sorted({(int(a), int(b)) for a, b in zip(source[before], source[after], strict=True)}):
        mine = (source[before] == one) & (source[after] == other)
        late = mine & (back_us > 0)
        if late.sum() < _MOST * mine.sum() or np.unique(codes[before[late]]).size < FEWEST_SESSIONS:
            continue
        names = [files[int(at[late][0])].as_py() for at in (after, before)]
        least = duration_text(int(np.median(back_us[late])))
        yield (
            f"the clock of {names[0]} is behind that of {names[1]} by {least} or more: {int(late.sum())} turns of sessions that "
            "both hold start there before the turns that they carry on; times are not corrected"
        )


def _turns(
    log: Log, session: NDArray[np.int64], source: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lookups and, in another input, the next longer ones of their sessions, which carry on all of their blocks."""
    lookups = log.lookups
    order = np.lexsort((lookups.started_us, lookups.n_blocks, session))
    before, after = order[:-1], order[1:]
    steps = lookups.n_blocks[after] - lookups.n_blocks[before]
    chosen = (
        (session[before] == session[after])
        & (session[before] >= 0)
        & (source[before] != source[after])
        & (lookups.n_blocks[before] > 0)
        & (steps > 0)
        & (steps <= _MOST_BLOCKS)
    )
    before, after = before[chosen], after[chosen]
    block, left = lookups.last_block[after], steps[chosen]
    going = np.arange(block.size)
    while going.size:
        block[going] = log.forest.parent[block[going]]
        left[going] -= 1
        going = going[left[going] > 0]
    carries = block == lookups.last_block[before]
    return before[carries], after[carries]
