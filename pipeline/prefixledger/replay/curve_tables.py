"""The curves of a replay as tables: thinned to points at which every number is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger import schema, schema_curves
from prefixledger.replay.clairvoyant import clairvoyant_hits
from prefixledger.replay.curves import CapacityCurve, capacity_curve, reusable, thin, ttl_curve
from prefixledger.replay.last_use import uses_of_pairs
from prefixledger.replay.part_curves import part_curves
from prefixledger.replay.replayed_curve import replayed_curve
from prefixledger.replay.tables import typed_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.touches import Touches

CURVE_POINTS = 200
"""Points of a stored curve; at each the number is exact."""

BOUND_POINTS = 25
"""Points at which the clairvoyant bound stands beside a curve, today's capacity besides; each takes 5 ms of 50,000 requests."""


GAP_SAMPLE = 1000
"""Times between two uses that distributions are fitted to."""

SURFACE_TTLS_S = (60, 300, 900, 3_600, 14_400, 86_400)
"""Times to live of the surface, beside none at all and that of today; those longer than any time between two uses change nothing."""

SURFACE_SIZES = 10
"""Capacities of the surface, evenly in powers, today's besides."""

MARKS = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Shares of the hits without a limit for which the smallest capacity is told."""


def curve_files(
    runs: Sequence[PoolRun], touches: Sequence[Touches], keys: NDArray[np.uint64]
) -> dict[str, pa.Table]:
    """Draw the curves of every pool, and of parts of those that run engines; ``keys`` are those of the blocks, uint64[n, 2]."""
    pairs = list(zip(runs, touches, strict=True))
    sizes = [_capacity(*pair) for pair in pairs if sizable(pair[0])]
    return {
        "capacity_curve.parquet": _joined(schema_curves.CAPACITY_CURVE, [points for points, _ in sizes]),
        "capacity_marks.parquet": _joined(schema_curves.CAPACITY_MARKS, [marks for _, marks in sizes]),
        "curve_surface.parquet": _joined(
            schema_curves.CURVE_SURFACE,
            [part for pair in pairs if sizable(pair[0]) and stacked(pair[0]) for part in _surface(*pair)],
        ),
        "curve_parts.parquet": _joined(
            schema_curves.CURVE_PARTS,
            [
                part
                for run, touched in pairs
                if run.hosted is None
                for part in part_curves(run, touched, keys, sized=sizable(run) and stacked(run))
            ],
        ),
        "reuse.parquet": _joined(schema_curves.REUSE, [_reuse(*pair) for pair in pairs]),
        "gaps.parquet": _joined(schema_curves.GAPS, [_gaps(*pair) for pair in pairs]),
        "ttl_curve.parquet": _joined(schema_curves.TTL_CURVE, [_ttl(*pair) for pair in pairs]),
    }


def sizable(run: PoolRun) -> bool:
    """Return whether a pool has a capacity curve: no textbook cache, no lower tier, and memory that is ours to size."""
    pool = run.plan.pool
    return pool.cache.profile != "textbook" and pool.tier is None and run.hosted is None


def stacked(run: PoolRun) -> bool:
    """Return whether one pass gives the curve; else the cache is no stack, or a skipped lookup makes copies."""
    return run.plan.pool.cache.profile != "sglang" and run.log.bypassed is None


def _capacity(run: PoolRun, touched: Touches) -> tuple[dict[str, object], dict[str, object]]:
    """Return the columns of CAPACITY_CURVE for one pool, today's capacity among the points, and of CAPACITY_MARKS.

    Of a cache that is no stack only the replayed points are known, so its marks are points.
    """
    today = run.plan.capacity_blocks
    if stacked(run):
        curve = capacity_curve(touched, ttl_us=run.plan.ttl_us)
        at, _ = thin(curve, CURVE_POINTS)
        if today is not None and today >= at[0]:
            at = np.unique(np.append(at, today))
        hits = curve.hits_at(at)
    else:
        at, hits = replayed_curve(run)
        curve = CapacityCurve(at, np.maximum.accumulate(hits))
    points = {**_columns(run, "capacity_blocks", at, hits), "clairvoyant_tokens": _bound(run, touched, at)}
    most = int(curve.hit_blocks[-1])
    if not most:
        return points, {}
    wanted = [-(-most * round(100 * share) // 100) for share in MARKS]
    if stacked(run):
        marks = [curve.smallest_for(hits) for hits in wanted]
    else:
        marks = curve.capacity_blocks[np.searchsorted(curve.hit_blocks, wanted)].tolist()
    chosen = np.asarray(marks, np.int64)
    found = curve.hits_at(chosen) if stacked(run) else hits[np.searchsorted(at, chosen)]
    return points, {**_columns(run, "capacity_blocks", chosen, found), "share": MARKS}


def _surface(run: PoolRun, touched: Touches) -> Iterator[dict[str, object]]:
    """Yield the columns of CURVE_SURFACE for one pool, a time to live after the other: what expires is at the cold end anyway.

    Copies take room in a way that depends on both, so there is one pass for each time to live.
    """
    today, longest = run.plan.capacity_blocks, ttl_curve(touched).ttl_us[-1:].tolist()
    whole = capacity_curve(touched, ttl_us=None).capacity_blocks
    low, high = int(whole[0]), int(whole[-1])
    if not longest or low == high:
        return
    at = np.unique(np.geomspace(low, high, SURFACE_SIZES).round().astype(np.int64))
    if today is not None and low <= today <= high:
        at = np.unique(np.append(at, today))
    lives = {ttl * 1_000_000 for ttl in SURFACE_TTLS_S if ttl * 1_000_000 < longest[0]}
    lives |= {run.plan.ttl_us} if run.plan.ttl_us is not None else set()
    for ttl_us in (*sorted(lives), None):
        hits = capacity_curve(touched, ttl_us=ttl_us).hits_at(at)
        ttl = pa.array([ttl_us] * at.size, pa.int64())
        yield {**_columns(run, "capacity_blocks", at, hits), "ttl_us": ttl}


def _bound(run: PoolRun, touched: Touches, at: NDArray[np.int64]) -> pa.Array:
    chosen = np.zeros(at.size, np.bool_)
    chosen[np.linspace(0, at.size - 1, min(BOUND_POINTS, at.size)).round().astype(np.int64)] = True
    chosen |= at == run.plan.capacity_blocks
    tokens = np.zeros(at.size, np.int64)
    tokens[chosen] = clairvoyant_hits(touched, at[chosen], ttl_us=run.plan.ttl_us) * run.plan.block_size
    return pa.array(tokens, mask=~chosen)


def _ttl(run: PoolRun, touched: Touches) -> dict[str, object]:
    at, hits = thin(ttl_curve(touched), CURVE_POINTS) if run.hosted is None else run.hosted.ttl_curve()
    return _columns(run, "ttl_us", at, hits)


def _reuse(run: PoolRun, touched: Touches) -> dict[str, object]:
    """Return the columns of REUSE: of a pair's chain as many blocks have k uses or more as its k-th longest use is long."""
    offset, _, reach = uses_of_pairs(touched)
    pair = np.repeat(np.arange(offset.size - 1), np.diff(offset))
    reach = reach[offset[0] : offset[-1]].astype(np.int64)
    order = np.lexsort((-reach, pair))
    longest, pair = reach[order], pair[order]
    rank = np.arange(pair.size) - (offset[:-1] - offset[0])[pair]
    last = np.append(pair[1:] != pair[:-1], True) if pair.size else np.empty(0, np.bool_)
    exactly = longest - np.where(last, 0, np.append(longest[1:], 0))
    blocks = np.bincount(rank + 1, exactly).astype(np.int64)
    uses = np.flatnonzero(blocks)
    at_us = run.log.admitted_us
    span_us = int(at_us[-1] - at_us[0]) if at_us.size else 0
    return {
        "pool": np.full(uses.size, run.plan.index),
        "uses": uses,
        "blocks": blocks[uses],
        "span_us": np.full(uses.size, span_us),
    }


def _gaps(run: PoolRun, touched: Touches) -> dict[str, object]:
    """Return the columns of GAPS: blocks that could hit, ordered by gap, sampled evenly."""
    slot, previous, begin, end = reusable(touched)
    at_us = touched.log.admitted_us[touched.order]
    gap_us = at_us[slot] - at_us[previous]
    order = np.argsort(gap_us, kind="stable")
    upto = np.cumsum((end - begin)[order], dtype=np.int64)
    many = min(GAP_SAMPLE, int(upto[-1])) if upto.size else 0
    chosen = (2 * np.arange(many) + 1) * (int(upto[-1]) if many else 0) // (2 * max(many, 1))
    gaps = gap_us[order][np.searchsorted(upto, chosen, side="right")]
    return {"pool": np.full(many, run.plan.index), "rank": np.arange(many), "gap_us": gaps}


def _columns(run: PoolRun, axis: str, at: NDArray[np.int64], hits: NDArray[np.int64]) -> dict[str, object]:
    return {
        "pool": np.full(hits.size, run.plan.index),
        axis: at,
        "hit_blocks": hits,
        "hit_tokens": hits * run.plan.block_size,
    }


def _joined(table: schema.Table, parts: Sequence[dict[str, object]]) -> pa.Table:
    whole = [typed_table(table, part) for part in parts if part]
    return pa.concat_tables([table.arrow().empty_table(), *whole]).combine_chunks()
