"""The chart of the report over time: hit rate above, tokens by outcome beneath, events across both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, MaxNLocator

from prefixledger.report.canvas import INK, area, bar_style, grid, heading, sheet
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import duration, moment, percent
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.report.time_axis import mark_times, time_ticks
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prefixledger.report.parts import Bucket
    from prefixledger.report.view import ReportView

_PER = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day"}
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
        time_ticks(low, buckets[0].at_us, view.window, hours[-1] + width_s / 3600)
        mark_times((top, low), [(event.at_us - buckets[0].at_us) / 3.6e9 for event in view.events], edges[-1])
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
