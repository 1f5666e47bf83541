"""What stands beside the curves in twin and page."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa

import report_data
from prefixledger.report.age_chart import age_chart, age_sentence
from prefixledger.report.curve_parts import AgeRange, CapacityPoint, Curves, TtlPoint
from prefixledger.report.models import bursts, judged, models
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


def test_ages_say_how_much_is_evicted_too_young() -> None:
    """Nine tenths of the hits have come at the end of a range; what is evicted up to there is told, and what was missed."""
    ages = (AgeRange(1, 3, 90, 0, 0), AgeRange(3, 10, 5, 30, 20), AgeRange(604_800, None, 5, 70, 0))
    told = age_sentence(Curves("engine", 1000, ages=ages))
    assert told.startswith(
        "90.0 % of the hits are of blocks used last under 3 s before; 0.0 % of what is evicted goes"
    )
    told = age_sentence(Curves("engine", 1000, ages=(replace(ages[0], hit_tokens=10), *ages[1:])))
    assert "used last 7 d and more before; 100.0 %" in told
    assert told.endswith("20 of 100 evicted tokens are asked for again and missed")
    assert age_chart(Curves("engine", 1000, ages=ages[:1]), "c") == ""
    assert age_sentence(Curves("engine", 1000, ages=(replace(ages[1], hit_tokens=0),))).startswith(
        "Nothing hits"
    )
    values = twin(report_data.week())["curves"]["ages"]
    assert len(values) == 8
    assert values[-1]["upto_s"] is None


def test_formulas_are_judged_by_the_replay() -> None:
    """A burst every hour of a block: the average rate promises far too little at short times, and the page says so."""
    reuse = pa.table({"uses": [100], "blocks": [10], "span_us": [100 * 3_600_000_000]})
    gaps = pa.table({"gap_us": [1_000_000 + n for n in range(90)] + [36_000_000_000 + n for n in range(10)]})
    ttl = tuple(
        TtlPoint(s, hits) for s, hits in ((0.5, 0), (1.0, 14_256), (60.0, 14_256), (36_000.0, 15_840))
    )
    capacity = tuple(CapacityPoint(blocks, 1584 * blocks) for blocks in range(1, 11))
    curves = Curves("engine", 16_000, capacity, 4, 16, None, ttl)
    found = {model.model: model for model in models(curves, reuse, gaps)}
    assert tuple(found) == (
        "poisson",
        "exponential",
        "gamma",
        "weibull",
        "lognormal",
        "hyperexponential",
        "che",
    )
    assert judged(found["poisson"]).startswith("misleads: 8")
    assert "too little at 1 " in judged(found["poisson"])
    assert found["poisson"].worst_error_pp < -80
    assert found["che"].worst_at in range(1, 11)
    assert bursts(replace(curves, models=tuple(found.values()))).startswith(
        "Blocks come back sooner than at random"
    )
    assert models(curves, reuse, gaps.slice(0, 0)) == ()


def test_models_in_twin_and_page() -> None:
    """Errors, fit and verdict of each."""
    view = report_data.week()
    poisson, mixed = twin(view)["curves"]["models"]
    assert (poisson["good_enough"], mixed["good_enough"]) == (False, True)
    assert mixed["parameters"] == {"share": 0.6}
    page = html(view)
    assert "misleads: 8.2 points too little at 5 min" in re.sub("&nbsp;", " ", page)
    assert "1 of 2 are good enough" in page


def test_memory_of_running_requests_stands_apart() -> None:
    """The replica with the busiest moment is told, with what is left for reuse; without a capacity no share is made up."""
    view = report_data.week()
    page = re.sub("&nbsp;", " ", html(view))
    assert "running requests held 10,680 of the 60,000 blocks (17.8 %)" in page
    assert "<td>49,320</td>" in page
    assert len(twin(view)["curves"]["held"]) == 12
    assert twin(view)["curves"]["held"][0]["mean_held_blocks"] == 800
    named = {table.name: table for table in tables(twin(view))}
    assert named["held.csv"].rows[0][4:] == (60_000, 9_000, 800)
    (curves,) = view.curves
    assert "Free or reusable" not in html(replace(view, curves=(replace(curves, capacity_today=None),)))
