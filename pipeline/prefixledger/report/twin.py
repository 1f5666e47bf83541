"""The JSON twin: the same report for machines, with published keys (see reports/schema)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from prefixledger.errors import InputError, Place
from prefixledger.report import twin_parts
from prefixledger.report.advice_parts import advice_value, recommendation_value
from prefixledger.report.failures import failure_value
from prefixledger.report.heat_map import rows_of
from prefixledger.report.invoice_parts import reconciliation_value
from prefixledger.report.keep_alive import keep_alive_value
from prefixledger.report.length_parts import length_value
from prefixledger.report.lifetime_parts import gap_value, ttl_change_value
from prefixledger.report.longer_lives import longer_life_value
from prefixledger.report.numbers import finite, iso, significant
from prefixledger.report.policy_parts import policy_value
from prefixledger.report.ranking import ranking
from prefixledger.report.twin_curves import curves_value
from prefixledger.report.twin_money import spend_value
from prefixledger.report.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prefixledger.attribute.spread import Spread
    from prefixledger.report import document
    from prefixledger.report.books import Book, Observed
    from prefixledger.report.parts import Cost, ReplicaSlice
    from prefixledger.report.view import Earlier, ReportView, Result

SCHEMA_VERSION: Literal[1] = 1
GENERATOR = "prefixledger"


def check_form(values: Mapping[str, Any], path: Path) -> None:
    """Refuse a kept report of another form: its keys may mean something else.

    Args:
        values: What the JSON twin says.
        path: Where it is.

    Raises:
        InputError: It is of another form.
    """
    if values["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"this report is of form {values['schema_version']}, and this prefixledger reads form {SCHEMA_VERSION}",
            place=Place(str(path)),
            hint="make the report again, leave it out, or use the prefixledger that wrote it",
        )


def twin(view: ReportView, *, show_ids: bool = False) -> document.Report:
    """Return the report as plain JSON values; floats have 6 significant digits, and nothing is NaN.

    Args:
        view: The data.
        show_ids: Whether request ids are given whole.
    """
    replayed = [_replayed(result) for result in view.results]
    names = [result.name for result in view.results]
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": f"{GENERATOR} {view.made.version}",
        "verdict": {"sentence": verdict(view).sentence, "caveats": list(verdict(view).caveats)},
        "inputs": [twin_parts.input_value(source) for source in view.sources],
        "window": twin_parts.window_value(view),
        "before": None if view.earlier is None else _before(view.earlier),
        "scenarios": [{"name": name, **one} for name, one in zip(names, replayed, strict=True)],
        **replayed[0],
        "timeline": twin_parts.timeline_value(view),
        "breakdowns": twin_parts.breakdowns_value(view),
        "prefixes": [twin_parts.prefix_value(prefix) for prefix in view.prefixes.rows],
        "replicas": twin_parts.replicas_value(view),
        "replica_slices": [_slice(one) for _, slices in rows_of(view) for one in slices],
        "balance": twin_parts.balance_value(view),
        "branches": twin_parts.branches_value(view),
        "curves": curves_value(view),
        "routing": twin_parts.routing_value(view),
        "ranking": list(ranking(view.routing)),
        "engines": None if view.engines is None else twin_parts.engines_value(view.engines),
        "failures": [failure_value(row) for row in view.failures],
        "silent_writes": twin_parts.silent_writes_value(view),
        "gaps": [gap_value(row) for row in view.gaps],
        "keep_alive": [keep_alive_value(row) for row in view.keep_alive],
        "longer_lives": [longer_life_value(row) for row in view.longer_lives],
        "ttl_changes": [ttl_change_value(row) for row in view.ttl_changes],
        "spend": [spend_value(row) for row in view.spend],
        "reconciliation": None if view.reconciliation is None else reconciliation_value(view.reconciliation),
        "by_length": [length_value(row) for row in view.lengths],
        "policy": None if view.policy is None else policy_value(view.policy, show_ids=show_ids),
        "events": twin_parts.events_value(view),
        "findings": [twin_parts.finding_value(finding, show_ids=show_ids) for finding in view.findings],
        "recommendations": [recommendation_value(one) for one in view.advice.recommendations],
        "advice": advice_value(view),
        "made": {
            "version": view.made.version,
            "seed": view.made.seed,
            "fingerprint": view.made.fingerprint or None,
            "scenario": view.result.setup.toml,
        },
    }


def _before(was: Earlier) -> document.Before:
    """Return the stretch before the window, as long as it is."""
    return {
        "from": iso(was.from_us),
        "to": iso(was.to_us),
        "basis": was.book.basis,
        **_book(was.book),
        "ideal_hit_rate": significant(was.ideal_hit_rate),
        "by_cause": twin_parts.all_tokens(was.book.misses),
        "multipliers": {currency: significant(value) for currency, value in was.multipliers.items()},
    }


def _slice(one: ReplicaSlice) -> document.ReplicaSlice:
    """Return one replica in one slice of time; of many replicas only the busiest are given."""
    return {
        "replica": one.replica,
        "pool": one.pool,
        "at": iso(one.at_us),
        "requests": one.requests,
        "prompt_tokens": one.prompt_tokens,
        "hit_tokens": one.hit_tokens,
    }


def _replayed(result: Result) -> document.Replayed:
    return {
        "totals": _totals(result),
        "misses": {
            "by_cause": twin_parts.all_tokens(result.total.misses),
            "by_detail": {detail.key: detail.tokens for detail in result.details},
        },
        "observed": None if result.observed is None else _observed(result.observed),
        "cost": None if result.cost is None else _cost(result.cost),
        "costs": [_cost(cost) for cost in result.costs],
        "ladder": [
            {
                "rung": r.rung,
                "prompt_tokens": r.prompt_tokens,
                "hit_tokens": r.hit_tokens,
                "lost_tokens": r.lost_tokens,
            }
            for r in result.ladder
        ],
        "seeds": None if result.spread is None else _seeds(result.spread),
        "running_effect_tokens": result.running_effect_tokens,
        "prefill_gpu_hours": significant(result.prefill_gpu_hours),
        "setup": {
            "profiles": list(result.setup.profiles),
            "capacity": result.setup.capacity,
            "ttl": result.setup.ttl,
            "routing": result.setup.routing,
            "residence": result.setup.residence,
            "notes": list(result.setup.notes),
        },
    }


def _seeds(spread: Spread) -> document.Seeds:
    return {
        "seeds": spread.seeds,
        "token_hit_rate_low": finite(spread.low),
        "token_hit_rate_high": finite(spread.high),
    }


def _totals(result: Result) -> document.Totals:
    return {
        **_book(result.total),
        "failed_requests": result.failed_requests,
        "unmeasured_requests": result.unmeasured_requests,
        "by_basis": {book.basis: _book(book) for book in result.by_basis},
        "ideal_hit_tokens": result.ideal_hit_tokens,
        "ideal_hit_rate": significant(result.ideal_hit_rate),
        "headline": result.headline.basis if result.headline.basis != "all" else "simulated",
    }


def _book(book: Book) -> document.Book:
    return {
        "requests": book.requests,
        "prompt_tokens": book.prompt_tokens,
        "output_tokens": book.output_tokens,
        "hit_tokens": book.hit_tokens,
        "hit_host_tokens": book.hit_host_tokens,
        "missed_tokens": book.missed_tokens,
        "token_hit_rate": significant(book.token_hit_rate),
        "request_hit_rate": significant(book.request_hit_rate),
    }


def _observed(observed: Observed) -> document.Observed:
    return {
        "prompt_tokens": observed.book.prompt_tokens,
        "cached_tokens": observed.book.hit_tokens,
        "cache_write_tokens": observed.cache_write_tokens,
        "cache_write_5m_tokens": observed.cache_write_5m_tokens,
        "cache_write_1h_tokens": observed.cache_write_1h_tokens,
        "uncached_tokens": observed.uncached_tokens,
        "token_hit_rate": significant(observed.book.token_hit_rate),
        "requests_with_usage": observed.book.requests,
        "agreement": significant(observed.agreement),
        "simulated_hit_tokens": observed.simulated_hit_tokens,
        "unexplained_tokens": observed.unexplained_tokens,
        "unpredicted_hit_tokens": observed.unpredicted_hit_tokens,
        "compared": twin_parts.compared_value(observed),
        "by_replica_hour": [twin_parts.observed_hour_value(hour) for hour in observed.hours],
        "by_cause": twin_parts.all_tokens(observed.book.misses),
    }


def _cost(cost: Cost) -> document.Cost:
    return {
        "currency": cost.currency,
        "uncached": finite(cost.uncached),
        "actual": finite(cost.actual),
        "logged": significant(cost.logged),
        "logged_high": significant(cost.logged_high),
        "output": significant(cost.output),
        "saved": significant(cost.saved),
        "saved_share": significant(cost.saved_share),
        "multiplier": significant(cost.multiplier),
        "effective_tokens": cost.effective_tokens,
        "break_even": {source: finite(rate) for source, rate in cost.break_even.items()},
        "by_cause": twin_parts.all_money(cost.by_cause),
    }
