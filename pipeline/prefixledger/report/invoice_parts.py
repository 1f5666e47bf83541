"""A log beside an invoice, in words and for the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.numbers import amount, count, finite, money, percent, significant

if TYPE_CHECKING:
    from prefixledger.attribute.reconcile import Held, Reconciliation
    from prefixledger.report import document

DIFFERENCE_NAMES = {
    "not_in_log": "On the invoice, not in the log",
    "not_on_invoice": "In the log, not on the invoice",
    "less_in_log": "The log has fewer tokens",
    "more_in_log": "The log has more tokens",
    "kinds_differ": "As many tokens, of other kinds",
    "price_differs": "The same tokens at another price",
}
KIND_NAMES = {
    "uncached_input": "Uncached input",
    "cache_read": "Read from cache",
    "cache_write": "Written to cache",
    "cache_write_long": "Written to cache for long",
    "output": "Output",
    "other": "Other",
}


def coverage_sentence(found: Reconciliation) -> str:
    """Say how much of the invoice the log holds."""
    if found.coverage is None:
        return "No line of the invoice falls into this window, so nothing is held against it."
    if found.invoice_cost:
        sizes = f"{money(found.log_cost, found.currency)} of {money(found.invoice_cost, found.currency)}"
    else:
        sizes = f"{amount(found.log_tokens)} of {amount(found.invoice_tokens)} tokens"
    sentence = f"The log holds {percent(found.coverage)} of the invoice ({sizes})"
    differing = sum(days for _, days, _, _ in found.differences)
    if differing:
        sentence += (
            f"; {count(differing, 'difference')} on {count(len(found.days), 'line')} of a model and day"
        )
    return f"{sentence}."


def reconciliation_value(found: Reconciliation) -> document.Reconciliation:
    """Return it for the JSON twin."""
    return {
        "currency": found.currency,
        "coverage": significant(found.coverage),
        "log_tokens": found.log_tokens,
        "invoice_tokens": found.invoice_tokens,
        "log_cost": finite(found.log_cost),
        "invoice_cost": finite(found.invoice_cost),
        "lines_outside": found.outside,
        "lines_in_other_currency": found.other_currency,
        "by_kind": [
            {"kind": kind, "log_tokens": log, "invoice_tokens": bill} for kind, log, bill in found.by_kind
        ],
        "differences": [
            {"difference": name, "model_days": days, "tokens": tokens, "cost": finite(cost)}
            for name, days, tokens, cost in found.differences
        ],
        "by_model_day": [_day_value(day) for day in found.days],
    }


def _day_value(day: Held) -> document.InvoiceDay:
    """Return one model on one day; a log knows no other kinds."""
    log, invoice = day.log_tokens, day.invoice_tokens
    return {
        "model": day.model,
        "day": day.day,
        "difference": day.difference,
        "requests": day.requests,
        "log_uncached_input_tokens": log.get("uncached_input", 0),
        "log_cache_read_tokens": log.get("cache_read", 0),
        "log_cache_write_tokens": log.get("cache_write", 0),
        "log_cache_write_long_tokens": log.get("cache_write_long", 0),
        "log_output_tokens": log.get("output", 0),
        "invoice_uncached_input_tokens": invoice.get("uncached_input"),
        "invoice_cache_read_tokens": invoice.get("cache_read"),
        "invoice_cache_write_tokens": invoice.get("cache_write"),
        "invoice_cache_write_long_tokens": invoice.get("cache_write_long"),
        "invoice_output_tokens": invoice.get("output"),
        "invoice_other_tokens": invoice.get("other"),
        "log_cost": significant(day.log_cost),
        "invoice_cost": significant(day.invoice_cost),
    }
