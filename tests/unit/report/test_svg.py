"""Charts as SVG that lives well inside a page."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

import report_data
from prefixledger.report.age_chart import age_chart
from prefixledger.report.charts import account_bar, ladder_waterfall, replica_load
from prefixledger.report.curve_charts import capacity_curve, ttl_curve
from prefixledger.report.gap_chart import gap_chart
from prefixledger.report.heat_map import heat_map
from prefixledger.report.parts import Replica
from prefixledger.report.svg import _short_path
from prefixledger.report.time_chart import over_time

WEEK = report_data.week()
CHARTS = {
    "account": lambda: account_bar(WEEK.result.total, "c"),
    "time": lambda: over_time(WEEK, "c"),
    "replicas": lambda: replica_load(WEEK, "c"),
    "ladder": lambda: ladder_waterfall(WEEK, "c"),
    "capacity": lambda: capacity_curve(WEEK.curves[0], "c"),
    "ages": lambda: age_chart(WEEK.curves[0], "c"),
    "ttl": lambda: ttl_curve(WEEK.curves[0], "c"),
    "gaps": lambda: gap_chart(WEEK.curves[0], "c"),
    "heat": lambda: heat_map(WEEK, "c"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_named_small_and_free_of_fixed_colours(name: str) -> None:
    """It has a title and a description, CSS colours only, ids of its own, and nothing from outside."""
    svg = CHARTS[name]()
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "c-title c-desc"
    assert root.find("title") is not None
    assert len(root.findtext("desc") or "") > 20
    assert not re.search(r"#[0-9a-f]{6}", svg)
    assert not re.search(r"https?:|data:|<script|<style|<image|font-family", svg)
    assert all(found.startswith("c-") for found in re.findall(r' id="([^"]+)"', svg))
    referred = set(re.findall(r"url\(#([^)]+)\)", svg))
    assert {r for r in referred if not r.startswith("hatch-")} <= set(re.findall(r' id="([^"]+)"', svg))
    assert len(svg) < 50_000


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_the_same_twice(name: str) -> None:
    """No date, no random id."""
    assert CHARTS[name]() == CHARTS[name]()


def test_names_from_logs_are_text_and_nothing_else() -> None:
    """Mathematics, markup, quotes and direction marks of a replica name stay plain text."""
    names = (
        "$x^2$ \\frac",
        "<script>alert(1)</script>",
        '"quoted" id="x"',
        "\u202eabc\x07",
        "{{ 7*7 }} 1.23456",
    )
    base = WEEK.replicas[0]
    replicas = tuple(replace(base, name=n) for n in names)
    svg = replica_load(replace(WEEK, replicas=replicas), "c")
    texts = [t.text or "" for t in ET.fromstring(svg).iter() if t.tag.endswith("text")]
    assert "$x^2$ \\frac" in texts
    assert "<script>alert(1)</s…" in texts
    assert '"quoted" id="x"' in texts
    assert "\N{REPLACEMENT CHARACTER}abc\N{REPLACEMENT CHARACTER}" in texts
    assert "{{ 7*7 }} 1.23456" in texts
    assert "<script" not in svg


def test_short_path_draws_the_same_line() -> None:
    """Sides of steps become H and V; nothing moves by more than the rounding."""
    assert _short_path("M 1 2 L 5.04 2 L 5.04 7.06 L 5.04 7.06 L 9 9 z") == "M1 2H5V7.1L9 9z"
    assert (
        _short_path("M 100 50 L 103 50 L 104 50 L 104 54 L 104 52 z M 1 1 L 0 1") == "M100 50h4v4V52zM1 1H0"
    )


def test_few_and_equal_values_draw_without_a_warning() -> None:
    """One point more than none, one replica, an even load: no warning, which would be an error here."""
    one = replace(
        WEEK.curves[0], capacity=WEEK.curves[0].capacity[:2], ttl=WEEK.curves[0].ttl[:2], capacity_today=1
    )
    assert "today" in capacity_curve(one, "c")
    assert ttl_curve(replace(one, ttl_today_s=10.0), "c")
    assert replica_load(replace(WEEK, replicas=(Replica("a", 1, 1, 0, {}), Replica("b", 1, 1, 1, {}))), "c")
