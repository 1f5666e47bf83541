"""Numbers lookups and resets over all pools, in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.touches import ResetLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.fleet import Reset
    from prefixledger.replay.pool_run import PoolRun


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers under which the lookups and resets of each pool stand in every file.

    Attributes:
        lookups: For each pool int64[k], ascending: number of each lookup, in order of admission over all pools.
        order: int64[m], where the lookups of all pools, put one behind the other, stand in order of their numbers.
        resets: For each pool its resets with the numbers of their events.
        events: Every reset with the place of its pool, in order of time, pool and replica.
    """

    lookups: tuple[NDArray[np.int64], ...]
    order: NDArray[np.int64]
    resets: tuple[ResetLog, ...]
    events: tuple[tuple[int, Reset], ...]


def number_all(runs: Sequence[PoolRun]) -> Numbering:
    """Number lookups by admission, ties by queue and arrival; number resets by time, pool and replica."""
    admitted_us = np.concatenate([run.log.admitted_us for run in runs])
    arrival = np.concatenate([run.lookup for run in runs])
    queued_us = np.concatenate([run.queued_us for run in runs])
    order = np.lexsort((arrival, queued_us, admitted_us))
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    ends = np.cumsum([len(run.log) for run in runs])[:-1]
    events = [(place, reset) for place, run in enumerate(runs) for reset in run.resets]
    events.sort(key=lambda event: (event[1].at_us, event[0], event[1].replica))
    return Numbering(
        lookups=tuple(np.split(number, ends)),
        order=order,
        resets=tuple(_reset_log(events, place) for place in range(len(runs))),
        events=tuple(events),
    )


def _reset_log(events: Sequence[tuple[int, Reset]], place: int) -> ResetLog:
    mine = [(number, reset) for number, (where, reset) in enumerate(events) if where == place]
    return ResetLog(
        at_us=np.asarray([reset.at_us for _, reset in mine], np.int64),
        replica=np.asarray([reset.replica for _, reset in mine], np.int32),
        event=np.asarray([number for number, _ in mine], np.int64),
    )
