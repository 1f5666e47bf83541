"""How much of its memory each replica's running requests held, over time: what an engine's usage gauge would show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger import schema_curves
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.held_kernel import ADMITTED, PREFILLED, RELEASED, count_held
from prefixledger.replay.tables import typed_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Lookups
    from prefixledger.replay.pool_run import PoolRun

_WIDTHS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)
_MOST_SLICES = 20_000
"""100 for each of the 200 slices of a report: a day in steps of 5 s, a week in steps of a minute."""


def held_table(runs: Sequence[PoolRun], lookups: Lookups) -> pa.Table:
    """Return HELD: of the pools of which it is known what their running requests hold."""
    parts = [typed_table(schema_curves.HELD, _held(run, lookups)) for run in runs if knows_held(run)]
    return pa.concat_tables([schema_curves.HELD.arrow().empty_table(), *parts]).combine_chunks()


def knows_held(run: PoolRun) -> bool:
    """Return whether the blocks held are known from admissions and releases alone.

    They are not where one request at a time is replayed, where running requests compute the same blocks side by side
    (``in_flight``) or skip the lookup, and where a preempted one held nothing for a while.
    """
    unshared = run.in_flight is not None or run.log.bypassed is not None
    return run.finished_us is not None and not unshared and not run.preemptions


def _held(run: PoolRun, lookups: Lookups) -> dict[str, object]:
    """Return the columns of HELD for one pool; a request that hold no time is in none of its slices."""
    log, finished_us = run.log, run.finished_us
    assert finished_us is not None
    held = ~log.refused & (finished_us > log.admitted_us)
    if not held.any():
        return {column.name: [] for column in schema_curves.HELD.columns}
    begin_us, end_us = log.admitted_us, finished_us
    first_us = np.clip(begin_us + _prefill_us(run), begin_us, end_us)
    as_decoded = run.plan.residence.output == "as_decoded"
    output = np.maximum(lookups.output_tokens[run.lookup], 0) if as_decoded else np.zeros(held.size, np.int64)
    # Without time to decode in, everything has its room at the release only.
    output = np.where(first_us < end_us, output, 0)
    width_us, from_us, slices = _slices(begin_us[held], end_us[held])
    peak = np.zeros((log.replicas, slices), np.int64)
    twice = np.zeros((log.replicas, slices), np.int64)
    rows, kinds, at_us = _events(np.flatnonzero(held), log.replica, (end_us, first_us, begin_us))
    count_held(
        rows,
        kinds,
        at_us,
        read_only(log.replica, np.int64),
        read_only(np.maximum(log.prompt_tokens, 1), np.int64),
        read_only(output, np.int64),
        read_only(first_us, np.int64),
        read_only(end_us, np.int64),
        read_only(log.keyed_blocks, np.int64),
        read_only(log.paths.offset, np.int64),
        read_only(log.paths.chain, np.int32),
        read_only(log.chains.chain_depth, np.int32),
        read_only(log.chains.chain_length, np.int32),
        log.block_size,
        from_us,
        width_us,
        peak,
        twice,
    )
    replica, at = np.nonzero(peak)
    return {
        "replica": run.plan.first_replica + replica,
        "slice_at": pa.array(from_us + at * width_us, pa.timestamp("us", "UTC")),
        "width_us": np.full(at.size, width_us),
        "peak_blocks": peak[replica, at],
        "block_us": twice[replica, at] // 2,
    }


def _prefill_us(run: PoolRun) -> NDArray[np.int64]:
    """Return how long each prefill takes, shortened by what it hits in the memory of the replica."""
    residence = run.plan.residence
    prefill_us = residence.prefill_us[np.searchsorted(run.plan.mine, run.lookup)]
    hits = run.hit_blocks - run.host_blocks
    saved = (hits * residence.hit_saves_us + 0.5).astype(np.int64)
    return prefill_us - np.minimum(prefill_us, saved)


def _slices(begin_us: NDArray[np.int64], end_us: NDArray[np.int64]) -> tuple[int, int, int]:
    """Return width, start and number of slices, as narrow as their number allows."""
    first_us, last_us = int(begin_us.min()), int(end_us.max())
    least_s = -(-(last_us - first_us) // (_MOST_SLICES * 1_000_000))
    width_s = next((width for width in _WIDTHS_S if width >= least_s), -(-least_s // 86_400) * 86_400)
    width_us = width_s * 1_000_000
    from_us = first_us // width_us * width_us
    return width_us, from_us, (last_us - from_us) // width_us + 1


def _events(
    rows: NDArray[np.int64], replica: NDArray[np.int32], times_us: tuple[NDArray[np.int64], ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return row, kind and time of all events, by replica, time and kind."""
    row = np.tile(rows, 3)
    kind = np.repeat(np.array([RELEASED, PREFILLED, ADMITTED], np.int64), rows.size)
    at_us = np.concatenate([times[rows] for times in times_us])
    order = np.lexsort((row, kind, at_us, replica[row]))
    return row[order], kind[order], at_us[order]
