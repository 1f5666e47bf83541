"""One cell of a grid: what one scenario comes to over the whole log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger.attribute.session import Session
from prefixledger.attribute.spread import spread_of_rates
from prefixledger.economics.bill import BilledTokens, MissedTokens, bill, total
from prefixledger.errors import InternalError
from prefixledger.replay.evidence import RULES
from prefixledger.replay.fact_sums import FLAGS
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.attribute.askers import Askers
    from prefixledger.attribute.loads import Loads
    from prefixledger.attribute.noise import Interval
    from prefixledger.attribute.trial import Trial
    from prefixledger.economics.bill import Bill
    from prefixledger.replay.fact_sums import FactSums

STEPS = ("90_cells/named",)
_RULES = pa.array(RULES)
_TOKENS = ("tokens", "written_tokens", "written_1h_tokens")


@dataclass(frozen=True, slots=True)
class Cell:
    """What came out under one combination.

    Attributes:
        axes: The value of every axis in the pools that the log asks.
        totals: Of all rows: requests, prompt_tokens, hit_tokens, token_hit_rate with its least and greatest over the
            seeds that a drawing router was replayed under, the change of that rate against the baseline in percentage
            points, and the load: the busiest replica over the mean, and most requests in flight on one, of the pool where
            that is most; the prefill tokens of the busiest of all that share a load; the time that lookups waited for memory, added up.
        misses: ``by_cause``: missed tokens, which with the hits are the prompt; named as in the twin of a report.
        cost: What prompts and outputs cost without and with the cache; None where there is not one currency.
        costs: The same for each currency.
        replicas: Each that was asked: pool, replica, requests, share, prompt_tokens, hit_tokens, prefill_tokens.
        interval: Of the change of the hit rate against the baseline, in points; None for the baseline itself, and where the
            log has too few sessions and days.
        cost_interval: Of the change of the cost of input, in percent; None as well where there is not one currency.
        problem: Why it could not be replayed; everything else but the axes is empty then.
        notes: What the reader must know.
    """

    axes: Mapping[str, str | int | None]
    totals: Mapping[str, int | float | None]
    misses: Mapping[str, Mapping[str, int]]
    cost: Mapping[str, Any] | None
    costs: tuple[Mapping[str, Any], ...]
    replicas: tuple[Mapping[str, Any], ...]
    interval: Interval | None = None
    cost_interval: Interval | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def within_noise(self) -> bool:
        """Whether its hit rate may differ from the baseline by what was drawn alone."""
        return self.interval is not None and self.interval.holds_zero


@dataclass(frozen=True, slots=True)
class Counted:
    """A trial, summed up so far that a thousand of them fit into memory.

    Attributes:
        axes: What was changed.
        askers: Who asked, and at what price.
        sums: For each pool with lookups its index and its tokens by facts.
        storage_token_s: For each group of ``askers`` tokens times seconds that pay rent.
        host_tokens: Hits from lower tiers.
        drawn: For every seed, that of the replay first, hits beyond those of the replay; empty where no router draws.
        loads: Load by replica.
        sample_error_pp: How far the hit rate of a sample may be from that of all; None where this is all.
        interval: See ``Cell``.
        cost_interval: See ``Cell``.
        notes: See ``Cell``.
    """

    axes: Mapping[str, str | int | None]
    askers: Askers
    sums: tuple[tuple[int, FactSums], ...]
    storage_token_s: tuple[int, ...]
    host_tokens: int
    drawn: tuple[int, ...]
    loads: Loads
    interval: Interval | None = None
    cost_interval: Interval | None = None
    notes: tuple[str, ...] = field(default=())
    sample_error_pp: float | None = None

    def with_notes(self, notes: tuple[str, ...]) -> Counted:
        """Return it with more that the reader must know."""
        return replace(self, notes=(*notes, *self.notes)) if notes else self


def count(
    trial: Trial,
    axes: Mapping[str, str | int | None],
    loads: Loads,
    intervals: tuple[Interval | None, Interval | None] = (None, None),
    sample_error_pp: float | None = None,
) -> Counted:
    """Sum a trial up.

    Args:
        trial: The trial.
        axes: What was changed in it.
        loads: Its load.
        intervals: Of its change against the baseline.
        sample_error_pp: See ``Counted``.
    """
    return Counted(
        axes=axes,
        askers=trial.askers,
        sums=tuple((pool.plan.index, pool.sums) for pool in trial.pools),
        storage_token_s=_rent(trial),
        host_tokens=sum(int(pool.host_tokens.sum()) for pool in trial.pools),
        drawn=trial.drawn,
        loads=loads,
        interval=intervals[0],
        cost_interval=intervals[1],
        notes=trial.notes,
        sample_error_pp=sample_error_pp,
    )


def _rent(trial: Trial) -> tuple[int, ...]:
    groups = trial.askers.group
    rent = np.bincount(groups, trial.by_arrival("storage_token_s"), len(trial.askers.groups))
    return tuple(int(part) for part in rent.tolist())


def refused(axes: Mapping[str, str | int | None], problem: str) -> Cell:
    """Return a cell that could not be replayed."""
    return Cell(axes, {}, {"by_cause": {}}, None, (), (), problem=problem)


def name_cells(counted: Sequence[Counted], *, threads: int = 2) -> tuple[Cell, ...]:
    """Name the causes of all cells in one statement, and price them.

    Args:
        counted: The baseline first.
        threads: Threads of DuckDB; results do not depend on it.

    Raises:
        InternalError: The books of a cell do not close.
    """
    with Session(threads) as session:
        session.bind({"sums": _sums(counted)})
        session.run(STEPS)
        rows = session.table("named").to_pylist()
    named: list[list[dict[str, Any]]] = [[] for _ in counted]
    for row in rows:
        named[row["cell"]].append(row)
    cells: list[Cell] = []
    for part, found in zip(counted, named, strict=True):
        cells.append(_cell(part, found, cells[0].totals["token_hit_rate"] if cells else None))
    return tuple(cells)


def _sums(counted: Sequence[Counted]) -> pa.Table:
    parts = [
        table
        for number, cell in enumerate(counted)
        for table in (
            *(_simulated(number, cell.askers, sums) for _, sums in cell.sums),
            _usage(number, cell.askers),
        )
    ]
    return pa.concat_tables(parts)


def _simulated(cell: int, askers: Askers, sums: FactSums) -> pa.Table:
    rule = sums.rule
    return _table(
        askers,
        sums.group,
        {
            "cell": np.full(sums.group.size, cell),
            "observed": np.zeros(sums.group.size, np.bool_),
            **{name: sums.flag(name) for name in FLAGS},
            "rule": _RULES.take(pa.array(rule, mask=rule < 0)),
            "proven": pa.nulls(rule.size, pa.string()),
            "tokens": sums.tokens,
            "written_tokens": sums.written_tokens,
            "written_1h_tokens": sums.written_1h_tokens,
        },
    )


def _usage(cell: int, askers: Askers) -> pa.Table:
    """Return the rows with usage alone: what each read, and what is proven of the rest."""
    table = askers.proven
    nothing = np.zeros(len(table), np.bool_)
    return _table(
        askers,
        table["group"].to_numpy(),
        {
            "cell": np.full(len(table), cell),
            "observed": ~nothing,
            **dict.fromkeys(FLAGS, nothing),
            "hit": table["hit"],
            "rule": pa.nulls(len(table), pa.string()),
            "proven": table["cause"],
            **{name: table[name].cast(pa.int64()) for name in _TOKENS},
        },
    )


def _table(askers: Askers, group: Any, columns: Mapping[str, Any]) -> pa.Table:
    pools = pa.array([pool for pool, _ in askers.groups], pa.int64())
    cards = pa.array([card for _, card in askers.groups], pa.int64())
    at = pa.array(group)
    return pa.table({"pool": pools.take(at), "card": cards.take(at), **columns})


def _cell(counted: Counted, rows: Sequence[Mapping[str, Any]], before: float | None) -> Cell:
    hit_tokens = sum(row["tokens"] for row in rows if row["cause"] is None)
    causes = {cause: sum(row["tokens"] for row in rows if row["cause"] == cause) for cause in CAUSES}
    loads = counted.loads
    if hit_tokens + sum(causes.values()) != loads.prompt_tokens:
        raise InternalError(
            f"the books of a cell do not close: {hit_tokens} hit and {sum(causes.values())} missed tokens are not the "
            f"{loads.prompt_tokens} of its prompts"
        )
    rate = hit_tokens / loads.prompt_tokens if loads.prompt_tokens else None
    drawn = [] if rate is None else [(hit_tokens + more) / loads.prompt_tokens for more in counted.drawn]
    spread = spread_of_rates(tuple(drawn))
    costs = tuple(
        {
            "currency": each.currency,
            "uncached": each.uncached,
            "actual": each.actual,
            "multiplier": each.multiplier,
        }
        for each in _bills(counted, rows)
    )
    return Cell(
        axes=counted.axes,
        totals={
            "requests": loads.requests,
            "prompt_tokens": loads.prompt_tokens,
            "output_tokens": int(counted.askers.output_tokens.sum()),
            "hit_tokens": hit_tokens,
            "hit_host_tokens": counted.host_tokens,
            "token_hit_rate": rate,
            "seeds": 1 if spread is None else spread.seeds,
            "token_hit_rate_low": rate if spread is None else spread.low,
            "token_hit_rate_high": rate if spread is None else spread.high,
            **({} if counted.sample_error_pp is None else {"sample_error_pp": counted.sample_error_pp}),
            "change_pp": None if rate is None else 100 * (rate - (rate if before is None else before)),
            "imbalance_requests": loads.imbalance_requests,
            "imbalance_prefill": loads.imbalance_prefill,
            "busiest_prefill_tokens": loads.busiest_prefill_tokens,
            "peak_in_flight": loads.peak_in_flight,
            "waited_s": loads.waited_us / 1e6,
        },
        misses={"by_cause": causes},
        cost=costs[0] if len(costs) == 1 else None,
        costs=costs,
        replicas=loads.replicas,
        interval=counted.interval,
        cost_interval=counted.cost_interval,
        notes=counted.notes,
    )


def _bills(counted: Counted, rows: Sequence[Mapping[str, Any]]) -> tuple[Bill, ...]:
    askers = counted.askers
    bills = []
    for number, (pool, card) in enumerate(askers.groups):
        mine = [row for row in rows if (row["pool"], row["card"]) == (pool, card)]
        missed = {
            row["cause"]: MissedTokens(
                written=row["written_tokens"] - row["written_1h_tokens"],
                written_1h=row["written_1h_tokens"],
                uncached=row["tokens"] - row["written_tokens"],
            )
            for row in mine
            if row["cause"] is not None
        }
        billed = BilledTokens(
            read=sum(row["tokens"] for row in mine if row["cause"] is None),
            output=int(askers.output_tokens[number]),
            missed=missed,
            storage_token_s=counted.storage_token_s[number],
        )
        bills.append(bill(billed, askers.cards[card].card, ttl_us=askers.cards[card].ttl_us))
    return total(bills)
