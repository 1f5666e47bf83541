"""The pictures of an investigation and their sentences."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from prefixledger.attribute.investigated import BeforeAfter, Incident, Investigation
from prefixledger.report.incident_charts import (
    before_after,
    before_after_sentence,
    course,
    course_sentence,
)
from prefixledger.report.investigation_page import write_page

BEGIN = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
TABLE = (
    BeforeAfter("hit", 900, 100, 0.9, 0.1),
    BeforeAfter("key_changed", 0, 850, 0.0, 0.85),
    BeforeAfter("cold", 100, 50, 0.1, 0.05),
)


def hour(number: int) -> dt.datetime:
    """Return the begin of an hour of the log."""
    return BEGIN + dt.timedelta(hours=number)


def incident(field: str = "all", value: str = "all") -> Incident:
    """One change at hour 3."""
    text = "2026-11-23 03:00:00.000Z: the hit rate fell from 90.0% to 10.0%, all of it more key_changed"
    return Incident(hour(3), field, value, False, text, None, (), TABLE, (), hour(0), hour(6))


def found(hours: tuple[int, ...] = (0, 1, 2, 3, 4, 5), begin: dt.datetime = BEGIN) -> Investigation:
    """Six hours that hit 90 % and, from the fourth on, 10 %."""
    rows = tuple(
        (
            begin + dt.timedelta(hours=n),
            0.9 if n < 3 else 0.1,
            (0.0, 0.85, 0.05) if n >= 3 else (0.0, 0.0, 0.1),
        )
        for n in hours
    )
    return Investigation(
        "as-is", begin, begin + dt.timedelta(hours=6), 3600.0, 60, 6000, 3000, {"key_changed": 3000}, 0.5, 9, (incident().sentence, "more"), None,
        (incident(),), (), (), 0, 0, (), (), (), (), rows, ("evicted", "key_changed", "cold"),
    )  # fmt: skip


def test_sentences_state_what_the_pictures_show() -> None:
    """Where the rate was lowest, and what moved it furthest."""
    assert course_sentence(found()) == (
        "The hit rate is lowest, 10.0 %, at Mon 23 Nov 03:00 and highest, 90.0 %, at Mon 23 Nov 00:00"
    )
    assert before_after_sentence(incident()) == (
        "The hit rate went from 90.0 % to 10.0 %, with 85.0 points more key changed"
    )
    assert "hit rate of tenant <b>" in before_after_sentence(incident("tenant", "<b>"))


@pytest.mark.parametrize("hours", [(0, 1, 2, 3, 4, 5), (0, 1, 4, 5)])
def test_a_gap_without_lookups_is_left_open(hours: tuple[int, ...]) -> None:
    """The line of the rate begins anew behind it."""
    drawn = course(found(hours), "fig-course")
    rate = next(
        path
        for path in re.findall(
            r'<path d="([^"]+)" clip-path="[^"]+" style="fill:none;stroke:var.--hit', drawn
        )
    )
    assert rate.count("M") == (1 if len(hours) == 6 else 2)


def test_only_what_occurs_is_named() -> None:
    """No colour without a token."""
    drawn = course(found(), "fig-course")
    assert "key changed" in drawn
    assert "evicted" not in drawn
    assert "key changed 0.0 % before, 85.0 % after" in before_after(incident(), "fig-change-1")


def test_the_page_speaks_as_the_report_does(tmp_path) -> None:
    """Names of causes, times and percentages are those of the report; a relative clock counts from its start."""
    write_page(found(), tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8").replace("&nbsp;", " ")
    assert "Mon 23 Nov 03:00: the hit rate fell from 90.0 % to 10.0 %, all of it more key changed." in text
    assert "key_changed" not in text
    assert text.index('id="fig-change-1-title"') < text.index("Before, from Mon 23 Nov 00:00")
    write_page(found(begin=dt.datetime(1970, 1, 1, tzinfo=dt.UTC)), tmp_path / "b.html")
    assert "at +03:00 and highest" in (tmp_path / "b.html").read_text(encoding="utf-8")
