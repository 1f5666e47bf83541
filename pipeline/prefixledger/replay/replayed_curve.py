"""Hits at chosen capacities, each from a replay of its own: the curve of a cache that is no stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.extents import Traffic
from prefixledger.replay.profile_runs import pack_resets
from prefixledger.replay.sglang import radix_pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.pool_run import PoolRun

POINTS = 48
FEWER_POINTS = 12
MANY_LOOKUPS = 1_000_000
"""From so many on a replay takes 0.1 s and more, and fewer points must do."""


def replayed_curve(run: PoolRun) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the hits of profile ``sglang`` at capacities from the largest prompt to one that evicts nothing.

    Between two points nothing is known, not even that hits do not fall: what an access finds decides how leaves are
    split, and leaves go whole. Resets and TTL are in force; lookups that the replay refused stay out.

    Args:
        run: The pool.

    Returns:
        int64[k] capacities per replica, ascending, evenly spread on a log scale, the replayed one among them where it
        admits every prompt; int64[k] hit blocks of all replicas.
    """
    log, ttl_us = run.log, run.plan.ttl_us
    asks = np.flatnonzero(~log.refused)
    paths = build_paths(log.chains, run.last_block[asks])
    traffic = Traffic(
        arrival_us=log.admitted_us[asks],
        replica=log.replica[asks],
        prompt_tokens=np.maximum(log.prompt_tokens[asks], 1),
        keyed_blocks=log.keyed_blocks[asks],
        path_offset=paths.offset,
        path_chain=paths.chain,
    )
    pool = radix_pool(
        traffic,
        log.chains,
        block_size=log.block_size,
        replicas=log.replicas,
        resets=pack_resets(run.resets),
    )
    smallest = int(-(-traffic.prompt_tokens.max(initial=1) // log.block_size))
    largest = max(smallest, int(pool.replay(ttl_us=ttl_us).peak_blocks.max()))
    points = POINTS if len(asks) < MANY_LOOKUPS else FEWER_POINTS
    spread = np.geomspace(smallest, largest, points).round().astype(np.int64).clip(smallest, largest)
    today = run.plan.capacity_blocks
    chosen = np.unique(spread if today is None or today < smallest else np.append(spread, today))
    hits = [
        pool.replay(capacity_blocks=capacity, ttl_us=ttl_us).hit_blocks.sum(dtype=np.int64)
        for capacity in chosen.tolist()
    ]
    return chosen, np.asarray(hits, np.int64)
