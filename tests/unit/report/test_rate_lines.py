"""Rate cards that a TTL curve is priced under."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

import report_data
from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.economics.formulas import cost_multiplier
from prefixledger.economics.rates import RateCard
from prefixledger.report import captions
from prefixledger.report.curve_charts import ttl_curve
from prefixledger.report.rate_lines import OTHERS, RateLine, rate_lines

CLAUDE = RateCard(
    "USD", Decimal(3), Decimal("0.3"), Decimal("3.75"), Decimal(6), Decimal(15),
    "genai-prices 0.2.3: anthropic/claude-sonnet-4-5; a guide, 2026",
)  # fmt: skip
PREFILL = replace(
    CLAUDE,
    currency=PREFILL_TOKENS,
    read=Decimal(0),
    write=Decimal(3),
    write_1h=Decimal(3),
    source="default of engines",
)


def test_each_pair_of_ratios_is_one_line() -> None:
    """What the pool pays comes first; a model of the list that charges the same is not shown again."""
    found = rate_lines([CLAUDE, replace(CLAUDE, base=Decimal(3))])
    assert [line.name for line in found] == list(OTHERS)
    assert [line.own for line in found] == [True, False, False, False]
    assert len({(line.w, line.w_long, line.r) for line in found}) == len(found)


def test_a_pool_that_pays_in_prefill_is_compared_with_nothing() -> None:
    """Tokens of its own machines are no money."""
    assert [(line.name, line.own) for line in rate_lines([PREFILL])] == [("this pool", True)]


@pytest.mark.parametrize(("ttl_s", "w"), [(300, "1.25"), (301, "2")])
def test_a_multiplier_is_that_of_the_formula(ttl_s: int, w: str) -> None:
    """Beyond the short lifetime writes cost more; what cannot be stored is uncached."""
    line = rate_lines([CLAUDE])[0]
    expected = cost_multiplier(100, 600, 300, w=Decimal(w), r=Decimal("0.1"))
    assert line.multiplier(ttl_s, 600, 900, 1000) == pytest.approx(float(expected or 0))


def test_the_chart_names_every_line_and_the_caption_those_that_are_paid() -> None:
    """Two models in one pool pay two prices: neither is left out."""
    curves = report_data.week().curves[0]
    two = replace(curves, rates=(*curves.rates, RateLine("gpt-5", True, 1.0, 1.0, 300.0, 0.1)))
    drawn = ttl_curve(two, "fig-ttl-1")
    assert all(f">{line.name}</text>" in drawn for line in two.rates)
    assert "for claude-sonnet-4-5 and" in captions.ttl(two)
    assert "gpt-4o" not in captions.ttl(two)
