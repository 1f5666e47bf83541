"""Reads the curves that a replay left behind, and prices every time to live."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.config.kv_size import bytes_per_token
from prefixledger.economics.rates import PRICE_LIST, resolve, varies
from prefixledger.report.curve_parts import AgeRange, CapacityMark, CapacityPoint, Curves, PartPoint, TtlPoint
from prefixledger.report.from_marts import microseconds
from prefixledger.report.held_parts import HeldSlice
from prefixledger.report.models import models

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from prefixledger.attribute.marts import Marts
    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.economics.rates import RateCard
    from prefixledger.replay.summary import PoolSummary, ReplaySummary

_WHOLE_LOG = "Over the whole log, one request at a time, without the memory of running requests."
_REPLAYED = " Each capacity is a replay of its own; between two of them nothing is known, for whole leaves are evicted."
_LONG_US = 1 << 62
"""A lifetime that only the dearer of two write prices pays for."""


def pool_curves(summary: ReplaySummary, scenario: Scenario, marts: Marts) -> tuple[Curves, ...]:
    """Return the curves of every pool, the one with the most prompt tokens first.

    A pool that a provider runs, or that has a TTL and no capacity, is not ours to size: it has a TTL curve only.
    """
    folder = summary.folder
    names = ("capacity_curve", "capacity_marks", "ttl_curve")
    capacity, marks, ttl = (pq.read_table(folder / f"{name}.parquet") for name in names)
    facts = pq.read_table(
        folder / "lookup_facts.parquet", columns=["pool", "full_blocks", "stored_blocks", "refused"]
    )
    reuse, gaps = (pq.read_table(folder / f"{name}.parquet") for name in ("reuse", "gaps"))
    found = [
        _curves(
            one,
            scenario.pool[one.pool],
            _rows(capacity, one.pool),
            _rows(marks, one.pool),
            _rows(ttl, one.pool),
            _card(scenario, one, marts),
            facts,
            tuple(
                AgeRange(**{k: v for k, v in row.items() if k != "pool"})
                for row in _rows(marts.ages, one.pool)
            ),
        )
        for one in summary.pools
    ]
    held = [
        replace(
            curves,
            models=models(curves, *(t.filter(pc.equal(t["pool"], one.pool)) for t in (reuse, gaps))),
            held=tuple(_held(row) for row in _rows(marts.held_slices, one.pool)),
        )
        for curves, one in zip(found, summary.pools, strict=True)
    ]
    parts = pq.read_table(folder / "curve_parts.parquet")
    held = [
        replace(curves, parts=tuple(_part(row) for row in _rows(parts, one.pool)))
        for curves, one in zip(held, summary.pools, strict=True)
    ]
    return tuple(sorted(held, key=lambda c: (-c.prompt_tokens, c.pool)))


def _part(row: dict[str, Any]) -> PartPoint:
    at = row["at"] / 1e6 if row["axis"] == "ttl" else float(row["at"])
    return PartPoint(row["kind"], row["name"], row["prompt_tokens"], row["axis"], at, row["hit_tokens"])


def _held(row: dict[str, Any]) -> HeldSlice:
    at_us = microseconds(row["slice_at"]) or 0
    return HeldSlice(row["replica"], at_us, row["length_us"], row["peak_blocks"], row["block_us"])


def _rows(table: pa.Table, pool: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.equal(table["pool"], pool)).to_pylist()
    return rows


def _curves(
    one: PoolSummary,
    pool: Pool,
    capacity: list[dict[str, Any]],
    marks: list[dict[str, Any]],
    ttl: list[dict[str, Any]],
    card: RateCard | None,
    facts: pa.Table,
    ages: tuple[AgeRange, ...],
) -> Curves:
    mine = facts.filter(pc.equal(facts["pool"], one.pool))
    stored = pc.coalesce(mine["stored_blocks"], mine["full_blocks"])
    full_tokens = (pc.sum(stored).as_py() or 0) * one.block_size
    shape = pool.model
    ours = not pool.hosted and (one.capacity_blocks is not None or one.ttl_us is None)
    return Curves(
        pool=one.name,
        prompt_tokens=one.prompt_tokens,
        capacity=()
        if not ours
        else tuple(
            CapacityPoint(r["capacity_blocks"], r["hit_tokens"], r["clairvoyant_tokens"]) for r in capacity
        ),
        capacity_today=one.capacity_blocks,
        block_size=one.block_size,
        kv_bytes_per_block=None if shape is None else round(bytes_per_token(shape) * one.block_size),
        ttl=tuple(
            TtlPoint(
                r["ttl_us"] / 1e6,
                r["hit_tokens"],
                _multiplier(card, r["ttl_us"], r["hit_tokens"], full_tokens, one.prompt_tokens),
            )
            for r in ttl
        ),
        ttl_today_s=None if one.ttl_us is None else one.ttl_us / 1e6,
        note=_WHOLE_LOG + (_REPLAYED if one.profile == "sglang" else ""),
        marks=tuple(CapacityMark(r["share"], r["capacity_blocks"], r["hit_tokens"]) for r in marks if ours),
        replicas=len(one.replicas),
        ages=ages,
    )


def _multiplier(card: RateCard | None, ttl_us: int, hit: int, full: int, prompt: int) -> float | None:
    """Return (uncached + r x read + w x written) / prompt: missed full blocks are written."""
    if card is None or not prompt:
        return None
    written = max(0, full - hit)
    w, r = float(card.w(ttl_us)), float(card.r)
    return (prompt - hit - written + r * hit + w * written) / prompt


def _card(scenario: Scenario, one: PoolSummary, marts: Marts) -> RateCard | None:
    """Return the one rate card of a pool; None where its lookups pay several prices."""
    pricing = scenario.pricing_of(scenario.pool[one.pool])
    if not varies(pricing):
        return resolve(pricing, model=None, provider=None, at_us=0)[0].card
    # Prices that vary come from the price list, those of other pools need not.
    listed: Iterable[RateCard] = (use.card for use in marts.cards if use.card.source.startswith(PRICE_LIST))
    ratios = {(card.w(), card.w(_LONG_US), card.r): card for card in listed}
    return next(iter(ratios.values())) if len(ratios) == 1 else None
