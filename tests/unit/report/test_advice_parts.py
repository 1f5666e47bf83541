"""Advice on the page, on the terminal and in the twin."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import jsonschema

import report_data
from prefixledger.advice.parts import Advice, Decision, Effect, Recommendation
from prefixledger.report.advice_parts import advice_lines, saves
from prefixledger.report.front import actions
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from prefixledger.resources import read_text

EFFECT = Effect(
    report_data.START_US, report_data.START_US + 10**9, 10**6, 5000, 4000, 6000, True,
    Decimal(10), Decimal("2.5"), Decimal(2), Decimal(3), "USD", 12.0,
)  # fmt: skip
ONE = Recommendation(
    "ttl", "Keep <it> for an hour.", "tenant <b>", EFFECT, EFFECT, "whatif --ttl 1h", ("More writes.",), "medium",
    "Because.", "Look again.", "name = 'x'", Decimal("2.4"), Decimal("0.3"),
)  # fmt: skip
DECISION = Decision(
    "ab" * 16, "t1", "api", 1120, 9, "5m", "1h", "gaps", 0.9, 0.5, 2.0, Decimal(1), Decimal(1), "USD"
)


def test_advice_is_on_the_page_the_terminal_and_in_the_twin() -> None:
    """The first screen names it with its money; the twin has its interval and follows the schema; text is escaped."""
    advice = Advice((ONE,), EFFECT, (DECISION,), 7, report_data.START_US, ("Nothing else pays.",))
    view = replace(report_data.week(), advice=advice)
    (first,) = actions(view)
    assert (first.link, first.prize) == ("advice-1", "$2.50")
    text = html(view)
    assert 'id="advice-1"' in text
    assert "Keep &lt;it&gt; for an hour" in text
    assert "Keep <it>" not in text
    value = json.loads(json.dumps(twin(view), allow_nan=False))
    jsonschema.validate(value, json.loads(read_text("reports", "schema/report.schema.json")))
    (told,) = value["recommendations"]
    assert (told["saved"], told["saved_low"], told["as_predicted"]) == (2.5, 2, True)
    assert value["advice"]["decisions"][0]["decision"] == "1h"
    assert "Saves $2.50 (25.0 % of what that input costs today)" in " ".join(advice_lines(view))
    assert saves(EFFECT).startswith("$2.50 ($2.00 to $3.00)")
