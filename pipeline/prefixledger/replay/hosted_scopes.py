"""Who shares a hosted cache: the scopes that a log tells apart, and the further caches that too much load spills into."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.replay.block_numbers import ancestors, number_blocks
from prefixledger.replay.chains import build_chains
from prefixledger.replay.fleet import ALL, logged_names
from prefixledger.replay.hosted_rules import lookup_rules
from prefixledger.replay.routers.base import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.lookups import Log

HEAD_TOKENS = 256
"""What is hashed to choose a machine."""
_MINUTE_US = 60_000_000
_OVERFLOW = BRANCHES.index("overflow")


@dataclass(frozen=True, slots=True)
class Scopes:
    """The caches of a hosted pool.

    Attributes:
        names: In order.
        position: int64[n], cache of each row of the pool.
        branch: int8[k], ``overflow`` for the lookups that spilled, -1 for others; None: nothing did.
        notes: What is said of it.
    """

    names: list[str]
    position: NDArray[np.int64]
    branch: NDArray[np.int8] | None
    notes: tuple[str, ...]


def hosted_scopes(log: Log, pool: Pool, pool_rows: NDArray[np.int64], mine: NDArray[np.int64]) -> Scopes:
    """Tell the caches of a hosted pool apart.

    Args:
        log: All lookups.
        pool: The pool.
        pool_rows: int64[n], its rows.
        mine: int64[k], its lookups.

    Raises:
        UsageError: See ``lookup_rules``.
    """
    rules = lookup_rules(pool, log, mine)
    table = log.rows.table.select(["replica", *rules.scope_by]).take(pa.array(pool_rows))
    names, position = logged_names(_told_apart(table, rules.scope_by))
    where = np.searchsorted(pool_rows, log.lookups.request_row[mine])
    if not rules.overflow_rpm.any():
        return Scopes(names, position, None, ())
    spilled = _spills(log, mine, position[where], rules.overflow_rpm)
    if not spilled.any():
        return Scopes(names, position, None, ())
    full = np.asarray([names[at] for at in position], dtype=object)
    for at in np.flatnonzero(spilled):
        full[where[at]] = f"{full[where[at]]} overflow {spilled[at]}"
    more, moved = logged_names(pa.chunked_array([pa.array(full, pa.string())]))
    note = (
        f"pool {pool.name!r}: {np.count_nonzero(spilled)} lookups came when {rules.overflow_rpm.max()} others with the same "
        "head and key had asked their cache within a minute, and are taken to ask another one; providers tell no more than "
        "that this happens, overflow_rpm in [pool.cache] sets the limit, 0 for none"
    )
    branch = np.where(spilled > 0, _OVERFLOW, -1).astype(np.int8)
    return Scopes(more, moved, branch, (note,))


def _told_apart(table: pa.Table, by: tuple[str, ...]) -> pa.ChunkedArray:
    """Return the replica column, with the value of each column that tells scopes apart behind it, where it has several."""
    replica = table["replica"]
    for name in by:
        values = table[name].to_pylist()
        if len(set(values)) > 1:
            joined = [
                logged if value is None else f"{logged or ALL} {value}"
                for logged, value in zip(replica.to_pylist(), values, strict=True)
            ]
            replica = pa.chunked_array([pa.array(joined, pa.string())])
    return replica


def _spills(
    log: Log, mine: NDArray[np.int64], cache: NDArray[np.int64], rpm: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64[k]: which further cache each lookup asks, 0 for the first.

    Each goes to the first cache of its head that took fewer than its limit in the minute before.
    """
    spilled = np.zeros(mine.size, np.int64)
    at_us = log.lookups.started_us[mine].tolist()
    asked: dict[Hashable, list[deque[int]]] = {}
    limits = rpm.tolist()
    for number, head in enumerate(_heads(log, mine, cache)):
        if limits[number] == 0 or head is None:
            continue
        caches = asked.setdefault(head, [])
        for times in caches:
            while times and times[0] <= at_us[number] - _MINUTE_US:
                times.popleft()
        free = (place for place, times in enumerate(caches) if len(times) < limits[number])
        chosen = next(free, len(caches))
        if chosen == len(caches):
            caches.append(deque())
        caches[chosen].append(at_us[number])
        spilled[number] = chosen
    return spilled


def _heads(log: Log, mine: NDArray[np.int64], cache: NDArray[np.int64]) -> Iterator[Hashable | None]:
    """Yield cache, key of the application and first tokens of each lookup, None where it has no block."""
    known = log.lookups
    keyed, size = known.n_blocks[mine], np.maximum(known.block_size[mine], 1)
    some = np.flatnonzero(keyed > 0)
    block = np.full(mine.size, -1, np.int64)
    if some.size:
        chains = build_chains(log.forest.parent)
        depth = np.clip(HEAD_TOKENS // size[some], 1, keyed[some])
        block[some] = ancestors(chains, number_blocks(chains), known.last_block[mine][some], depth)
    tenant = log.rows.table["tenant"].take(pa.array(known.request_row[mine])).to_pylist()
    for where, who, head in zip(cache.tolist(), tenant, block.tolist(), strict=True):
        yield None if head < 0 else (where, who, head)
