"""Gathers what the router of a pool may look at, and refuses what it would have to guess."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.errors import UsageError
from prefixledger.replay.kv_events import kv_events
from prefixledger.replay.lookups import identities, stable_hash
from prefixledger.replay.routers.base import RouterView
from prefixledger.replay.routers.times import flight_times, no_load
from prefixledger.replay.routing import needs_load, needs_sessions, unit_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.residence import Residence


def router_view(
    log: Log, pool: Pool, mine: NDArray[np.int64], fleet: Fleet, residence: Residence, seed: int
) -> tuple[RouterView, tuple[str, ...]]:
    """Return what a router sees, and what the reader must know of it.

    Args:
        log: All rows, lookups and blocks.
        pool: The pool.
        mine: int64[k], its lookups.
        fleet: Its replicas.
        residence: How long its lookups hold their blocks.
        seed: Decides everything that is drawn.

    Raises:
        UsageError: The router goes by a load or by sessions, and the log has none; or by caches that cannot be followed.
    """
    block_size = int(log.lookups.block_size[mine[0]])
    last_block = log.lookups.last_block[mine]
    rows = log.rows.table.take(pa.array(log.lookups.request_row[mine]))

    @cache
    def names() -> list[bytes]:
        # All lookups of the pool are named, not only the chosen: the number among equals must not depend on the router.
        last_key = np.zeros((mine.size, 2), np.uint64)
        last_key[last_block >= 0] = log.forest.key[last_block[last_block >= 0]]
        return identities(rows, last_key)

    def hashes(chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        known = names()
        return np.asarray([stable_hash(known[i], seed) for i in chosen.tolist()], np.uint64)

    options = pool.fleet.options
    notes = _unit_note(pool, block_size, unit_tokens(options))
    times = None
    if needs_load(pool.fleet.routing, options):
        times = flight_times(pool, log.lookups, mine)
        if times is None:
            raise no_load(pool, pool.fleet.routing)
        notes += times.notes
    session = has_session = None
    if needs_sessions(options):
        session, has_session, told = _sessions(rows, pool)
        notes += told
    caches, told = kv_events(log, pool, mine, fleet, block_size, residence)
    notes += told
    view = RouterView(
        started_us=log.lookups.started_us[mine],
        last_block=last_block,
        block_size=block_size,
        parent=log.forest.parent,
        key=log.forest.key,
        hashes=hashes,
        prompt_tokens=log.lookups.prompt_tokens[mine],
        first_token_us=None if times is None else times.first_token_us,
        end_us=None if times is None else times.end_us,
        session=session,
        has_session=has_session,
        capacity_blocks=pool.capacity_blocks(block_size),
        prefix_tokens=pool.fleet.prefix_tokens,
        names=tuple(replica.name for replica in fleet.replicas),
        caches=caches,
    )
    return view, notes


def _unit_note(pool: Pool, block_size: int, unit: int | None) -> tuple[str, ...]:
    """Say in which unit a router's memory is counted, where that is not its own."""
    if unit is None:
        return ()
    tokens = max(1, -(-unit // block_size)) * block_size
    told = (
        f"pool {pool.name!r}: routing {pool.fleet.routing!r} matches and remembers prompts in full blocks of {tokens} tokens: "
        "a log of keys knows no characters and no shorter unit"
    )
    return (told,)


def _sessions(rows: pa.Table, pool: Pool) -> tuple[NDArray[np.uint64], NDArray[np.bool_], tuple[str, ...]]:
    """Return a hash of the session of each row, which rows have one, and what to say of those that do not."""
    column = rows["session_id"].combine_chunks().dictionary_encode()
    known = np.asarray(column.is_valid())
    if not known.any():
        raise UsageError(
            f"pool {pool.name!r}: routing {pool.fleet.routing!r} goes by session ids, and the log has none",
            hint="map session_id, or route by prefix",
        )
    values = [stable_hash(b"session:" + name.encode(), 0) for name in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(0).to_numpy()
    missing = int((~known).sum())
    told = (
        (f"pool {pool.name!r}: {missing} lookups have no session id and are routed without one",)
        if missing
        else ()
    )
    return np.asarray(values, np.uint64)[codes], known, told
