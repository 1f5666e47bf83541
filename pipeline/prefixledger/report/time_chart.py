"""The chart of the report over time: hit rate above, tokens by outcome beneath, events across both."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, MaxNLocator

from prefixledger.report.canvas import INK, PAGE, WIDTH_PX, area, bar_style, grid, heading, sheet
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import duration, local_time, moment, percent
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prefixledger.report.parts import Bucket
    from prefixledger.report.view import ReportView

_PER = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day"}
_STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200)
_MOST_TICKS = 8
_SHORT_HOURS = 48
"""A window of two days or less is ticked by its hours and minutes, a longer one by its days."""

_MARK_PX = 17
"""Marks of events that are nearer than this are drawn as one."""

_DRAWN_PX = WIDTH_PX - 160
_EDGE = 0.02
"""A tick this near to the left edge moves onto it; one this near to the right edge has no room for its name."""

_FIRST_DAY = dt.date(1970, 1, 1).toordinal() - 1
_LIFT = 16
"""Pixels from the top of the rate panel to its heading: the numbers of events stand between."""


def over_time(view: ReportView, chart_id: str) -> str:
    """Draw the hit rate and, beneath it on the same axis of time, the tokens by outcome, with the events marked."""
    buckets, width_s = view.timeline.buckets, view.timeline.width_s
    present = [c for c in CAUSES if any(b.misses.get(c) for b in buckets)]
    hours = [(b.at_us - buckets[0].at_us) / 3.6e9 for b in buckets]
    edges = [*hours, hours[-1] + width_s / 3600]
    with mpl.rc_context(STYLE):
        figure = sheet(458)
        top = area(figure, 56, 44, 104, 288)
        low = area(figure, 56, 214, 104, 32, share=top)
        _rate_lines(top, buckets, edges)
        for name, tops in reversed(_layers(buckets, present)):
            # Each from the bottom, the later over the earlier: a layer between two steps would be drawn twice as long.
            style = bar_style(name) | {"linewidth": 0.0}
            low.fill_between(edges, [*tops, tops[-1]], step="post", **style)
        low.set_ylim(0, max(b.prompt_tokens for b in buckets) * 1.04 or 1)
        low.set_xlim(edges[0], edges[-1])
        low.yaxis.set_major_locator(MaxNLocator(4))
        low.yaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
        grid(low)
        heading(low, f"Prompt tokens per {_PER.get(width_s, duration(width_s))}")
        _layer_names(low, ["hit", *present], buckets, edges)
        time_ticks(low, view, hours[-1] + width_s / 3600)
        _mark_events(top, low, view, buckets[0].at_us, edges[-1])
        top.tick_params(labelbottom=False)
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Hit rate and causes over time",
            description=_course(view, present),
        )


def _layers(buckets: tuple[Bucket, ...], present: list[str]) -> list[tuple[str, list[float]]]:
    """Return for each outcome how high its layer reaches in every slice, from the bottom up."""
    found, base = [], [0.0] * len(buckets)
    for name in ("hit", *present):
        base = [
            under + (b.hit_tokens if name == "hit" else b.misses.get(name, 0))
            for under, b in zip(base, buckets, strict=True)
        ]
        found.append((name, base))
    return found


def _rate_lines(axes: Axes, buckets: tuple[Bucket, ...], edges: list[float]) -> None:
    nan = float("nan")
    rates = [b.hit_tokens / b.prompt_tokens if b.prompt_tokens else nan for b in buckets]
    observed = [
        b.observed_hit_tokens / b.observed_prompt_tokens if b.observed_prompt_tokens else nan for b in buckets
    ]
    axes.step(edges, [*rates, rates[-1]], where="post", color=series("hit"), linewidth=1.8)
    if any(b.observed_prompt_tokens for b in buckets):
        axes.step(
            edges, [*observed, observed[-1]], where="post", color=INK, linewidth=1.4, linestyle=(0, (3, 2))
        )
        heading(axes, "Token hit rate", aside="solid: simulated, dashed: logged by the service", lift=_LIFT)
    else:
        heading(axes, "Token hit rate, simulated", lift=_LIFT)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    grid(axes)


def _layer_names(axes: Axes, names: list[str], buckets: tuple[Bucket, ...], edges: list[float]) -> None:
    """Name the layers at the right edge, pushed apart so that none covers another."""
    last = next((b for b in reversed(buckets) if b.prompt_tokens), buckets[-1])
    top = axes.get_ylim()[1]
    at, base = [], 0
    for name in names:
        value = last.hit_tokens if name == "hit" else last.misses.get(name, 0)
        at.append((base + value / 2) / top)
        base += value
    gap = 0.075
    for i in range(1, len(at)):
        at[i] = max(at[i], at[i - 1] + gap)
    overflow = max(0.0, at[-1] - 1.0)
    at = [a - overflow for a in at]
    for i in range(len(at) - 2, -1, -1):
        at[i] = min(at[i], at[i + 1] - gap)
    for name, y in zip(names, at, strict=True):
        axes.annotate(
            "hits" if name == "hit" else cause_name(name), (edges[-1], y * top), xytext=(18, 0),
            textcoords="offset points", va="center", color=INK, fontsize=11, annotation_clip=False,
        )  # fmt: skip
        axes.annotate(
            "\N{BLACK SQUARE}", (edges[-1], y * top), xytext=(5, 0.5), textcoords="offset points", va="center",
            color=series(name), fontsize=10, annotation_clip=False,
        )  # fmt: skip


def time_ticks(axes: Axes, view: ReportView, hours: float) -> None:
    """Put ticks at midnight in the zone of the report, or at round times of a short window."""
    first = view.timeline.buckets[0].at_us
    start = local_time(first, view.window)
    short = hours <= _SHORT_HOURS
    if short:
        step_s = next((s for s in _STEPS_S if hours * 3600 / s <= _MOST_TICKS), _STEPS_S[-1])
    else:
        step_s = 86_400 * max(1, round(hours / 24 / _MOST_TICKS))
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    skipped = int((start - midnight).total_seconds() // step_s)
    at, names = [], []
    for number in range(skipped, skipped + 2 * _MOST_TICKS + 4):
        tick = midnight + dt.timedelta(seconds=number * step_s)
        offset = (tick - start).total_seconds() / 3600
        if -_EDGE * hours <= offset <= (1 if short else 1 - _EDGE) * hours:
            at.append(max(offset, 0.0))
            names.append(_tick_name(view, tick, first + round(offset * 3.6e9), step_s))
    axes.set_xticks(at, names, ha="center" if short else "left")


def _tick_name(view: ReportView, tick: dt.datetime, at_us: int, step_s: int) -> str:
    if step_s >= 86_400:  # noqa: PLR2004  # a day
        return (
            f"day {tick.toordinal() - _FIRST_DAY}"
            if view.window.relative
            else f"{tick:%a} {tick.day} {tick:%b}"
        )
    return moment(at_us, view.window, seconds=step_s < 60).split(" ")[-1]  # noqa: PLR2004  # a minute


def _mark_events(top: Axes, low: Axes, view: ReportView, first_us: int, last: float) -> None:
    """Draw a line for every event, and its number where it has room; neighbours share a mark."""
    marks: list[tuple[float, int, int]] = []
    for number, event in enumerate(view.events, start=1):
        hour = (event.at_us - first_us) / 3.6e9
        if not 0 <= hour <= last:
            continue
        for axes in (top, low):
            axes.axvline(hour, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        if marks and (hour - marks[-1][0]) / last * _DRAWN_PX < _MARK_PX:
            marks[-1] = (marks[-1][0], marks[-1][1], number)
        else:
            marks.append((hour, number, number))
    for hour, begin, end in marks:
        top.annotate(
            str(begin) if begin == end else f"{begin}\N{EN DASH}{end}", (hour, 1.0), ha="center", va="center",
            color=PAGE, fontsize=10, fontweight="bold", annotation_clip=False, zorder=6,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": INK, "edgecolor": "none"},
        )  # fmt: skip


def _course(view: ReportView, present: list[str]) -> str:
    rated = [b for b in view.timeline.buckets if b.prompt_tokens]
    if not rated:
        return "No lookups."
    low = min(rated, key=lambda b: b.hit_tokens / b.prompt_tokens)
    high = max(rated, key=lambda b: b.hit_tokens / b.prompt_tokens)
    return (
        f"The hit rate is lowest, {percent(low.hit_tokens / low.prompt_tokens)}, at {moment(low.at_us, view.window)} and "
        f"highest, {percent(high.hit_tokens / high.prompt_tokens)}, at {moment(high.at_us, view.window)}. "
        f"Causes that occur: {', '.join(cause_name(c) for c in present) or 'none'}. Events marked: {len(view.events)}."
    )


def _short(value: float) -> str:
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g} {letter}"
    return f"{value:g}"
