"""A log beside an invoice, in words and for the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefixledger.report.numbers import amount, count, money, percent, significant

if TYPE_CHECKING:
    from prefixledger.attribute.reconcile import Reconciliation

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


def reconciliation_value(found: Reconciliation) -> dict[str, Any]:
    """Return it for the JSON twin."""
    return {
        "currency": found.currency,
        "coverage": significant(found.coverage),
        "log_tokens": found.log_tokens,
        "invoice_tokens": found.invoice_tokens,
        "log_cost": significant(found.log_cost),
        "invoice_cost": significant(found.invoice_cost),
        "lines_outside": found.outside,
        "lines_in_other_currency": found.other_currency,
        "by_kind": [
            {"kind": kind, "log_tokens": log, "invoice_tokens": bill} for kind, log, bill in found.by_kind
        ],
        "differences": [
            {"difference": name, "model_days": days, "tokens": tokens, "cost": significant(cost)}
            for name, days, tokens, cost in found.differences
        ],
        "by_model_day": [
            {
                "model": day.model,
                "day": day.day,
                "difference": day.difference,
                "requests": day.requests,
                **{
                    f"log_{kind}_tokens": day.log_tokens.get(kind, 0)
                    for kind in KIND_NAMES
                    if kind != "other"
                },
                **{f"invoice_{kind}_tokens": day.invoice_tokens.get(kind) for kind in KIND_NAMES},
                "log_cost": significant(day.log_cost),
                "invoice_cost": significant(day.invoice_cost),
            }
            for day in found.days
        ],
    }
