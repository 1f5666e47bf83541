"""Load beside hits: how even it is, who waited, and by which rule of the router."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema

import report_data
from prefixledger.report.load_parts import Balance, Branch
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from prefixledger.resources import read_text


def _view():
    week = report_data.week()
    return replace(
        week,
        replicas=tuple(
            replace(replica, peak_in_flight=40 + n, waited_us=3_000_000, longest_wait_us=1_500_000)
            for n, replica in enumerate(week.replicas)
        ),
        balances=(Balance(0, 5, 100, 5_000, 2.5, 1.75, 43, 12_000_000),),
        branches=(Branch(0, "affinity", 90, 9_000, 8_000, 0), Branch(0, "least_loaded", 10, 1_000, 0, 700)),
    )


def test_the_twin_carries_load_and_rules() -> None:
    """Peaks and waits stand with each replica, imbalance with each pool, and it all follows the schema."""
    value = json.loads(json.dumps(twin(_view())))
    jsonschema.validate(value, json.loads(read_text("reports", "schema/report.schema.json")))
    assert value["replicas"][1]["peak_in_flight"] == 41
    assert value["replicas"][1]["longest_wait_s"] == 1.5
    (balance,) = value["balance"]
    assert (balance["replicas"], balance["imbalance_requests"], balance["waited_s"]) == (5, 2.5, 12)
    assert [row["branch"] for row in value["branches"]] == ["affinity", "least_loaded"]


def test_the_page_says_how_uneven_the_load_is_and_why_requests_went_there() -> None:
    """The busiest over the mean, idle replicas included; a column for peaks only where they are known."""
    page = html(_view())
    assert "Of 5 replicas the busiest gets 2.50 times the mean of the lookups and 1.75 times" in page
    assert "Peak in flight" in page
    assert "least loaded" in page
    plain = html(report_data.week())
    assert "Peak in flight" not in plain
    assert "rule of the router" not in plain
