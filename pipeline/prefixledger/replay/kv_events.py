"""Tells a router what every cache holds when a request arrives, as the KV events of the engines would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.chains import build_chains
from prefixledger.replay.live_caches import LiveCaches
from prefixledger.replay.profile_runs import pack_resets
from prefixledger.replay.queued import queue_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.residence import Residence


class KvEvents:
    """What the caches of a pool hold while its lookups, in order of arrival, are being routed."""

    def __init__(self, caches: LiveCaches, queue: NDArray[np.int64], lag_us: int = 0) -> None:
        """Begin with nobody routed.

        Args:
            caches: At their start; rows in the order in which they ask to be admitted.
            queue: int64[k], lookup of each of these rows.
            lag_us: How long it takes until the router hears of what happened.
        """
        row = np.empty(queue.size, np.int64)
        row[queue] = np.arange(queue.size)
        self._row: list[int] = row.tolist()
        self._caches = caches
        self._lag_us = lag_us

    def match(self, lookup: int, now_us: int) -> list[int]:
        """Count the blocks at the head of a prompt that each replica holds when it arrives, as far as is heard of by then."""
        self._caches.advance(now_us - self._lag_us)
        resident: list[int] = self._caches.resident(self._row[lookup]).tolist()
        return resident

    def remember(self, lookup: int, replica: int) -> None:
        """Take note of where a lookup went."""
        self._caches.place(self._row[lookup], replica)


def kv_events(
    log: Log, pool: Pool, mine: NDArray[np.int64], fleet: Fleet, block_size: int, residence: Residence
) -> tuple[KvEvents | None, tuple[str, ...]]:
    """Return what tells the router of a pool about its caches, and what the reader must know of it.

    Args:
        log: All lookups.
        pool: The pool.
        mine: int64[k], its lookups, in order of arrival.
        fleet: Its replicas.
        block_size: Tokens per block.
        residence: How long lookups hold their blocks.

    Returns:
        None for a router that goes without KV events.

    Raises:
        UsageError: It asks for them, and the caches of this pool cannot be followed while requests are routed.
    """
    routing, options = pool.fleet.routing, pool.fleet.options
    wanted = options.events
    if wanted == "never":
        return None, ()
    unknown = _unknown(pool)
    if unknown is not None and wanted == "always":
        raise UsageError(
            f"pool {pool.name!r}: routing {routing!r} cannot go by what the caches hold: {unknown}",
            hint='set mode = "approximate" under its router, or replay profile "vllm" without a tier',
        )
    if unknown is not None:
        return None, (
            f"pool {pool.name!r}: routing {routing!r} goes by what it sent, not by what the caches hold: {unknown}",
        )
    chains = build_chains(log.forest.parent)
    asked = queue_up(log, chains, mine, np.zeros(mine.size, np.int64), block_size, residence)
    caches = LiveCaches(
        asked.traffic,
        chains.chain_length,
        block_size=block_size,
        replicas=len(fleet.replicas),
        capacity_blocks=pool.capacity_blocks(block_size),
        ttl_us=pool.cache.ttl_us,
        output=asked.output,
        resets=pack_resets(fleet.resets),
        hit_saves_us=residence.hit_saves_us,
        unhashed_in_line=pool.cache.unhashed_in_line,
        most_running=residence.most_running,
    )
    heard = "at once" if options.lag_us == 0 else f"{options.lag_us / 1000:g} ms later"
    told = f"pool {pool.name!r}: routing {routing!r} hears {heard} of what every cache stores and removes, and loses nothing of it"
    return KvEvents(caches, asked.queue, options.lag_us), (told,)


def _unknown(pool: Pool) -> str | None:
    """Say why the caches of a pool cannot be followed while its lookups are routed; None: they can."""
    if pool.cache.profile != "vllm":
        return f'only profile "vllm" is replayed while requests are routed, not {pool.cache.profile!r}'
    if pool.tier is not None:
        return "what its lower tier holds is replayed only after all requests are routed"
    return None
