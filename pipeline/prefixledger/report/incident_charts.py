"""The pictures of an investigation: the course of all lookups, and each change before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from prefixledger.config.units import datetime_us
from prefixledger.report.canvas import INK, WIDTH_PX, area, bar_style, grid, heading, note, sheet
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import clean, moment, percent, points
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.report.time_axis import mark_times, time_ticks
from prefixledger.report.view import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prefixledger.attribute.investigated import BeforeAfter, Incident, Investigation

_CHARACTER_PX = 7.5
"""Width that a character of a label takes at most; a piece of a bar without that room goes without its label."""

_LEFT_PX, _RIGHT_PX = 60, 110
_FIRST_YEAR = 1971
"""A log that begins before has a clock that counts from its own start."""


def course(found: Investigation, chart_id: str) -> str:
    """Draw the hit rate of every slice and, beneath it, the share of every outcome, with the moments numbered.

    Args:
        found: Has two slices or more.
        chart_id: Unique on the page.
    """
    first_us = datetime_us(found.hourly[0][0])
    width_h = found.slice_s / 3600
    starts = [(datetime_us(at) - first_us) / 3.6e9 for at, _, _ in found.hourly]
    names = [c for n, c in enumerate(found.causes) if any(shares[n] for _, _, shares in found.hourly)]
    last = starts[-1] + width_h
    with mpl.rc_context(STYLE):
        figure = sheet(400)
        top = area(figure, 56, 44, 104, 250)
        low = area(figure, 56, 192, 104, 32, share=top)
        edges, rates = _steps(starts, [hit for _, hit, _ in found.hourly], width_h)
        top.step(edges, rates, where="post", color=series("hit"), linewidth=1.8)
        tops = [hit for _, hit, _ in found.hourly]
        layers = [("hit", tops)]
        for name in names:
            number = found.causes.index(name)
            tops = [under + shares[number] for under, (_, _, shares) in zip(tops, found.hourly, strict=True)]
            layers.append((name, tops))
        for name, heights in reversed(layers):
            at, high = _steps(starts, heights, width_h)
            low.fill_between(at, high, step="post", **bar_style(name) | {"linewidth": 0.0})
        for axes in (top, low):
            _shares(axes)
        low.set_xlim(0, last)
        heading(top, "Token hit rate, simulated", lift=16)
        heading(low, "Shares of the prompt tokens")
        _names(low, layers, last)
        time_ticks(low, first_us, window_of(found), last)
        top.tick_params(labelbottom=False)
        mark_times((top, low), [(datetime_us(one.at) - first_us) / 3.6e9 for one in found.incidents], last)
        said = ", ".join(
            f"{n} at {moment(datetime_us(one.at), window_of(found))}"
            for n, one in enumerate(found.incidents, start=1)
        )
        return inline_svg(
            figure, chart_id=chart_id, title="Hit rate and causes by slice", description=f"Marked: {said or 'none'}."
        )  # fmt: skip


def before_after(one: Incident, chart_id: str) -> str:
    """Draw two bars: what became of the prompt tokens before a change, and after it."""
    with mpl.rc_context(STYLE):
        figure = sheet(126)
        axes = area(figure, _LEFT_PX, 30, _RIGHT_PX, 8)
        for row, shares in enumerate((_pieces(one, "before"), _pieces(one, "after"))):
            left = 0.0
            for name, share in shares:
                axes.barh(row, share, left=left, height=0.62, **bar_style(name))
                left += share
            hit = next((share for name, share in shares if name == "hit"), 0.0)
            note(axes, f"{percent(hit)} hits", (1, row), (8, 0), "left", "center", INK)
        _label_pieces(axes, _pieces(one, "after"))
        axes.set_xlim(0, 1)
        axes.set_ylim(1.45, -0.5)
        axes.set_yticks([0, 1], ["before", "after"], color=INK)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        heading(axes, "Shares of the prompt tokens")
        said = "; ".join(
            f"{line.name if line.name == 'hit' else cause_name(line.name)} {percent(line.before)} before, {percent(line.after)} after"
            for line in one.table
        )
        return inline_svg(
            figure, chart_id=chart_id, title="Before and after", description=f"{said}."
        )  # fmt: skip


def before_after_sentence(one: Incident) -> str:
    """Say how far the hit rate went, and which cause went furthest."""
    hit = next(line for line in one.table if line.name == "hit")
    of = "" if one.field == "all" else f" of {one.field} {clean(one.value, 30)}"
    text = f"The hit rate{of} went from {percent(hit.before)} to {percent(hit.after)}"
    causes = [line for line in one.table if line.name != "hit"]
    most = max(causes, key=lambda line: abs(line.after - line.before), default=None)
    if most is None or most.before == most.after:
        return text
    more = "more" if most.after > most.before else "less"
    return f"{text}, with {points(abs(most.after - most.before))} {more} {cause_name(most.name)}"


def course_sentence(found: Investigation) -> str:
    """Say where the hit rate was lowest and highest."""
    low = min(found.hourly, key=lambda line: line[1])
    high = max(found.hourly, key=lambda line: line[1])
    if percent(low[1]) == percent(high[1]):
        return f"The hit rate is {percent(low[1])} all the time"
    worst, best = (moment(datetime_us(at), window_of(found)) for at in (low[0], high[0]))
    return f"The hit rate is lowest, {percent(low[1])}, at {worst} and highest, {percent(high[1])}, at {best}"


def window_of(found: Investigation) -> Window:
    """Return what was looked at, for its times."""
    relative = found.begin.year < _FIRST_YEAR
    return Window(datetime_us(found.begin), datetime_us(found.end), "UTC", relative)


def _pieces(one: Incident, side: str) -> list[tuple[str, float]]:
    def share(line: BeforeAfter) -> float:
        return line.before if side == "before" else line.after

    return [(line.name, share(line)) for line in one.table if share(line)]


def _label_pieces(axes: Axes, shares: list[tuple[str, float]]) -> None:
    """Name the pieces of the lower bar that have room, above it."""
    left = 0.0
    for name, share in shares:
        label = "hits" if name == "hit" else cause_name(name)
        if share * (WIDTH_PX - _LEFT_PX - _RIGHT_PX) >= _CHARACTER_PX * len(label):
            note(axes, label, (left, 0.67), (1, 0), "left", "bottom", INK)
        left += share


def _steps(starts: list[float], values: list[float], width_h: float) -> tuple[list[float], list[float]]:
    """Return the corners of a step line, broken where slices without lookups lie between."""
    at: list[float] = []
    heights: list[float] = []
    for number, (start, value) in enumerate(zip(starts, values, strict=True)):
        at.append(start)
        heights.append(value)
        end = start + width_h
        if number + 1 == len(starts) or starts[number + 1] > end * (1 + 1e-9):
            at += [end, end]
            heights += [value, float("nan")]
    return at, heights


def _shares(axes: Axes) -> None:
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    grid(axes)


def _names(axes: Axes, layers: list[tuple[str, list[float]]], last: float) -> None:
    """Name all outcomes beside the chart, hits at the bottom, in the order in which they are stacked."""
    for number, (name, _) in enumerate(layers):
        y = 0.03 + 0.115 * number
        label = "hits" if name == "hit" else cause_name(name)
        note(axes, "\N{BLACK SQUARE}", (last, y), (5, 0), "left", "center", series(name))
        note(axes, label, (last, y), (18, 0), "left", "center", INK)
