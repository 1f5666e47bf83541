"""The bill on the page: savings with their sign, against the whole bill, and who loses by caching."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from prefixledger.report.money import Spend, cuts, losing
from prefixledger.report.render import html
from prefixledger.report.verdict import verdict
from report_data import week


def spend(field: str, value: str | None, uncached: str, actual: str, currency: str = "USD") -> Spend:
    """Return what a hundred requests cost."""
    return Spend(
        field, value, currency, 100, 1000, 50, 600, 300, 100, 200, Decimal(uncached), Decimal(actual), Decimal(1), Decimal("0.5")
    )  # fmt: skip


ROWS = (
    spend("all", "all", "10", "12.5"),
    spend("tenant", "a", "4", "8.5"),
    spend("tenant", None, "6", "4"),
    spend("model", "m", "10", "12.5"),
    spend("day", "2026-11-23", "5", "6"),
    spend("day", "2026-11-24", "5", "6.5"),
)


def test_a_loss_is_called_a_loss() -> None:
    """A negative saving has its sign, its share is of the whole bill, and the first screen says it."""
    view = week()
    cost = replace(view.result.costs[0], currency="USD", uncached=Decimal(10), actual=Decimal("12.5"))
    view = replace(view, spend=ROWS, results=(replace(view.result, costs=(cost,)),))
    page = html(view)
    assert "the cache costs $2.50 more than it saves" in page
    assert "\N{MINUS SIGN}25.0 %" in page.replace("&nbsp;", " ")
    assert any("Caching costs $2.50 more than it saves" in text for text in verdict(view).caveats)
    assert [row.value for row in losing(ROWS)] == ["a", "m"]


def test_cuts_with_one_row_are_left_out() -> None:
    """One model is the whole; days stand in order of time."""
    assert [(cut.head, [row.value for row in cut.rows]) for cut in cuts(ROWS)] == [
        ("tenant", ["a", None]),
        ("day", ["2026-11-23", "2026-11-24"]),
    ]


def test_a_label_is_shown_where_only_some_of_it_pay_for_writes_that_nobody_reads() -> None:
    """Summaries that are written and never read stand out; a label under which all waste, or none, tells nothing."""
    summaries = spend("labels.request_kind", "summary", "5", "6")
    chats = replace(spend("labels.request_kind", "chat", "5", "2"), wasted=Decimal(0))
    even = (spend("labels.region", "a", "5", "6"), spend("labels.region", None, "5", "2"))
    shown = cuts((*ROWS, summaries, chats, *even))
    assert [(cut.title, [row.value for row in cut.rows]) for cut in shown[2:]] == [
        ("By request kind", ["summary", "chat"])
    ]


def test_prefill_tokens_are_on_no_invoice() -> None:
    """An engine's log has no bill in money, so it has no such section."""
    tokens = tuple(replace(row, currency="prefill tokens") for row in ROWS)
    assert cuts(tokens) == losing(tokens) == ()
    assert 'id="money"' not in html(replace(week(), spend=tokens))
