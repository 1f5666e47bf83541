"""The chart of what the service reports beside the replay: over time, and point by point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from prefixledger.report.canvas import INK, MUTED, area, grid, heading, note, sheet
from prefixledger.report.numbers import clean, moment, percent, points
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.report.time_axis import time_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from prefixledger.report.view import ReportView

_HOUR_US = 3_600_000_000
_MOST_POINTS = 240
"""More cover each other; the largest are drawn."""

_MOST_STEPS = 96
_WIDTHS = (1, 2, 3, 6, 12, 24, 168)
"""Hours of a step: more than 96 steps of two lines cannot be told apart in half the width of a page."""

_LEAST_POINTS = 2
_LARGEST_PX = 11
_ALIKE = 0.01
"""A point of the hit rate is no difference to speak of."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What the service reports of some lookups, and what the replay gives them.

    Attributes:
        name: Model and day, or replica and hour.
        prompt_tokens: Tokens asked.
        observed_tokens: Read from cache, as reported.
        simulated_tokens: Hit in the replay.
    """

    name: str
    prompt_tokens: int
    observed_tokens: int
    simulated_tokens: int

    @property
    def observed(self) -> float:
        """Reported hit rate."""
        return self.observed_tokens / self.prompt_tokens

    @property
    def simulated(self) -> float:
        """Simulated hit rate."""
        return self.simulated_tokens / self.prompt_tokens


def pairs(view: ReportView) -> tuple[Pair, ...]:
    """Return the points: by model and day where there are several models, else by replica and hour.

    The largest first; none where they would be fewer than two.
    """
    days = () if view.policy is None else view.policy.days
    found = []
    if len({day.model for day in days}) > 1:
        found = [
            Pair(
                f"{clean(day.model or '(not said)', 24)}, {day.day}",
                day.error.prompt_tokens,
                day.billed_read_tokens,
                day.simulated_read_tokens,
            )
            for day in days
        ]
    elif view.result.observed is not None:
        found = [
            Pair(
                f"{clean(hour.replica, 24)}, {moment(hour.at_us, view.window)}",
                hour.both_prompt_tokens,
                hour.both_cached_tokens,
                hour.both_simulated_tokens,
            )
            for hour in view.result.observed.hours
            if hour.both_prompt_tokens
        ]
    found.sort(key=lambda pair: (-pair.prompt_tokens, pair.name))
    return tuple(found[:_MOST_POINTS]) if len(found) >= _LEAST_POINTS else ()


def by_time(view: ReportView) -> tuple[int, tuple[tuple[int, int, int, int], ...]]:
    """Return the hours of a step, and (start, prompt tokens, reported, simulated) of each with lookups that have both."""
    hours = () if view.result.observed is None else view.result.observed.hours
    if not hours:
        return 1, ()
    first = min(hour.at_us for hour in hours)
    spread = (max(hour.at_us for hour in hours) - first) // _HOUR_US + 1
    width = next((n for n in _WIDTHS if spread <= n * _MOST_STEPS), _WIDTHS[-1])
    sums: dict[int, list[int]] = {}
    for hour in hours:
        step = (hour.at_us - first) // (width * _HOUR_US)
        row = sums.setdefault(first + step * width * _HOUR_US, [0, 0, 0])
        for n, tokens in enumerate(
            (hour.both_prompt_tokens, hour.both_cached_tokens, hour.both_simulated_tokens)
        ):
            row[n] += tokens
    return width, tuple((at, row[0], row[1], row[2]) for at, row in sorted(sums.items()) if row[0])


def observed_chart(view: ReportView, chart_id: str) -> str:
    """Draw both hit rates over time, and one against the other: on the diagonal the replay gives what is reported."""
    dots, (width, steps) = pairs(view), by_time(view)
    with mpl.rc_context(STYLE):
        figure = sheet(330)
        if len(steps) > 1:
            _over_time(area(figure, 56, 40, 350, 50), view, width, steps)
        beside = area(figure, 610 if len(steps) > 1 else 56, 40, 24, 50)
        _against(beside, dots)
        far = furthest(dots)
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Observed against simulated hit rate",
            description=f"{len(dots)} points; the furthest apart is {far.name}: {percent(far.observed)} observed, "
            f"{percent(far.simulated)} simulated.",
        )


def observed_sentence(view: ReportView) -> str:
    """Say how far service and replay are apart, and where most."""
    dots, observed = pairs(view), view.result.observed
    assert observed is not None, "there are points"
    asked = observed.both_prompt_tokens
    simulated = (observed.simulated_hit_tokens or 0) / asked
    reported = (sum(row[2] for row in by_time(view)[1]) or sum(p.observed_tokens for p in dots)) / asked
    far = furthest(dots)
    where = f"; furthest apart is {far.name}, {percent(far.observed)} against {percent(far.simulated)}"
    if abs(reported - simulated) < _ALIKE:
        text = f"The service reports {percent(reported)}, and the replay gives the same to a point"
    else:
        side = "less" if reported < simulated else "more"
        text = (
            f"The service reports {percent(reported)} as hits, {points(abs(reported - simulated))} {side} than the replay "
            f"({percent(simulated)})"
        )
    return text if percent(far.observed) == percent(far.simulated) else text + where


def furthest(dots: Sequence[Pair]) -> Pair:
    """Return the point whose tokens differ most."""
    return max(dots, key=lambda p: (abs(p.observed_tokens - p.simulated_tokens), p.name))


def _over_time(axes: Axes, view: ReportView, width: int, steps: Sequence[tuple[int, int, int, int]]) -> None:
    first = steps[0][0]
    starts = [(at - first) / _HOUR_US for at, *_ in steps]
    lines: tuple[tuple[list[float], dict[str, Any]], ...] = (
        ([row[3] / row[1] for row in steps], {"color": series("hit"), "linewidth": 1.8}),
        ([row[2] / row[1] for row in steps], {"color": INK, "linewidth": 1.4, "linestyle": (0, (3, 2))}),
    )
    for values, style in lines:
        at: list[float] = []
        heights: list[float] = []
        for n, start in enumerate(starts):
            at.append(start)
            heights.append(values[n])
            if n + 1 == len(starts) or starts[n + 1] > start + width:  # a step without lookups lies between
                at += [start + width, start + width]
                heights += [values[n], float("nan")]
        axes.step(at, heights, where="post", **style)
    _percents(axes, "y")
    axes.set_xlim(0, starts[-1] + width)
    time_ticks(axes, first, view.window, starts[-1] + width, most=4)
    grid(axes)
    heading(
        axes,
        f"Token hit rate by {'hour' if width == 1 else f'{width} hours'}",
        aside="solid: simulated, dashed: observed",
    )


def _against(axes: Axes, dots: Sequence[Pair]) -> None:
    largest = max(dot.prompt_tokens for dot in dots)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    sizes: dict[int, list[Pair]] = {}
    for dot in dots:  # few sizes: all points of one are one shape, drawn again and again
        sizes.setdefault(max(3, round(_LARGEST_PX * (dot.prompt_tokens / largest) ** 0.5)), []).append(dot)
    for size, alike in sorted(sizes.items(), reverse=True):
        axes.plot(
            [dot.simulated for dot in alike], [dot.observed for dot in alike], marker="o", markersize=size,
            linestyle="none", color=series("hit"), alpha=0.55, markeredgewidth=0, clip_on=False, zorder=3,
        )  # fmt: skip
    _percents(axes, "x")
    _percents(axes, "y")
    axes.set_xlabel("simulated; the larger, the more tokens")
    grid(axes)
    heading(axes, "Observed")
    note(axes, "as simulated", (1, 1), (0, 6), "right", "bottom", MUTED)


def _percents(axes: Axes, which: str) -> None:
    ticks, names = [0, 0.5, 1], ["0 %", "50 %", "100 %"]
    if which == "x":
        axes.set_xlim(0, 1)
        axes.set_xticks(ticks, names)
    else:
        axes.set_ylim(0, 1)
        axes.set_yticks(ticks, names)
