"""What stands beside the curves in twin and page."""

from __future__ import annotations

import re
from dataclasses import replace

import report_data
from prefixledger.report.render import html
from prefixledger.report.tables import tables
from prefixledger.report.twin import twin


def test_eviction_is_parted_to_the_token() -> None:
    """What a better policy could keep and what needs memory are what eviction takes; the page says both."""
    view = report_data.week()
    (bound,) = twin(view)["curves"]["bound"]
    assert bound["capacity_blocks"] == 60_000
    assert bound["evicted_tokens"] == bound["unlimited_hit_tokens"] - bound["hit_tokens"] > 0
    assert bound["evicted_tokens"] == bound["better_policy_tokens"] + bound["needs_memory_tokens"]
    page = re.sub(r"<[^>]+>", "", html(view))
    assert re.search(r"eviction takes [\d.,]+ \w+ hit tokens\. A cache that knew", page)


def test_no_capacity_no_bound() -> None:
    """Without today's capacity nothing is evicted, and nothing is said of it; marks have no replicas of that size."""
    view = report_data.week()
    view = replace(view, curves=tuple(replace(c, capacity_today=None) for c in view.curves))
    curves = twin(view)["curves"]
    assert curves["bound"] == []
    assert curves["knee"][0]["replicas"] is None
    assert "knew the next use" not in html(view)


def test_marks_in_every_unit() -> None:
    """Blocks and tokens of a replica, its memory, and how many replicas of today have as much in all."""
    curves = twin(report_data.week())["curves"]
    target, knee = curves["targets"]
    assert (target["share"], target["capacity_blocks"], target["capacity_tokens"]) == (
        0.9,
        127_600,
        2_041_600,
    )
    assert target["gib"] == 249.219  # 127,600 blocks of 2 MiB
    assert curves["knee"] == [{name: value for name, value in knee.items() if name != "share"}]
    assert target["replicas"] == 9  # 4 x 127,600 / 60,000 = 8.5
    named = {table.name: table for table in tables(twin(report_data.week()))}
    assert named["capacity_targets.csv"].rows[0][0] == 0.9
