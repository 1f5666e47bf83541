"""What the service reports, drawn against the replay."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import report_data
from prefixledger.attribute.policy import PolicyError
from prefixledger.report.books import ObservedHour
from prefixledger.report.observed_chart import observed_chart, observed_sentence, pairs
from prefixledger.report.page import page
from prefixledger.report.policy_parts import Policy, PolicyDay
from prefixledger.report.render import html

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView

ROWS = ((0, "a", 90, 90), (0, "b", 100, 80), (2, "a", 100, 20))
"""Hour, replica, simulated and observed of 100 tokens."""


def week() -> ReportView:
    """Three points, one of which is far off."""
    view = report_data.week()
    hours = tuple(
        ObservedHour(
            name, report_data.START_US + hour * report_data.HOUR_US, 1, 100, seen, 100, seen, simulated, 100
        )
        for hour, name, simulated, seen in ROWS
    )
    observed = view.result.observed
    assert observed is not None
    observed = replace(observed, hours=hours, both_prompt_tokens=300, simulated_hit_tokens=290)
    return replace(view, results=(replace(view.result, observed=observed),))


def test_points_are_replicas_in_hours_or_models_on_days() -> None:
    """Models where there are several, for each has rules of its own."""
    view = week()
    assert [pair.name for pair in pairs(view)] == [
        "a, Mon 23 Nov 00:00",
        "a, Mon 23 Nov 02:00",
        "b, Mon 23 Nov 00:00",
    ]
    days = tuple(
        PolicyDay(m, "2026-11-23", 1, PolicyError(50, 5, 0, 0), 40, 45, None, None) for m in ("x", "y")
    )
    both = replace(view, policy=Policy(PolicyError(100, 10, 0, 0), days, ()))
    assert [(pair.name, pair.observed, pair.simulated) for pair in pairs(both)] == [
        ("x, 2026-11-23", 0.8, 0.9),
        ("y, 2026-11-23", 0.8, 0.9),
    ]
    one = replace(view.result, observed=None)
    assert pairs(replace(view, results=(one,))) == ()


def test_the_title_says_how_far_apart_and_where_most() -> None:
    """190 of 300 against 290 of 300."""
    assert observed_sentence(week()) == (
        "The service reports 63.3 % as hits, 33.3 points less than the replay (96.7 %); furthest apart is "
        "a, Mon 23 Nov 02:00, 20.0 % against 100.0 %"
    )


def test_an_hour_without_lookups_is_left_open() -> None:
    """Both lines begin anew behind it, and every point is drawn."""
    drawn = observed_chart(week(), "fig-observed")
    lines = [
        path
        for path in re.findall(r'<path d="([^"]+)"[^>]*stroke-width:1.[48]', drawn)
        if path.count("M") > 1
    ]
    assert [path.count("M") for path in lines] == [2, 2]
    assert drawn.count("<use ") == len(ROWS)


def test_page_and_first_screen_show_what_the_service_logged() -> None:
    """The chart stands above its tables; where the verdict rests on the log, so do the bar and its sum."""
    view = week()
    observed = view.result.observed
    assert observed is not None
    total = view.result.total
    logged = replace(
        total,
        basis="observed",
        hit_tokens=total.hit_tokens - 1_000,
        misses={**total.misses, "unexplained": 1_000},
    )
    covered = replace(view.result, observed=replace(observed, book=logged))

    text = html(replace(view, results=(covered,)))

    assert text.index('id="fig-observed-title"') < text.index("What the service logged beside")
    assert f"as the service logged them: {total.prompt_tokens:,} = {logged.hit_tokens:,} hits" in text
    assert "Tokens, simulated" in text
    assert page(report_data.one_request()).charts["observed"] == ""
