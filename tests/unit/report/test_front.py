"""The first screen: change since the stretch before, what to do first, the records; and what stands beneath findings."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest

import report_data
from prefixledger.report.books import AVOIDABLE, Book
from prefixledger.report.earlier import unmoved
from prefixledger.report.front import actions, finding_rows, records, slices
from prefixledger.report.kpis import kpis
from prefixledger.report.page import SECTIONS
from prefixledger.report.parts import Finding
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from prefixledger.report.view import Earlier, ReportView


def after(**changes: object) -> ReportView:
    """A week with the week before it."""
    view = report_data.week()
    book = view.result.headline
    lost = dict.fromkeys(book.misses, 0) | {"key_changed": 1_000, "cold": 9_000}
    was = Book(book.basis, 10, 9, 100_000, 5, 90_000, lost)
    start = report_data.START_US
    earlier = Earlier(start - 7 * 24 * report_data.HOUR_US, start, was, 0.95, {"prefill tokens": 0.1})
    return replace(view, earlier=replace(earlier, **changes))  # type: ignore[arg-type]


def test_the_four_figures_say_how_they_moved() -> None:
    """With sign, size, the value before, and whether that is good."""
    view = after()
    rate, reach, loss, cost = kpis(view)
    assert rate.change is not None
    assert re.fullmatch(r"↓ [\d.]+ points, from 90.0 % in the week before", rate.change.text)
    assert rate.change.better is False
    assert reach.change is not None
    assert "from 95.0 %" in reach.change.text
    assert loss.change is not None
    assert loss.change.text.startswith("↑ ")
    assert "from 1.0 %" in loss.change.text
    assert loss.change.better is False
    assert cost.change is not None
    assert cost.change.text == "↑ from \N{MULTIPLICATION SIGN}0.10 in the week before"
    assert '<dd class="change worse">' in html(view)
    assert not unmoved(view)
    assert twin(view)["before"]["by_cause"]["key_changed"] == 1_000


def test_no_change_is_made_up() -> None:
    """Without the week before, or with one of another basis, the page says so and shows none."""
    alone = report_data.week()
    assert all(kpi.change is None for kpi in kpis(alone))
    assert unmoved(alone) == "No change is shown: the log does not hold the week before."
    assert twin(alone)["before"] is None
    view = after()
    assert view.earlier is not None
    other = after(book=replace(view.earlier.book, basis="observed"))
    assert kpis(other)[0].change is None
    assert "observed" in unmoved(other)
    assert not unmoved(report_data.nothing())


def test_what_has_not_moved_is_neither_better_nor_worse() -> None:
    """Half of the last digit shown is no change."""
    view = report_data.week()
    rate = view.result.headline.token_hit_rate or 0.0
    book = replace(view.result.headline, prompt_tokens=10**9, hit_tokens=round(rate * 10**9) + 1_000)
    moved = kpis(after(book=book))[0].change
    assert moved is not None
    assert moved.better is None
    assert moved.text.startswith("as ")


def test_actions_by_money_where_it_is_one_currency() -> None:
    """Three at most; in two currencies the amounts do not compare, so tokens decide."""
    costs = [("1.5", "USD"), ("9", "USD"), ("3", "USD"), ("2", "USD")]
    found = [
        Finding(cause, cause, 10**6 - n, Decimal(cost), currency, action="do it", where="tenant <b>")
        for n, (cause, (cost, currency)) in enumerate(zip(AVOIDABLE, costs, strict=False))
    ]
    view = report_data.week(findings=tuple(found))
    assert [(a.link, a.prize) for a in actions(view)] == [
        ("finding-2", "$9.00"),
        ("finding-3", "$3.00"),
        ("finding-4", "$2.00"),
    ]
    mixed = report_data.week(findings=(replace(found[0], currency="EUR"), *found[1:]))
    assert [a.link for a in actions(mixed)] == ["finding-1", "finding-2", "finding-3"]
    assert "tenant &lt;b&gt;" in html(view)


def test_the_bar_and_its_legend_hold_every_token() -> None:
    """Hits first, then the causes that occur."""
    book = report_data.week().result.total
    found = slices(book)
    assert [s.series for s in found] == ["hit", *(c for c, n in book.misses.items() if n)]
    assert 'id="account-hit"' in html(report_data.week())


def test_records_name_rejects_and_their_reasons() -> None:
    """Also where there are none."""
    said = records(report_data.week())
    assert "36,014 records read: 34,960 kept, 41 rejected" in said
    assert "bad json 40" in said
    assert "0 rejected" in records(report_data.week(sources=(report_data.source(rejected=0, reasons={}),)))
    assert records(report_data.week(sources=())) == ""


@pytest.mark.parametrize(("affected", "few"), [(29, True), (30, False)])
def test_a_finding_says_what_it_rests_on(affected: int, few: bool) -> None:
    """Few lookups are named as few; the SQL is shown, and the links lead somewhere."""
    view = report_data.week()
    result = replace(view.result, affected={"key_changed": affected})
    view = report_data.week(results=(result,))
    row = next(r for r in finding_rows(view, SECTIONS) if r.cause == "key_changed")
    assert row.size.startswith(f"{affected} of ")
    assert ("too few" in row.size) == few
    assert "where cause = 'key_changed'\n  and scenario = 'as-is'" in row.sql
    assert row.share.endswith("of all missed tokens")
    assert (row.section, row.when != "") == ("prefixes", True)


def test_a_scenario_with_a_hostile_name_is_not_put_into_sql() -> None:
    """The statement is for a shell and a database."""
    view = report_data.week()
    view = report_data.week(results=(replace(view.result, name="a' or 1=1 --"),))
    assert all("or 1=1" not in row.sql for row in finding_rows(view, SECTIONS))
