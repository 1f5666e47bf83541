"""Reads the tables that the attribution aggregated into the parts of a report."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from prefixledger.attribute.comparison import comparison, counter_comparison
from prefixledger.economics.formulas import break_even_hit_rate, prefill_gpu_hours
from prefixledger.report.books import (
    Book,
    Detail,
    EngineHour,
    Engines,
    Observed,
    ObservedHour,
    SilentWrites,
)
from prefixledger.report.load_parts import Balance, Branch
from prefixledger.report.parts import (
    Breakdown,
    Bucket,
    Cost,
    Event,
    Group,
    Replica,
    ReplicaSlice,
    Rung,
    Timeline,
)
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.attribute.marts import Marts
    from prefixledger.economics.bill import Bill

_FIELD_ORDER = ("tenant", "model", "provider", "release", "client", "adapter", "service_tier")
_FIELDS_SHOWN = 8
_GROUPS_SHOWN = 20
_NOT_SAID = "(not said)"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def microseconds(at: dt.datetime | None) -> int | None:
    """Return a time as microseconds since 1970, to the microsecond."""
    return None if at is None else (at - _EPOCH) // dt.timedelta(microseconds=1)


def missed(row: Mapping[str, Any], pattern: str = "miss_{}_tokens") -> dict[str, int]:
    """Return the missed tokens of a row by cause, in the order of the account."""
    return {cause: int(row[pattern.format(cause)] or 0) for cause in CAUSES}


def books(marts: Marts) -> tuple[Book, tuple[Book, ...]]:
    """Return the book of all lookups, and those of each basis that occurs."""
    found = [
        Book(
            row["basis"],
            row["requests"],
            row["requests_with_hit"],
            row["prompt_tokens"],
            row["output_tokens"],
            row["hit_tokens"],
            missed(row),
            row["hit_host_tokens"],
        )
        for row in marts.totals.to_pylist()
    ]
    total = next((b for b in found if b.basis == "all"), Book("all", 0, 0, 0, 0, 0, dict.fromkeys(CAUSES, 0)))
    return total, tuple(b for b in found if b.basis != "all" and b.requests)


def total_of(marts: Marts, column: str, basis: str = "all") -> int | None:
    """Return one number of the totals; None where it is not known."""
    return next((row[column] for row in marts.totals.to_pylist() if row["basis"] == basis), None)


def left_out(marts: Marts, reason: str) -> int:
    """Return how many requests of the window are no lookups for a reason."""
    return sum(row["requests"] for row in marts.left_out.to_pylist() if row["reason"] == reason)


def details(marts: Marts) -> tuple[Detail, ...]:
    """Return misses by cause and detail, largest first."""
    return tuple(
        Detail(row["cause"], row["detail"], row["judged"], row["tokens"]) for row in marts.details.to_pylist()
    )


def timeline(marts: Marts) -> Timeline:
    """Return the course of time."""
    buckets = tuple(
        Bucket(
            microseconds(row["bucket_at"]) or 0,
            row["requests"],
            row["prompt_tokens"],
            row["hit_tokens"],
            missed(row),
            row["observed_prompt_tokens"],
            row["observed_hit_tokens"],
        )
        for row in marts.timeline.to_pylist()
    )
    return Timeline(max(1, marts.bucket_us // 1_000_000), buckets)


def breakdowns(marts: Marts) -> tuple[Breakdown, ...]:
    """Return the fields of the log with more than one value, tenants first."""
    fields: dict[str, list[Group]] = {}
    for row in marts.by_field.to_pylist():
        value = _NOT_SAID if row["value"] is None else row["value"]
        group = Group(value, row["requests"], row["prompt_tokens"], row["hit_tokens"], missed(row))
        fields.setdefault(row["field"], []).append(group)
    names = sorted(
        fields, key=lambda f: (_FIELD_ORDER.index(f) if f in _FIELD_ORDER else len(_FIELD_ORDER), f)
    )
    told = [name for name in names if len(fields[name]) > 1][:_FIELDS_SHOWN]
    return tuple(
        Breakdown(
            name.removeprefix("labels."),
            tuple(fields[name][:_GROUPS_SHOWN]),
            max(0, len(fields[name]) - _GROUPS_SHOWN),
        )
        for name in told
    )


def replicas(marts: Marts) -> tuple[Replica, ...]:
    """Return the caches with lookups in the window."""
    return tuple(
        Replica(
            row["replica"],
            row["requests"],
            row["prompt_tokens"],
            row["hit_tokens"],
            missed(row),
            microseconds(row["live_to"]),
            row["pool"],
            row["peak_in_flight"],
            row["waited_us"],
            row["longest_wait_us"],
        )
        for row in marts.by_replica.to_pylist()
    )


def replica_slices(marts: Marts) -> tuple[ReplicaSlice, ...]:
    """Return the replicas over time."""
    return tuple(
        ReplicaSlice(
            row["replica"],
            row["pool"],
            microseconds(row["slice_at"]) or 0,
            row["requests"],
            row["prompt_tokens"],
            row["hit_tokens"],
        )
        for row in marts.replica_slices.to_pylist()
    )


def branches(marts: Marts) -> tuple[Branch, ...]:
    """Return the rules by which routers placed the lookups."""
    return tuple(
        Branch(
            row["pool"],
            row["route_branch"],
            row["requests"],
            row["prompt_tokens"],
            row["hit_tokens"],
            row["miss_misrouted_tokens"],
        )
        for row in marts.by_branch.to_pylist()
    )


def balances(marts: Marts) -> tuple[Balance, ...]:
    """Return how even the load of each pool is."""
    return tuple(
        Balance(
            pool=row["pool"],
            replicas=row["n_replicas"],
            requests=row["requests"],
            prefill_tokens=row["prefill_tokens"],
            imbalance_requests=row["imbalance_requests"],
            imbalance_prefill=row["imbalance_prefill"],
            peak_in_flight=row["peak_in_flight"],
            waited_us=row["waited_us"],
        )
        for row in marts.balance.to_pylist()
    )


def ladder(marts: Marts) -> tuple[Rung, ...]:
    """Return the rungs, from the shared unlimited cache down."""
    return tuple(
        Rung(row["rung"], row["prompt_tokens"], row["hit_tokens"], row["lost_tokens"])
        for row in marts.rungs.to_pylist()
    )


def events(marts: Marts) -> tuple[Event, ...]:
    """Return the resets of the window, and what followed."""
    return tuple(
        Event(
            row["event_id"],
            microseconds(row["reset_at"]) or 0,
            row["kind"],
            tuple(row["replicas"] or ()),
            row["note"],
            row["lost_tokens"],
            row["rate_before"],
            row["rate_after"],
            row["recovery_s"],
        )
        for row in marts.resets.to_pylist()
    )


def observed(marts: Marts) -> Observed | None:
    """Return the observed book; None where no lookup carries usage."""
    row = marts.usage.to_pylist()[0]
    if not row["requests_with_usage"]:
        return None
    sums = marts.observed_book.to_pylist()[0]
    book = Book(
        "observed",
        sums["requests"],
        sums["requests_with_hit"],
        sums["prompt_tokens"],
        sums["output_tokens"],
        sums["observed_hit_tokens"],
        missed(sums, "observed_{}_tokens"),
    )
    return Observed(
        book=book,
        uncached_tokens=row["uncached_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        cache_write_5m_tokens=row["cache_write_5m_tokens"],
        cache_write_1h_tokens=row["cache_write_1h_tokens"],
        simulated_hit_tokens=row["simulated_hit_tokens"],
        both_prompt_tokens=row["both_prompt_tokens"],
        unexplained_tokens=row["unexplained_tokens"] or 0,
        unpredicted_hit_tokens=row["unpredicted_hit_tokens"] or 0,
        agreement=row["agreement"],
        compared=comparison(marts.gap.to_pylist()[0]),
        both_ideal_tokens=sum(marts.observed_hours["both_ideal_hit_tokens"].to_pylist()),
        both_block_tokens=sum(marts.observed_hours["both_block_tokens"].to_pylist()),
        hours=tuple(_observed_hour(hour) for hour in marts.observed_hours.to_pylist()),
    )


def _observed_hour(row: Mapping[str, Any]) -> ObservedHour:
    return ObservedHour(
        replica=row["replica"],
        at_us=microseconds(row["hour_at"]) or 0,
        requests=row["requests"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["observed_hit_tokens"],
        both_prompt_tokens=row["both_prompt_tokens"],
        both_cached_tokens=row["both_observed_hit_tokens"],
        both_simulated_tokens=row["both_simulated_hit_tokens"],
        both_ideal_tokens=row["both_ideal_hit_tokens"],
        pool=row["pool"],
    )


def engines(marts: Marts) -> Engines:
    """Return what engines said of their caches."""
    return Engines(
        tuple(
            EngineHour(
                row["replica"],
                row["pool"],
                microseconds(row["hour_at"]) or 0,
                row["counted_query_tokens"],
                row["counted_hit_tokens"],
                row["counted_preemptions"],
                row["stored_blocks"],
                row["removed_blocks"],
                row["resident_blocks"],
                row["event_lookups"],
                row["event_cap_blocks"],
                row["event_simulated_blocks"],
                row["event_resident_blocks"],
                row["event_differing_blocks"],
                row["prompt_tokens"],
                row["simulated_hit_tokens"],
                row["ideal_hit_tokens"],
            )
            for row in marts.engine_hours.to_pylist()
        ),
        counter_comparison(marts.engine_hours.to_pylist()),
    )


def costs(marts: Marts) -> tuple[Cost, ...]:
    """Return the bills, the one that most prompt tokens are on first."""
    asked: dict[str | None, int] = {}
    for row in marts.prefixes.select(["currency", "prompt_tokens"]).to_pylist():
        asked[row["currency"]] = asked.get(row["currency"], 0) + row["prompt_tokens"]
    logged = {bill.currency: bill for bill in marts.observed_bills}
    found = [
        _cost(bill, logged.get(bill.currency), marts, asked.get(bill.currency, 0)) for bill in marts.bills
    ]
    return tuple(sorted(found, key=lambda c: (-asked.get(c.currency, 0), c.currency)))


def prefill_hours(marts: Marts, speeds: Mapping[int, float]) -> float | None:
    """Return the GPU hours that the missed tokens of some pools take to prefill.

    Args:
        marts: The window.
        speeds: Tokens per second of one GPU, by index of the pool.
    """
    hours = [
        prefill_gpu_hours(row["prompt_tokens"] - row["hit_tokens"], speeds[row["pool"]])
        for row in marts.by_replica.to_pylist()
        if row["pool"] in speeds
    ]
    return float(sum(hours)) if hours else None


def _cost(bill: Bill, logged: Bill | None, marts: Marts, asked_tokens: int) -> Cost:
    more = marts.open_costs.get(bill.currency)
    return Cost(
        currency=bill.currency,
        uncached=bill.uncached,
        actual=bill.actual,
        logged=None if logged is None else logged.actual,
        multiplier=None if bill.multiplier is None else float(bill.multiplier),
        by_cause=dict(bill.by_cause),
        note=_rates(marts, bill.currency),
        effective_tokens=None if bill.multiplier is None else round(bill.multiplier * asked_tokens),
        break_even=_break_even(marts, bill.currency),
        output=bill.output,
        logged_high=None if logged is None or not more else logged.actual + more,
    )


def _break_even(marts: Marts, currency: str) -> dict[str, float]:
    """Return the least hit rate that pays for the write premium of each card, where there is one."""
    found: dict[str, float] = {}
    for use in marts.cards:
        w, r = use.card.w(use.ttl_us), use.card.r
        rate = break_even_hit_rate(w=w, r=r)
        if use.card.currency == currency and w > 1 and rate is not None:
            found[use.card.source] = max(float(rate), found.get(use.card.source, 0.0))
    return dict(sorted(found.items()))


def _rates(marts: Marts, currency: str) -> str:
    """Say where the prices of a currency come from."""
    sources = sorted({use.card.source for use in marts.cards if use.card.currency == currency})
    return f"Rates: {', '.join(sources)}" if sources else ""


def silent_writes(marts: Marts) -> tuple[SilentWrites, ...]:
    """Return caches that were written on a day and never read, most tokens first."""
    return tuple(
        SilentWrites(
            row["model"],
            row["tenant"],
            microseconds(row["day_at"]) or 0,
            row["requests"],
            row["written_tokens"],
            row["prompt_tokens"],
        )
        for row in marts.silent_writes.to_pylist()
    )
