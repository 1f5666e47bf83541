"""A log beside an invoice: coverage, and every kind of difference."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from prefixledger.attribute.reconcile import reconcile
from prefixledger.attribute.window import Window
from prefixledger.ingest.invoice import InvoiceLine

DAY_US = 86_400_000_000
WEEK = Window(0, 7 * DAY_US)


def held(day: int, model: str, uncached: int, read: int, cost: str, currency: str = "USD") -> dict[str, Any]:
    """Return one row of the mart."""
    return {
        "day": f"1970-01-0{day}", "model": model, "currency": currency, "requests": 3, "uncached_tokens": uncached,
        "read_tokens": read, "written_tokens": 0, "written_long_tokens": 0, "output_tokens": 0, "billed_cost": Decimal(cost),
    }  # fmt: skip


def charged(
    day: int, model: str | None, kind: str, tokens: int | None, amount: str | None = None
) -> InvoiceLine:
    """Return one line of an invoice."""
    return InvoiceLine(f"1970-01-0{day}", model, kind, tokens, None if amount is None else Decimal(amount))


def test_the_log_holds_83_percent_of_the_invoice() -> None:
    """Of 120 dollars the log has 100; the same model may be called by its snapshot."""
    found = reconcile(
        [charged(1, "gpt-5.6-2026-07-09", "uncached_input", 1000, "120")],
        [held(1, "gpt-5.6", 833, 0, "100")],
        WEEK,
    )
    assert found.coverage == 100 / 120
    assert [day.difference for day in found.days] == ["less_in_log"]
    assert found.differences == (("less_in_log", 1, -167, Decimal(-20)),)


def test_every_kind_of_difference() -> None:
    """What is missing on either side, too much, of other kinds, or at another price; what agrees is no difference."""
    bill = [
        charged(1, "a", "uncached_input", 1000, "1"),
        charged(2, "a", "uncached_input", 1000, "1"),
        charged(3, "a", "uncached_input", 1000, "1"),
        charged(4, "a", "uncached_input", 1000, "1"),
        charged(5, "a", "uncached_input", 1000, "2"),
    ]
    log = [
        held(1, "a", 1005, 0, "1.005"),
        held(2, "b", 10, 0, "0.01"),
        held(3, "a", 1100, 0, "1.1"),
        held(4, "a", 400, 600, "1"),
        held(5, "a", 1000, 0, "1"),
    ]
    found = reconcile(bill, log, WEEK)
    assert [(day.day[-1], day.model, day.difference) for day in found.days] == [
        ("1", "a", None), ("2", "a", "not_in_log"), ("2", "b", "not_on_invoice"), ("3", "a", "more_in_log"),
        ("4", "a", "kinds_differ"), ("5", "a", "price_differs"),
    ]  # fmt: skip
    assert [name for name, *_ in found.differences] == [
        "not_in_log", "not_on_invoice", "more_in_log", "kinds_differ", "price_differs",
    ]  # fmt: skip
    assert found.by_kind == (("uncached_input", 3515, 5000),)
    assert found.log_cost == Decimal("4.105")


def test_tokens_are_the_measure_where_no_money_is_told() -> None:
    """A usage page has no prices; what the invoice does not have is no part of what the log holds of it."""
    bill = [charged(1, "a", "uncached_input", 600), charged(1, "a", "cache_read", 400)]
    found = reconcile(bill, [held(1, "a", 600, 150, "1"), held(1, "b", 500, 0, "1")], WEEK)
    assert found.coverage == 0.75
    assert found.by_kind == (("uncached_input", 1100, 600), ("cache_read", 150, 400))


def test_other_days_and_other_currencies_are_told() -> None:
    """Lines outside the window are counted, not compared; amounts in two currencies are never compared."""
    bill = [
        charged(1, "a", "uncached_input", 100, "1"),
        InvoiceLine("1970-01-09", "a", "uncached_input", 100, Decimal(1)),
        InvoiceLine("1970-01-01", "a", "other", None, Decimal(5), "EUR"),
        charged(1, "a", "cache_read", 50, "1"),
    ]
    found = reconcile(bill, [held(1, "a", 100, 50, "2")], WEEK)
    assert (found.outside, found.other_currency, found.currency, found.coverage) == (1, 1, "USD", 1.0)
    assert found.days[0].difference is None
    none = reconcile([charged(9, "a", "cache_read", 1)], [], Window(0, DAY_US))
    assert (none.coverage, none.outside) == (None, 1)
