"""Hits at chosen capacities, each from a replay of its own: the curve of a cache that is no stack, or has copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Replayed, Traffic, replay_extents
from prefixledger.replay.profile_runs import pack_resets
from prefixledger.replay.sglang import radix_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.replay.pool_run import PoolRun

POINTS = 48
FEWER_POINTS = 12
MANY_LOOKUPS = 1_000_000
"""From so many on a replay takes 0.1 s and more, and fewer points must do."""


def replayed_curve(run: PoolRun) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the hits at capacities from the largest prompt to one that evicts nothing.

    Profile ``sglang``: between two points nothing is known, not even that hits do not fall: what an access finds decides
    how leaves are split, and leaves go whole. Profile ``vllm``, where lookups are skipped: each of them leaves second
    copies of its whole prompt. Resets and TTL are in force; lookups that the replay refused stay out.

    Args:
        run: The pool.

    Returns:
        int64[k] capacities per replica, ascending, evenly spread on a log scale, the replayed one among them where it
        admits every prompt; int64[k] hit blocks of all replicas.
    """
    log = run.log
    asks = np.flatnonzero(~log.refused)
    paths = build_paths(log.chains, run.last_block[asks])
    traffic = Traffic(
        arrival_us=log.admitted_us[asks],
        replica=log.replica[asks],
        prompt_tokens=np.maximum(log.prompt_tokens[asks], 1),
        keyed_blocks=log.keyed_blocks[asks],
        path_offset=paths.offset,
        path_chain=paths.chain,
        reach_blocks=None if log.bypassed is None else np.where(log.bypassed[asks], 0, UNLIMITED_BLOCKS),
    )
    smallest = int(-(-traffic.prompt_tokens.max(initial=1) // log.block_size))
    peak_blocks, hits_at = (_radix if run.plan.pool.cache.profile == "sglang" else _blocks)(run, traffic)
    largest = max(smallest, peak_blocks)
    points = POINTS if len(asks) < MANY_LOOKUPS else FEWER_POINTS
    spread = np.geomspace(smallest, largest, points).round().astype(np.int64).clip(smallest, largest)
    today = run.plan.capacity_blocks
    chosen = np.unique(spread if today is None or today < smallest else np.append(spread, today))
    return chosen, np.asarray([hits_at(capacity) for capacity in chosen.tolist()], np.int64)


def _radix(run: PoolRun, traffic: Traffic) -> tuple[int, Callable[[int], int]]:
    """Return the capacity that evicts nothing, and the hits at any."""
    log, ttl_us = run.log, run.plan.ttl_us
    pool = radix_pool(
        traffic,
        log.chains,
        block_size=log.block_size,
        replicas=log.replicas,
        resets=pack_resets(run.resets),
    )

    def hits_at(capacity: int) -> int:
        return int(pool.replay(capacity_blocks=capacity, ttl_us=ttl_us).hit_blocks.sum(dtype=np.int64))

    return int(pool.replay(ttl_us=ttl_us).peak_blocks.max()), hits_at


def _blocks(run: PoolRun, traffic: Traffic) -> tuple[int, Callable[[int], int]]:
    """Return a capacity at which all hits are there, and the hits at any."""
    log = run.log

    def replay(capacity: int | None) -> Replayed:
        return replay_extents(
            traffic,
            log.chains.chain_length,
            block_size=log.block_size,
            replicas=log.replicas,
            capacity_blocks=capacity,
            ttl_us=run.plan.ttl_us,
            resets=pack_resets(run.resets),
            unhashed_in_line=log.unhashed_in_line,
        )

    all_hits = int(replay(None).hit_blocks.sum(dtype=np.int64))
    # What is computed takes at most so much room, copies and partial tails included.
    computed = int((-(-traffic.prompt_tokens // log.block_size)).sum()) - all_hits
    low, high = 0, computed
    while low < high:  # more room never hits less
        middle = (low + high) // 2
        if int(replay(middle).hit_blocks.sum(dtype=np.int64)) < all_hits:
            low = middle + 1
        else:
            high = middle
    return high, lambda capacity: int(replay(capacity).hit_blocks.sum(dtype=np.int64))
