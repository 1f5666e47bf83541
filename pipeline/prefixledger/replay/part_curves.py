"""Curves of parts of a pool: each replica, the prompts that begin alike, and the pool as one shared cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.block_numbers import number_blocks
from prefixledger.replay.curves import (
    capacity_curve,
    part_capacity_curves,
    part_ttl_curves,
    thin,
    ttl_curve,
)
from prefixledger.replay.touches import find_touches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.curves import CapacityCurve, TtlCurve
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.touches import PoolLog, Touches

PART_POINTS = 16
MOST_PARTS = 8
"""Replicas and beginnings of prompts that get curves of their own, those with the most prompt tokens."""


def part_curves(
    run: PoolRun, touched: Touches, keys: NDArray[np.uint64], *, sized: bool
) -> Iterator[dict[str, object]]:
    """Yield the columns of CURVE_PARTS, part by part; nothing for a pool of one replica whose prompts all begin alike.

    Args:
        run: The pool.
        touched: The same.
        keys: uint64[n, 2], key of each block.
        sized: Whether the pool has a capacity curve from one pass; else there are curves over the TTL alone.
    """
    log, ttl_us = run.log, run.plan.ttl_us
    names = [entry.name for entry in run.plan.fleet.replicas]
    for kind, part, named in (("replica", log.replica, names), ("prefix", *_beginnings(log, keys))):
        if len(named) < 2:  # noqa: PLR2004
            continue
        tokens = np.bincount(part[part >= 0], log.prompt_tokens[part >= 0], len(named)).astype(np.int64)
        chosen = sorted(np.argsort(-tokens, kind="stable")[:MOST_PARTS].tolist())
        sizes = part_capacity_curves(touched, part, len(named), ttl_us=ttl_us) if sized else ()
        lives = part_ttl_curves(touched, part, len(named))
        for number in chosen:
            curves = [*(sizes[number : number + 1]), lives[number]]
            yield from _columns(run, kind, named[number], int(tokens[number]), curves)
    if len(names) > 1:
        pooled = find_touches(replace(log, replicas=1, replica=np.zeros_like(log.replica)))
        whole = [*((capacity_curve(pooled, ttl_us=ttl_us),) if sized else ()), ttl_curve(pooled)]
        yield from _columns(run, "pooled", "", int(log.prompt_tokens.sum()), whole)


def _beginnings(log: PoolLog, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the part of each lookup, -1 where no other prompt begins alike, and the key of what each part has in common."""
    offset = log.paths.offset
    walks = (offset[1:] > offset[:-1]) & ~log.refused
    root = np.full(len(log), -1, np.int64)
    root[walks] = log.paths.chain[offset[:-1][walks]]
    chains, count = np.unique(root[walks], return_counts=True)
    shared = chains[count > 1]
    blocks = number_blocks(log.chains).at(shared, log.chains.chain_length[shared].astype(np.int64) - 1)
    part = np.full(log.chains.chain_length.size + 1, -1, np.int64)  # the last: of no beginning
    part[shared] = np.arange(shared.size)
    return part[root], [bytes(keys[block].astype("<u8").tobytes()).hex() for block in blocks]


def _columns(
    run: PoolRun, kind: str, name: str, prompt_tokens: int, curves: Sequence[CapacityCurve | TtlCurve]
) -> Iterator[dict[str, object]]:
    for curve in curves:
        at, hits = thin(curve, PART_POINTS)
        many = at.size
        yield {
            "pool": np.full(many, run.plan.index),
            "kind": [kind] * many,
            "name": [name] * many,
            "prompt_tokens": np.full(many, prompt_tokens),
            "axis": ["capacity" if hasattr(curve, "capacity_blocks") else "ttl"] * many,
            "at": at,
            "hit_tokens": hits * run.plan.block_size,
        }
