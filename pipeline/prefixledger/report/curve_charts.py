"""The charts of what other sizes and times to live would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import FixedLocator, NullLocator

from prefixledger.report.canvas import INK, MUTED, area, grid, heading, note, sheet, thin
from prefixledger.report.numbers import clean, duration, multiplier, percent, whole
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from prefixledger.report.curve_parts import Curves, TtlPoint

MOST_POINTS = 500
"""More than a line of 700 pixels can show."""

_NAMES_PX = 150
"""Room for the names of rate cards beside their lines."""

_NAME_GAP = 0.115
"""Least distance of two names, as a share of the height."""

_DASHES = ((6, 2), (2, 2), (6, 2, 2, 2), (1, 2), (8, 3))
_TTL_TICKS_S = (1, 10, 60, 300, 900, 3_600, 14_400, 86_400, 604_800, 2_592_000)


def capacity_curve(curves: Curves, chart_id: str) -> str:
    """Draw the hit rate over the capacity per replica, with today's point on it."""
    kept = [curves.capacity[i] for i in thin(len(curves.capacity), MOST_POINTS)]
    xs = [max(p.capacity_blocks, 1) for p in kept]
    ys = [p.hit_tokens / curves.prompt_tokens for p in kept]
    with mpl.rc_context(STYLE):
        figure = sheet(290)
        axes = area(figure, 56, 36, 24, 50)
        axes.set_xscale("log")
        axes.plot(
            xs, ys, color=series("hit"), linewidth=1.8
        )  # straight between its points, unlike the TTL curve
        _rate_axis(axes, ys)
        axes.set_xlim(xs[0], max(xs[-1], curves.capacity_today or 0, xs[0] * 2))
        axes.set_xticks(_decades(xs[0], axes.get_xlim()[1]))
        axes.xaxis.set_major_formatter(lambda v, _: whole(v))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"blocks per replica, {curves.block_size} tokens each (each step is ten times more)")
        heading(axes, "Token hit rate, simulated")
        best = _bound(axes, curves)
        today, knee = "", curves.knee
        bend = 0 if knee is None else knee.capacity_blocks
        if xs[0] < bend < xs[-1]:
            axes.axvline(bend, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            left = _in_right_fifth(axes, bend)
            side, ha = (-6, "right") if left else (6, "left")
            note(axes, f"knee: {whole(bend)}", (bend, axes.get_ylim()[0]), (side, 8), ha, "bottom", MUTED)
        if curves.capacity_today is not None:
            y = between(xs, ys, curves.capacity_today)
            today = f"Today: {whole(curves.capacity_today)} blocks give {percent(y)}."
            _point(axes, max(curves.capacity_today, 1), y, f"today: {percent(y)}")
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Hit rate by capacity",
            description=f"From {percent(ys[0])} at {whole(xs[0])} blocks to {percent(ys[-1])} at {whole(xs[-1])}. {today}{best}",
        )


def _bound(axes: Axes, curves: Curves) -> str:
    """Draw what no policy could exceed as a dashed line, and say it at today's capacity."""
    known = [
        (p.capacity_blocks, p.clairvoyant_tokens) for p in curves.capacity if p.clairvoyant_tokens is not None
    ]
    if len(known) > 1:
        xs, ys = [max(at, 1) for at, _ in known], [tokens / curves.prompt_tokens for _, tokens in known]
        axes.plot(xs, ys, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)))
        heading(axes, "", aside="dashed: no order of eviction hits more")
    if curves.bound is None:
        return ""
    most = percent(curves.bound.clairvoyant_tokens / curves.prompt_tokens)
    return f" No order of eviction gives more than {most} with that memory."


def ttl_curve(curves: Curves, chart_id: str) -> str:
    """Draw the hit rate over the time to live, and under it the cost multiplier under each rate card."""
    kept = [curves.ttl[i] for i in thin(len(curves.ttl), MOST_POINTS)]
    xs = [max(p.ttl_s, 0.1) for p in kept]
    ys = [p.hit_tokens / curves.prompt_tokens for p in kept]
    right = _NAMES_PX if curves.rates else 24
    with mpl.rc_context(STYLE):
        figure = sheet(440 if curves.rates else 270)
        axes = area(figure, 56, 36, right, 240 if curves.rates else 50)
        axes.set_xscale("log")
        axes.step(xs, ys, where="post", color=series("hit"), linewidth=1.8)
        _rate_axis(axes, ys)
        heading(axes, "Token hit rate, simulated")
        if curves.ttl_today_s is not None:
            y = _at(xs, ys, curves.ttl_today_s)
            _point(axes, curves.ttl_today_s, y, f"today: {percent(y)}")
        lowest, told = axes, ""
        if curves.rates:
            lowest = area(figure, 56, 256, right, 50, share=axes)
            told = _price_lines(lowest, curves, xs, kept)
            axes.tick_params(labelbottom=False)
        lowest.set_xlim(xs[0], max(xs[-1], xs[0] * 2))
        ticks = [t for t in _TTL_TICKS_S if xs[0] <= t <= lowest.get_xlim()[1]]
        lowest.xaxis.set_major_locator(FixedLocator(ticks))
        lowest.xaxis.set_major_formatter(lambda v, _: duration(v))
        lowest.xaxis.set_minor_locator(NullLocator())
        lowest.set_xlabel("time to live after each use")
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Hit rate and cost by time to live" if curves.rates else "Hit rate by time to live",
            description=f"From {percent(ys[0])} at {duration(xs[0])} to {percent(ys[-1])} at {duration(xs[-1])}.{told}",
        )


def _price_lines(axes: Axes, curves: Curves, xs: Sequence[float], kept: Sequence[TtlPoint]) -> str:
    """Draw the multiplier under every rate card, those that the pool pays in full; return their lowest in words."""
    lines = [(line, [curves.multiplier(line, p) for p in kept]) for line in curves.rates]
    for number, (line, costs) in enumerate(lines):
        dashes = "solid" if line.own and not number else (0, _DASHES[number % len(_DASHES)])
        axes.step(
            xs, costs, where="post", color=INK if line.own else MUTED, linewidth=1.8 if line.own else 1.2, linestyle=dashes
        )  # fmt: skip
    axes.axhline(1.0, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    top = max(*(max(costs) for _, costs in lines), 1.0) * 1.1
    axes.set_ylim(0, top)
    axes.set_yticks([0, 0.5, 1.0], [multiplier(v) for v in (0, 0.5, 1.0)])
    grid(axes)
    heading(axes, "Cost multiplier", aside=f"{multiplier(1.0)} = no caching")
    ends = sorted(((costs[-1], line) for line, costs in lines), key=lambda pair: pair[0])
    at = -1.0
    for end, line in ends:
        at = max(end, at + top * _NAME_GAP)
        note(axes, clean(line.name, 22), (xs[-1], at), (6, 0), "left", "center", INK if line.own else MUTED)
    return "".join(f" {clean(line.name, 40)}: lowest {multiplier(min(costs))}." for line, costs in lines)


def _rate_axis(axes: Axes, rates: Sequence[float]) -> None:
    step = 0.25 if max(rates) > 0.5 else 0.1  # noqa: PLR2004
    top = min(1.0, (int(max(rates) / step) + 1) * step)
    ticks = [i * step for i in range(round(top / step) + 1)]
    axes.set_ylim(0, top * 1.02)
    axes.set_yticks(ticks, [f"{t * 100:.0f} %" for t in ticks])
    grid(axes)


def _decades(low: float, high: float) -> list[float]:
    ticks = [10.0**e for e in range(12) if low <= 10.0**e <= high]
    return ticks if len(ticks) > 1 else [low, high]


def _at(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Return the value of a step curve: what the largest point not beyond ``x`` has."""
    return next((y for px, y in zip(reversed(xs), reversed(ys), strict=True) if px <= x), 0.0)


def between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Return the value of a curve that is straight between its points, and flat beyond its last."""
    if x >= xs[-1]:
        return ys[-1]
    after = next(i for i, px in enumerate(xs) if px > x)
    if not after:
        return ys[0] * x / xs[0]
    left, right = after - 1, after
    return ys[left] + (ys[right] - ys[left]) * (x - xs[left]) / (xs[right] - xs[left])


def _in_right_fifth(axes: Axes, x: float) -> bool:
    """Return whether a place is so far right on a logarithmic axis that its label goes to the left."""
    low, high = axes.get_xlim()
    return bool(x > high / (high / low) ** 0.2)


def _point(axes: Axes, x: float, y: float, text: str) -> None:
    axes.plot(
        [x], [y], marker="o", markersize=8, color=series("evicted"), linestyle="none", clip_on=False, zorder=5
    )
    left = _in_right_fifth(axes, x)
    axes.annotate(
        text, (x, y), xytext=(-9 if left else 9, 13 if left else -13), textcoords="offset points", color=INK,
        fontsize=12, fontweight="bold", ha="right" if left else "left", va="center", annotation_clip=False,
    )  # fmt: skip
