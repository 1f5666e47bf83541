"""Gathers, for every scenario of a report, what its routing hits beside what it does to the load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.attribute.spread import spread_of
from prefixledger.report.load_parts import RoutingOption
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.attribute.marts import Marts
    from prefixledger.replay.summary import ReplaySummary


def routing_options(found: Sequence[tuple[ReplaySummary, Marts]]) -> tuple[RoutingOption, ...]:
    """Return the routing of every pool with several replicas, in the order of the scenarios.

    Args:
        found: Replays with the tables of one window.
    """
    return tuple(option for summary, marts in found for option in _options(summary, marts))


def _options(summary: ReplaySummary, marts: Marts) -> Iterator[RoutingOption]:
    balances = {row["pool"]: row for row in marts.balance.to_pylist()}
    for pool in summary.pools:
        rows = [row for row in marts.by_replica.to_pylist() if row["pool"] == pool.pool]
        balance = balances.get(pool.pool)
        if balance is None or balance["n_replicas"] < 2 or not rows:  # noqa: PLR2004  # one has nobody to share with
            continue
        asked, hits, requests = (
            sum(row[name] for row in rows) for name in ("prompt_tokens", "hit_tokens", "requests")
        )
        spread = spread_of(marts.by_draw, hits, asked, pool.pool)
        yield RoutingOption(
            routing=pool.routing,
            lookups=requests,
            prompt_tokens=asked,
            hit_tokens=hits,
            largest_share=max(row["requests"] for row in rows) / requests,
            replicas=balance["n_replicas"],
            scenario=summary.name,
            pool=pool.name,
            misses={cause: sum(row[f"miss_{cause}_tokens"] for row in rows) for cause in CAUSES},
            busiest_prefill_tokens=max(row["prefill_tokens"] for row in rows),
            imbalance_requests=balance["imbalance_requests"],
            imbalance_prefill=balance["imbalance_prefill"],
            peak_in_flight=balance["peak_in_flight"],
            waited_us=balance["waited_us"],
            seeds=1 if spread is None else spread.seeds,
            rate_low=None if spread is None else spread.low,
            rate_high=None if spread is None else spread.high,
        )
