"""The sections of the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from prefixledger.ids import short_id
from prefixledger.report.books import rate
from prefixledger.report.numbers import finite, iso, significant
from prefixledger.report.ranking import melting
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from prefixledger.report import document
    from prefixledger.report.books import Engines, Observed, ObservedHour
    from prefixledger.report.parts import Finding, Prefix, Source
    from prefixledger.report.view import ReportView


def some_tokens(misses: Mapping[str, int]) -> document.SomeTokensByCause:
    """Return the missed tokens of the causes that took any, in the order of causes."""
    return {cause: tokens for cause in CAUSES if (tokens := misses.get(cause, 0))}


def all_tokens(misses: Mapping[str, int]) -> document.TokensByCause:
    """Return the missed tokens of every cause."""
    every = {cause: misses.get(cause, 0) for cause in CAUSES}
    return cast("document.TokensByCause", every)  # the schema of the type is held against CAUSES by a test


def all_money(costs: Mapping[str, Decimal]) -> document.MoneyByCause:
    """Return what the misses of every cause cost."""
    return cast("document.MoneyByCause", {cause: finite(costs.get(cause, 0)) for cause in CAUSES})


def input_value(source: Source) -> document.Input:
    """Return the account of one input."""
    return {
        "path": source.path,
        "source": source.digest,
        "format": source.format,
        "why": source.why,
        "bytes": source.size_bytes,
        "records": source.records,
        "kept": source.kept,
        "rejected": source.rejected,
        "duplicates": source.duplicates,
        "joined": source.joined,
        "skipped": source.skipped,
        "reasons": dict(source.reasons),
        "truncated_at": source.truncated_at,
        "identical_lines": source.identical_lines,
        "block_size": source.block_size,
        "notes": list(source.notes),
    }


def window_value(view: ReportView) -> document.Window:
    """Return what the report covers; times in UTC."""
    window = view.window
    return {
        "from": iso(window.from_us),
        "to": iso(window.to_us),
        "zone": window.zone,
        "relative": window.relative,
        "why": window.why,
        "warm_up": window.warm_up,
        "resumed": [iso(at) for at in window.resumed],
    }


def timeline_value(view: ReportView) -> document.Timeline:
    """Return the slices of time; causes that took nothing in a slice are left out."""
    return {
        "width_s": view.timeline.width_s,
        "slices": [
            {
                "at": iso(b.at_us),
                "requests": b.requests,
                "prompt_tokens": b.prompt_tokens,
                "hit_tokens": b.hit_tokens,
                "by_cause": some_tokens(b.misses),
            }
            for b in view.timeline.buckets
        ],
    }


def breakdowns_value(view: ReportView) -> list[document.Breakdown]:
    """Return the books by field of the log."""
    return [
        {
            "field": breakdown.name,
            "left_out": breakdown.left_out,
            "values": [
                {
                    "value": g.value,
                    "requests": g.requests,
                    "prompt_tokens": g.prompt_tokens,
                    "hit_tokens": g.hit_tokens,
                    "by_cause": some_tokens(g.misses),
                }
                for g in breakdown.groups
            ],
        }
        for breakdown in view.breakdowns
    ]


def prefix_value(p: Prefix) -> document.Prefix:
    """Return one shared prefix; ``below_`` sums are never to be added."""
    return {
        "key": p.key,
        "parent_key": p.parent,
        "level": p.level,
        "name": p.name,
        "depth_tokens": p.depth_tokens,
        "requests": p.requests,
        "requests_per_hour": significant(p.requests_per_hour),
        "replicas": p.replicas,
        "prompt_tokens": p.own_tokens,
        "hit_tokens": p.own_hit_tokens,
        "token_hit_rate": significant(rate(p.own_hit_tokens, p.own_tokens)),
        "below_prompt_tokens": p.below_tokens,
        "below_hit_tokens": p.below_hit_tokens,
        "multiplier": significant(p.multiplier),
        "currency": p.currency or None,
        "uncached_cost": significant(p.uncached_cost),
        "actual_cost": significant(p.paid_cost),
        "saved_cost": None
        if p.uncached_cost is None or p.paid_cost is None
        else significant(p.uncached_cost - p.paid_cost),
        "written_tokens": p.written_tokens,
        "unread_tokens": p.unread_tokens,
        "wasted_cost": significant(p.wasted_cost),
        "borne_cost": significant(p.borne_cost),
        "excess_cost": significant(p.excess_cost),
        "below_excess_cost": significant(p.below_excess_cost),
        "by_cause": some_tokens(p.misses),
    }


def replicas_value(view: ReportView) -> list[document.Replica]:
    """Return load and hits of every replica."""
    requests = sum(r.requests for r in view.replicas)
    return [
        {
            "replica": r.name,
            "requests": r.requests,
            "share": significant(rate(r.requests, requests)),
            "prompt_tokens": r.prompt_tokens,
            "hit_tokens": r.hit_tokens,
            "prefill_tokens": r.prefill_tokens,
            "token_hit_rate": significant(rate(r.hit_tokens, r.prompt_tokens)),
            "peak_in_flight": r.peak_in_flight,
            "waited_s": finite(r.waited_us / 1e6),
            "longest_wait_s": finite(r.longest_wait_us / 1e6),
            "by_cause": some_tokens(r.misses),
        }
        for r in view.replicas
    ]


def branches_value(view: ReportView) -> list[document.Branch]:
    """Return the rules by which routers placed the lookups."""
    return [
        {
            "pool": b.pool,
            "branch": b.branch,
            "requests": b.requests,
            "prompt_tokens": b.prompt_tokens,
            "hit_tokens": b.hit_tokens,
            "misrouted_tokens": b.misrouted_tokens,
        }
        for b in view.branches
    ]


def balance_value(view: ReportView) -> list[document.Balance]:
    """Return how even the load of every pool is: the busiest replica over the mean."""
    return [
        {
            "pool": b.pool,
            "replicas": b.replicas,
            "requests": b.requests,
            "prefill_tokens": b.prefill_tokens,
            "imbalance_requests": significant(b.imbalance_requests),
            "imbalance_prefill": significant(b.imbalance_prefill),
            "peak_in_flight": b.peak_in_flight,
            "waited_s": finite(b.waited_us / 1e6),
        }
        for b in view.balances
    ]


def routing_value(view: ReportView) -> list[document.Routing]:
    """Return the same lookups under other routings."""
    return [
        {
            "routing": o.routing,
            "requests": o.lookups,
            "replicas": o.replicas,
            "prompt_tokens": o.prompt_tokens,
            "hit_tokens": o.hit_tokens,
            "token_hit_rate": significant(rate(o.hit_tokens, o.prompt_tokens)),
            "largest_share": significant(o.largest_share),
            "scenario": o.scenario,
            "pool": o.pool,
            "seeds": o.seeds,
            "token_hit_rate_low": significant(o.rate_low),
            "token_hit_rate_high": significant(o.rate_high),
            "busiest_prefill_tokens": o.busiest_prefill_tokens,
            "imbalance_requests": significant(o.imbalance_requests),
            "imbalance_prefill": significant(o.imbalance_prefill),
            "melts_a_replica": melts,
            "peak_in_flight": o.peak_in_flight,
            "waited_s": significant(o.waited_us / 1e6),
            "by_cause": some_tokens(o.misses),
        }
        for o, melts in zip(view.routing, melting(view.routing), strict=True)
    ]


def events_value(view: ReportView) -> list[document.Event]:
    """Return the resets and what followed."""
    return [
        {
            "event_id": e.event_id,
            "at": iso(e.at_us),
            "kind": e.kind,
            "replicas": list(e.replicas),
            "note": e.note,
            "lost_tokens": e.lost_tokens,
            "rate_before": significant(e.rate_before),
            "rate_after": significant(e.rate_after),
            "recovery_s": significant(e.recovery_s),
        }
        for e in view.events
    ]


def silent_writes_value(view: ReportView) -> list[document.SilentWrite]:
    """Return the caches that were written on a day and never read."""
    return [
        {
            "model": s.model,
            "tenant": s.tenant,
            "day": iso(s.day_us),
            "requests": s.requests,
            "written_tokens": s.written_tokens,
            "prompt_tokens": s.prompt_tokens,
        }
        for s in view.silent_writes
    ]


def compared_value(observed: Observed) -> document.Compared | None:
    """Return the lookups that have both keys and usage; None where there are none."""
    both = observed.compared
    if both is None:
        return None
    return {
        "requests": both.requests,
        "prompt_tokens": both.prompt_tokens,
        "simulated_hit_tokens": both.simulated_hit_tokens,
        "cached_tokens": both.reported_hit_tokens,
        "ideal_hit_tokens": observed.both_ideal_tokens,
        "simulated_hit_rate": significant(rate(both.simulated_hit_tokens, both.prompt_tokens)),
        "observed_hit_rate": significant(rate(both.reported_hit_tokens, both.prompt_tokens)),
        "ideal_hit_rate": significant(rate(observed.both_ideal_tokens, both.prompt_tokens)),
        "gap_pp": finite(both.gap_pp),
        "above_ceiling_tokens": observed.above_ceiling_tokens,
    }


def observed_hour_value(hour: ObservedHour) -> document.ObservedHour:
    """Return one hour of one replica."""
    return {
        "replica": hour.replica,
        "pool": hour.pool,
        "at": iso(hour.at_us),
        "requests": hour.requests,
        "prompt_tokens": hour.prompt_tokens,
        "cached_tokens": hour.cached_tokens,
        "observed_hit_rate": significant(rate(hour.cached_tokens, hour.prompt_tokens)),
        "compared_prompt_tokens": hour.both_prompt_tokens,
        "compared_cached_tokens": hour.both_cached_tokens,
        "simulated_hit_tokens": hour.both_simulated_tokens,
        "simulated_hit_rate": significant(rate(hour.both_simulated_tokens, hour.both_prompt_tokens)),
        "ideal_hit_tokens": hour.both_ideal_tokens,
        "gap_pp": significant(hour.gap_pp),
    }


def engines_value(engines: Engines) -> document.Engines:
    """Return what engines said of their caches."""
    hits, queries = engines.counted
    simulated, ideal, asked = engines.replayed
    return {
        "counted_query_tokens": queries,
        "counted_hit_tokens": hits,
        "counted_hit_rate": significant(rate(hits, queries)),
        "simulated_hit_rate": significant(rate(simulated, asked)),
        "ideal_hit_rate": significant(rate(ideal, asked)),
        "event_agreement": significant(engines.agreement),
        "by_replica_hour": [
            {
                "replica": h.replica,
                "pool": h.pool,
                "at": iso(h.at_us),
                "counted_query_tokens": h.query_tokens,
                "counted_hit_tokens": h.hit_tokens,
                "counted_preemptions": h.preemptions,
                "stored_blocks": h.stored_blocks,
                "removed_blocks": h.removed_blocks,
                "resident_blocks": h.resident_blocks,
                "event_lookups": h.lookups,
                "event_cap_blocks": h.cap_blocks,
                "event_simulated_blocks": h.simulated_blocks,
                "event_resident_blocks": h.event_blocks,
                "event_agreement": significant(h.agreement),
                "prompt_tokens": h.prompt_tokens,
                "simulated_hit_tokens": h.simulated_hit_tokens,
                "ideal_hit_tokens": h.ideal_hit_tokens,
            }
            for h in engines.hours
        ],
    }


def finding_value(f: Finding, *, show_ids: bool) -> document.Finding:
    """Return one finding; ids are shortened unless shown."""
    return {
        "kind": f.kind,
        "title": f.title,
        "tokens": f.tokens,
        "cost": significant(f.cost),
        "currency": f.currency or None,
        "from": iso(f.from_us),
        "to": iso(f.to_us),
        "where": f.where or None,
        "evidence": [short_id(one, show_ids=show_ids) for one in f.evidence],
        "action": f.action or None,
    }
