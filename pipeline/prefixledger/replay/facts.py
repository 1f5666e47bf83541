"""Collects the evidence of a replayed pool: segments with their facts, and warm-ups."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.registry import PROFILES
from prefixledger.replay.evidence import FOR_EVER_US, Evidence, Lifetimes, RemovalLog, collect_evidence
from prefixledger.replay.warmup import WarmUp, warm_ups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.touches import Touches


def pool_evidence(run: PoolRun, touches: Touches, *, distances: bool = True) -> Evidence:
    """Return the segments of a pool.

    Args:
        run: The pool.
        touches: Its lookups, with the resets that took effect.
        distances: Whether the capacities that blocks would have needed are wanted; no cause goes by them.
    """
    if run.hosted is not None:
        return run.hosted.evidence(touches.resets.event)
    fleet = run.plan.fleet.replicas
    lifetimes = Lifetimes(
        live_from_us=np.asarray([replica.live_from_us for replica in fleet], np.int64),
        live_to_us=np.asarray(
            [FOR_EVER_US if replica.live_to_us is None else replica.live_to_us for replica in fleet], np.int64
        ),
        rank=np.arange(len(fleet), dtype=np.int32),  # fleets are in order of name
    )
    removals = RemovalLog(
        lookup=run.gone.lookup,
        at_us=run.gone.at_us,
        replica=run.gone.replica.astype(np.int32),
        chain=run.gone.chain.astype(np.int32),
        resident=run.gone.first.astype(np.int32),  # behind a hole nothing can hit, so the first one counts
        expired=run.gone.expired,
        after=run.gone.after,
        admits=run.gone.admits,
    )
    found = collect_evidence(
        touches,
        run.hit_blocks,
        lifetimes,
        removals=removals,
        ttl_us=run.plan.ttl_us,
        distances=distances and PROFILES[run.plan.pool.cache.profile].stack,
        in_flight=run.in_flight,
    )
    if run.plan.pool.tier is None or not run.plan.pool.tier.shared:
        return found
    # What happens to a replica takes nothing out of a store that all share: it had to make room there.
    none = np.full(len(found), -1, np.int64)
    return replace(found, own_reset=none, else_reset=none)


def pool_warm_ups(run: PoolRun, since_us: NDArray[np.int64], log_us: int) -> list[WarmUp]:
    """Return the warm-ups of a pool, replicas numbered among those of all pools.

    Args:
        run: The pool.
        since_us: int64[m], ``covered_since`` of every lookup, in order of arrival.
        log_us: Length of the whole log.
    """
    found = warm_ups(
        run.log.replica.astype(np.int64),
        run.log.admitted_us,
        since_us[run.lookup],
        _evictions(run),
        ttl_us=run.plan.ttl_us,
        log_us=log_us,
    )
    first = run.plan.first_replica
    return [WarmUp(first + each.replica, each.from_us, each.to_us, each.cause) for each in found]


def _evictions(run: PoolRun) -> dict[int, NDArray[np.int64]]:
    """Return the times at which each replica evicted; the first may have taken nothing with a key."""
    evicted = ~run.gone.expired
    first_us = run.first_eviction_us
    some = np.flatnonzero(first_us >= 0)
    replica = np.concatenate([run.gone.replica[evicted], some])
    at_us = np.concatenate([run.gone.at_us[evicted], first_us[some]])
    order = np.lexsort((at_us, replica))
    bounds = np.searchsorted(replica[order], np.arange(first_us.size + 1))
    return {
        number: at_us[order[begin:end]]
        for number, (begin, end) in enumerate(pairwise(bounds.tolist()))
        if begin < end
    }
