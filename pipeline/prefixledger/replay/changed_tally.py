"""Tells, in tallies, what was served before under another key from what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.replay.changes import find_changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.prepared import Prepared
    from prefixledger.replay.tally import PoolTally

_ABSENT = ("own_previous", "else_previous", "resident_replica", "rule")


def tell_changes(
    prepared: Prepared, tallies: tuple[PoolTally, ...], group: NDArray[np.int64]
) -> tuple[PoolTally, ...]:
    """Return tallies with the blocks that a full replay of the same pools would find changed.

    What nobody had asked for before depends on order and admission alone, so it is looked for once for all capacities and
    TTLs that change neither.

    Args:
        prepared: The log; without contents nothing is proven.
        tallies: All pools.
        group: int64[m], group of every lookup of the log, by arrival.
    """
    if prepared.log.contents is None:
        return tallies
    key = tuple((id(tally.plan.mine), tally.plan.pool.cache.profile) for tally in tallies)
    fixed = all(tally.fixed for tally in tallies)
    found = prepared.changes.get(key) if fixed else None
    if found is None:
        found = _find(prepared, tallies)
        if fixed:
            prepared.changes[key] = found
    pool, lookup, first, end = found
    return tuple(
        tally.with_changes(group, *(part[pool == number] for part in (lookup, first, end)))
        for number, tally in enumerate(tallies)
    )


def _find(
    prepared: Prepared, tallies: tuple[PoolTally, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return place of the pool, lookup by admission there, first block and end of every change, by pool and lookup."""
    assert prepared.log.contents is not None
    sizes = [tally.lookup.size for tally in tallies]
    arrival, admitted_us, queued_us, cap_blocks = (
        np.concatenate([getattr(tally, name) for tally in tallies])
        for name in ("lookup", "admitted_us", "queued_us", "cap_blocks")
    )
    order = np.lexsort((arrival, queued_us, admitted_us))
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    begins = np.cumsum([0, *sizes[:-1]])
    unseen = np.concatenate(
        [tally.unseen[:, 0] + at for tally, at in zip(tallies, begins.tolist(), strict=True)]
    )
    pieces = pa.table(
        {
            "lookup": number[unseen],
            "first_block": np.concatenate([tally.unseen[:, 1] for tally in tallies]),
            "hit": np.zeros(unseen.size, np.bool_),
            **{name: pa.nulls(unseen.size, pa.int64()) for name in _ABSENT},
        }
    )
    block_size = np.repeat([tally.plan.block_size for tally in tallies], sizes)
    of_lookups = pa.table(
        {
            "block_size": block_size[order],
            "cap_blocks": cap_blocks[order],
            "prompt_tokens": prepared.log.lookups.prompt_tokens[arrival[order]],
        }
    )
    changes = find_changes(prepared.log.contents, pieces, of_lookups, arrival[order])
    place = order[changes.lookup]
    pool = np.searchsorted(begins, place, side="right") - 1
    local = place - begins[pool]
    by_pool = np.lexsort((changes.first_block, local, pool))
    return pool[by_pool], local[by_pool], changes.first_block[by_pool], changes.end_block[by_pool]
