"""Reads the curves that a replay left behind, and prices every time to live."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.config.kv_size import bytes_per_token
from prefixledger.economics.rates import PRICE_LIST, resolve, varies
from prefixledger.report.curve_parts import (
    AgeRange,
    CapacityMark,
    CapacityPoint,
    Curves,
    PartPoint,
    SurfacePoint,
    TtlPoint,
)
from prefixledger.report.from_marts import microseconds
from prefixledger.report.held_parts import HeldSlice
from prefixledger.report.models import models
from prefixledger.report.rate_lines import rate_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from prefixledger.attribute.marts import Marts
    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.economics.rates import RateCard
    from prefixledger.replay.summary import PoolSummary, ReplaySummary
    from prefixledger.report.rate_lines import RateLine

_WHOLE_LOG = "Over the whole log, one request at a time, without the memory of running requests."
_REPLAYED = " Each capacity is a replay of its own; between two of them nothing is known, for whole leaves are evicted."


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
            rate_lines(_cards(scenario, one, marts)),
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
    surface = pq.read_table(folder / "curve_surface.parquet")
    held = [
        replace(
            curves,
            parts=tuple(_part(row) for row in _rows(parts, one.pool)),
            surface=tuple(_surface(curves, row) for row in _rows(surface, one.pool) if curves.capacity),
        )
        for curves, one in zip(held, summary.pools, strict=True)
    ]
    return tuple(sorted(held, key=lambda c: (-c.prompt_tokens, c.pool)))


def _part(row: dict[str, Any]) -> PartPoint:
    at = row["at"] / 1e6 if row["axis"] == "ttl" else float(row["at"])
    return PartPoint(row["kind"], row["name"], row["prompt_tokens"], row["axis"], at, row["hit_tokens"])


def _surface(curves: Curves, row: dict[str, Any]) -> SurfacePoint:
    ttl_s = None if row["ttl_us"] is None else row["ttl_us"] / 1e6
    price = _multiplier(
        curves.rates, ttl_s or 0.0, row["hit_tokens"], curves.storable_tokens, curves.prompt_tokens
    )
    return SurfacePoint(ttl_s, row["capacity_blocks"], row["hit_tokens"], price)


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
    rates: tuple[RateLine, ...],
    facts: pa.Table,
    ages: tuple[AgeRange, ...],
) -> Curves:
    mine = facts.filter(pc.equal(facts["pool"], one.pool))
    stored = pc.coalesce(mine["stored_blocks"], mine["full_blocks"])
    storable_tokens = (pc.sum(stored).as_py() or 0) * one.block_size
    shape = pool.model
    ours = not pool.hosted and (one.capacity_blocks is not None or one.ttl_us is None)
    return Curves(
        pool=one.name,
        prompt_tokens=one.prompt_tokens,
        capacity=()
        if not ours
        else tuple(
            CapacityPoint(
                r["capacity_blocks"],
                r["hit_tokens"],
                r["clairvoyant_tokens"],
                _multiplier(
                    rates, (one.ttl_us or 0) / 1e6, r["hit_tokens"], storable_tokens, one.prompt_tokens
                ),
            )
            for r in capacity
        ),
        capacity_today=one.capacity_blocks,
        block_size=one.block_size,
        kv_bytes_per_block=None if shape is None else round(bytes_per_token(shape) * one.block_size),
        ttl=tuple(
            TtlPoint(
                r["ttl_us"] / 1e6,
                r["hit_tokens"],
                _multiplier(rates, r["ttl_us"] / 1e6, r["hit_tokens"], storable_tokens, one.prompt_tokens),
            )
            for r in ttl
        ),
        ttl_today_s=None if one.ttl_us is None else one.ttl_us / 1e6,
        note=_WHOLE_LOG + (_REPLAYED if one.profile == "sglang" else ""),
        marks=tuple(CapacityMark(r["share"], r["capacity_blocks"], r["hit_tokens"]) for r in marks if ours),
        replicas=len(one.replicas),
        ages=ages,
        rates=rates,
        storable_tokens=storable_tokens,
    )


def _multiplier(
    rates: tuple[RateLine, ...], ttl_s: float, hit: int, storable: int, prompt: int
) -> float | None:
    """Return the cost multiplier under the one rate card of a pool; None where it pays several prices."""
    own = [line for line in rates if line.own]
    return own[0].multiplier(ttl_s, hit, storable, prompt) if len(own) == 1 and prompt else None


def _cards(scenario: Scenario, one: PoolSummary, marts: Marts) -> tuple[RateCard, ...]:
    """Return the rate cards of a pool; several where its lookups pay several prices."""
    pricing = scenario.pricing_of(scenario.pool[one.pool])
    if not varies(pricing):
        return (resolve(pricing, model=None, provider=None, at_us=0)[0].card,)
    # Prices that vary come from the price list, those of other pools need not.
    return tuple(use.card for use in marts.cards if use.card.source.startswith(PRICE_LIST))
