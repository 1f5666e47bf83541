"""The curves in the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.books import rate
from prefixledger.report.heat_map import MOST_REPLICAS
from prefixledger.report.numbers import finite, iso, significant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.report import document
    from prefixledger.report.curve_parts import CapacityMark, Curves
    from prefixledger.report.view import ReportView

GIB = 1 << 30


def curves_value(view: ReportView) -> document.Curves:
    """Return the points of all curves, and today's settings."""
    return {
        "capacity": [
            {
                "pool": c.pool,
                "capacity_blocks": p.capacity_blocks,
                "hit_tokens": p.hit_tokens,
                "token_hit_rate": significant(rate(p.hit_tokens, c.prompt_tokens)),
                "clairvoyant_hit_tokens": p.clairvoyant_tokens,
                "missed_tokens": c.prompt_tokens - p.hit_tokens,
                "evicted_tokens": c.evicted_tokens(p.hit_tokens),
                "multiplier": significant(p.multiplier),
            }
            for c in view.curves
            for p in c.capacity
        ],
        "surface": [
            {
                "pool": c.pool,
                "ttl_s": significant(p.ttl_s),
                "capacity_blocks": p.capacity_blocks,
                "hit_tokens": p.hit_tokens,
                "token_hit_rate": significant(rate(p.hit_tokens, c.prompt_tokens)),
                "multiplier": significant(p.multiplier),
            }
            for c in view.curves
            for p in c.surface
        ],
        "ttl": [
            {
                "pool": c.pool,
                "ttl_s": finite(p.ttl_s),
                "hit_tokens": p.hit_tokens,
                "token_hit_rate": significant(rate(p.hit_tokens, c.prompt_tokens)),
                "multiplier": significant(p.multiplier),
                "missed_tokens": c.prompt_tokens - p.hit_tokens,
                "expired_tokens": c.expired_tokens(p.hit_tokens),
            }
            for c in view.curves
            for p in c.ttl
        ],
        "today": [
            {
                "pool": c.pool,
                "prompt_tokens": c.prompt_tokens,
                "block_size": c.block_size,
                "capacity_blocks": c.capacity_today,
                "ttl_s": significant(c.ttl_today_s),
            }
            for c in view.curves
        ],
        "ages": [
            {
                "pool": c.pool,
                "from_s": a.from_s,
                "upto_s": a.upto_s,
                "hit_tokens": a.hit_tokens,
                "evicted_tokens": a.evicted_tokens,
                "missed_tokens": a.missed_tokens,
            }
            for c in view.curves
            for a in c.ages
        ],
        "held": [value for c in view.curves for value in _held(c)],
        "models": [
            {
                "pool": c.pool,
                "model": m.model,
                "axis": m.axis,
                "mean_error_pp": finite(m.mean_error_pp),
                "worst_error_pp": finite(m.worst_error_pp),
                "worst_at": finite(m.worst_at),
                "good_enough": m.good_enough,
                "ks_statistic": significant(m.statistic),
                "p_value": significant(m.p_value),
                "parameters": {name: finite(value) for name, value in m.parameters},
                "points": [{"at": finite(at), "hit_tokens": finite(hits)} for at, hits in m.points],
            }
            for c in view.curves
            for m in c.models
        ],
        "parts": [
            {
                "pool": c.pool,
                "kind": p.kind,
                "name": p.name,
                "axis": p.axis,
                "at": finite(p.at) if p.axis == "ttl" else int(p.at),
                "prompt_tokens": p.prompt_tokens,
                "hit_tokens": p.hit_tokens,
                "token_hit_rate": significant(rate(p.hit_tokens, p.prompt_tokens)),
            }
            for c in view.curves
            for p in c.parts
        ],
        "bound": [value for c in view.curves if (value := _bound(c)) is not None],
        "knee": [_mark(c, c.knee) for c in view.curves if c.knee is not None],
        "targets": [{"share": mark.share, **_mark(c, mark)} for c in view.curves for mark in c.marks],
    }


def _held(curves: Curves) -> Iterator[document.Held]:
    """Yield what running requests held in each slice, of the replicas with the busiest moments."""
    shown = {one.replica for one in curves.held_by_replica[:MOST_REPLICAS]}
    for one in curves.held:
        if one.replica in shown:
            yield {
                "pool": curves.pool,
                "replica": one.replica,
                "at": iso(one.at_us),
                "length_s": finite(one.length_us / 1e6),
                "capacity_blocks": curves.capacity_today,
                "peak_held_blocks": one.peak_blocks,
                "mean_held_blocks": finite(one.mean_blocks),
            }


def _bound(curves: Curves) -> document.Bound | None:
    """Return what eviction takes today, parted into what a better policy could keep and what needs memory."""
    bound = curves.bound
    if bound is None or curves.capacity_today is None:  # without a limit nothing is evicted
        return None
    return {
        "pool": curves.pool,
        "capacity_blocks": curves.capacity_today,
        "hit_tokens": bound.hit_tokens,
        "clairvoyant_hit_tokens": bound.clairvoyant_tokens,
        "unlimited_hit_tokens": bound.unlimited_tokens,
        "evicted_tokens": bound.evicted_tokens,
        "better_policy_tokens": bound.better_policy_tokens,
        "needs_memory_tokens": bound.needs_memory_tokens,
    }


def _mark(curves: Curves, mark: CapacityMark) -> document.Mark:
    """Return a capacity in every unit; per replica, but for ``replicas``."""
    size = curves.kv_bytes(mark.capacity_blocks)
    return {
        "pool": curves.pool,
        "capacity_blocks": mark.capacity_blocks,
        "capacity_tokens": mark.capacity_blocks * curves.block_size,
        "gib": None if size is None else significant(size / GIB),
        "replicas": curves.replicas_of_today(mark.capacity_blocks),
        "hit_tokens": mark.hit_tokens,
        "token_hit_rate": significant(rate(mark.hit_tokens, curves.prompt_tokens)),
    }
