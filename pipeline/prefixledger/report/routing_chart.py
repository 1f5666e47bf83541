"""The chart of routings: hit rate over the load of the busiest replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from prefixledger.report.canvas import INK, MUTED, area, grid, heading, note, sheet
from prefixledger.report.numbers import clean, multiplier, percent
from prefixledger.report.palette import sentinel, series
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.report.load_parts import RoutingOption

_MOST_LABELS = 12
_RIGHT = 0.7
"""From there on the name of a point goes to its left."""


def drawable(options: Sequence[RoutingOption]) -> tuple[RoutingOption, ...]:
    """Return the routings with a load; below two of them there is nothing to draw."""
    found = tuple(o for o in options if o.prompt_tokens and o.imbalance_prefill)
    return found if len(found) > 1 else ()


def unbeaten(options: Sequence[RoutingOption]) -> tuple[bool, ...]:
    """Tell which routings no other beats: one that hits as much with as even a load, and is better in one of them."""
    points = [(-_rate(o), o.imbalance_prefill or 0.0) for o in options]
    return tuple(not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in points) for a in points)


def routing_chart(options: Sequence[RoutingOption], chart_id: str) -> str:
    """Draw every routing by its load and hit rate, what nothing beats in colour, and how far the draw of a router moves it."""
    best = unbeaten(options)
    xs = [o.imbalance_prefill or 0.0 for o in options]
    ys = [_rate(o) for o in options]
    with mpl.rc_context(STYLE):
        figure = sheet(290)
        axes = area(figure, 56, 36, 40, 50)
        low, high = min(1.0, *xs), max(*xs, 1.05)
        for n, option in enumerate(options):
            if option.rate_low is not None and option.rate_high is not None:
                axes.plot([xs[n]] * 2, [option.rate_low, option.rate_high], color=MUTED, linewidth=1.4)
            axes.plot(
                [xs[n]], [ys[n]], marker="o" if best[n] else "D", markersize=8 if best[n] else 6, linestyle="none",
                color=series("hit") if best[n] else sentinel("muted"), zorder=4,
            )  # fmt: skip
            if n < _MOST_LABELS:
                left = (xs[n] - low) / (high - low) > _RIGHT
                note(
                    axes, clean(option.routing, 32), (xs[n], ys[n]), (-9 if left else 9, 0),
                    "right" if left else "left", "center", INK,
                )  # fmt: skip
        room = max(max(ys) - min(ys), 0.01) * 0.2
        axes.set_ylim(max(0.0, min(ys) - room), min(1.0, max(ys) + room) + 0.001)
        axes.set_xlim(low - (high - low) * 0.04, high + (high - low) * 0.04)
        axes.yaxis.set_major_formatter(lambda v, _: percent(v))
        axes.xaxis.set_major_formatter(lambda v, _: multiplier(v))
        axes.set_xlabel("prefill of the busiest replica over the mean: further left is more even")
        axes.xaxis.label.set_color(MUTED)
        grid(axes)
        heading(axes, "Token hit rate", aside="round and in colour: what no other beats in both")
        said = "; ".join(
            f"{clean(o.routing, 32)}: {percent(y)} at {multiplier(x)}"
            for o, x, y in zip(options, xs, ys, strict=True)
        )
        return inline_svg(
            figure, chart_id=chart_id, title="Hit rate and load by routing", description=f"{said}."
        )


def _rate(option: RoutingOption) -> float:
    return option.hit_tokens / option.prompt_tokens
