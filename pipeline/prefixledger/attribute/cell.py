"""One cell of a grid: what the books of one replay come to over the whole log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.attribute.marts import Marts, marts
from prefixledger.attribute.run import run
from prefixledger.attribute.spread import spread_of
from prefixledger.attribute.window import Window
from prefixledger.config.units import datetime_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Cell:
    """What came out under one combination.

    Attributes:
        axes: capacity, ttl, routing and replicas of the pools that the log asks.
        totals: Of all rows: requests, prompt_tokens, hit_tokens, token_hit_rate with its least and greatest over the
            seeds that a drawing router was replayed under, the change of that rate against the baseline in percentage
            points, and the load: the busiest replica over the mean, and most requests in flight on one, of the pool where
            that is most; the prefill tokens of the busiest of all that share a load; the time that lookups waited for memory, added up.
        misses: ``by_cause``: missed tokens, which with the hits are the prompt; named as in the twin of a report.
        cost: What prompts and outputs cost without and with the cache; None where there is not one currency.
        costs: The same for each currency.
        replicas: Each that was asked: pool, replica, requests, share, prompt_tokens, hit_tokens, prefill_tokens.
    """

    axes: Mapping[str, str | int | None]
    totals: Mapping[str, int | float | None]
    misses: Mapping[str, Mapping[str, int]]
    cost: Mapping[str, Any] | None
    costs: tuple[Mapping[str, Any], ...]
    replicas: tuple[Mapping[str, Any], ...]


def read_cell(
    workspace: Workspace,
    name: str,
    axes: Mapping[str, str | int | None],
    *,
    baseline: Cell | None,
    threads: int = 2,
) -> Cell:
    """Name the causes of a replay, and add its books up.

    Args:
        workspace: Where the replay is.
        name: Name of its scenario.
        axes: What was changed in it.
        baseline: What its hit rate is held against; None for the baseline itself.
        threads: Threads of DuckDB; results do not depend on it.

    Raises:
        UsageError: A model has no rate.
        InternalError: The books do not close.
    """
    run(workspace, name, threads=threads)
    found = marts(workspace, name, _whole(workspace, name), threads=threads)
    costs = tuple(
        {
            "currency": bill.currency,
            "uncached": bill.uncached,
            "actual": bill.actual,
            "multiplier": bill.multiplier,
        }
        for bill in found.bills
    )
    asked = ("pool", "replica", "requests", "share", "prompt_tokens", "hit_tokens", "prefill_tokens")
    return Cell(
        axes=axes,
        totals=_totals(found, baseline),
        misses={"by_cause": {row["cause"]: row["tokens"] for row in found.causes.to_pylist()}},
        cost=costs[0] if len(costs) == 1 else None,
        costs=costs,
        replicas=tuple(found.by_replica.select(asked).to_pylist()),
    )


def _totals(found: Marts, baseline: Cell | None) -> dict[str, int | float | None]:
    (row,) = (row for row in found.totals.to_pylist() if row["basis"] == "all")
    names = ("requests", "prompt_tokens", "output_tokens", "hit_tokens", "hit_host_tokens")
    rate = row["hit_tokens"] / row["prompt_tokens"] if row["prompt_tokens"] else None
    before = rate if baseline is None else baseline.totals["token_hit_rate"]
    balance = found.balance.to_pylist()
    shared = {p["pool"] for p in balance if p["n_replicas"] > 1}
    spread = spread_of(found.by_draw, row["hit_tokens"], row["prompt_tokens"])
    return {
        **{name: row[name] for name in names},
        "token_hit_rate": rate,
        "seeds": 1 if spread is None else spread.seeds,
        "token_hit_rate_low": rate if spread is None else spread.low,
        "token_hit_rate_high": rate if spread is None else spread.high,
        "change_pp": None if rate is None or before is None else 100 * (rate - before),
        "imbalance_requests": max((p["imbalance_requests"] or 0 for p in balance), default=None),
        "imbalance_prefill": max((p["imbalance_prefill"] or 0 for p in balance), default=None),
        "busiest_prefill_tokens": max(
            (one["prefill_tokens"] for one in found.by_replica.to_pylist() if one["pool"] in shared),
            default=None,
        ),
        "peak_in_flight": max((p["peak_in_flight"] or 0 for p in balance), default=None),
        "waited_s": sum(p["waited_us"] for p in balance) / 1e6,
    }


def _whole(workspace: Workspace, name: str) -> Window:
    """Return the window that every lookup lies in."""
    started_at = pq.read_table(workspace.replay(name) / "lookups.parquet", columns=["started_at"])[
        "started_at"
    ]
    ends = pc.min_max(started_at).as_py()
    if ends["min"] is None:
        return Window(0, 1)
    return Window(datetime_us(ends["min"]), datetime_us(ends["max"]) + 1)
