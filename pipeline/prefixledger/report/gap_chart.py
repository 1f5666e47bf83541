"""The histogram of the time between two uses of a block, against times to live."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from prefixledger.report.canvas import INK, MUTED, area, bar_style, grid, heading, sheet
from prefixledger.report.numbers import amount, compact, duration, percent
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.report.curve_parts import Curves

_EDGES_S = (
    0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 604_800, 2_592_000,
)  # fmt: skip
_TICKS_S = (1, 10, 60, 300, 3_600, 14_400, 86_400, 604_800)
LIVES_S = (300.0, 3_600.0)
"""What providers sell: 5 minutes and an hour."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Tokens whose block was used before, by the time since.

    Attributes:
        from_s: Least time of the bin, exclusive but for the first.
        to_s: Greatest.
        tokens: Tokens.
    """

    from_s: float
    to_s: float
    tokens: int


def gaps(curves: Curves) -> tuple[Gaps, ...]:
    """Return the histogram: what a longer time to live adds is what comes back within the difference.

    Edges are the points of the curve nearest below round times, so that every bin is exact.
    """
    points = curves.ttl
    if not points or not points[-1].hit_tokens:
        return ()
    edges: list[tuple[float, int]] = [(0.0, 0)]
    for edge in _EDGES_S:
        below = [p for p in points if p.ttl_s <= edge]
        if below and below[-1].ttl_s > edges[-1][0]:
            edges.append((below[-1].ttl_s, below[-1].hit_tokens))
    if points[-1].ttl_s > edges[-1][0] and points[-1].hit_tokens > edges[-1][1]:
        edges.append((points[-1].ttl_s, points[-1].hit_tokens))
    found = [Gaps(a, b, most - least) for (a, least), (b, most) in pairwise(edges)]
    while found and not found[-1].tokens:
        found.pop()
    return tuple(found)


def within(found: Sequence[Gaps], curves: Curves, life_s: float) -> float:
    """Return the share of the tokens used again that come back within a time to live."""
    whole = sum(g.tokens for g in found)
    hits = next((p.hit_tokens for p in reversed(curves.ttl) if p.ttl_s <= life_s), 0)
    return hits / whole if whole else 0.0


def gap_chart(curves: Curves, chart_id: str) -> str:
    """Draw the histogram, today's time to live and those that providers sell as lines; beyond today's is expired."""
    found = gaps(curves)
    today = curves.ttl_today_s
    least = max(found[0].to_s / 3, 0.01)
    with mpl.rc_context(STYLE):
        figure = sheet(250)
        axes = area(figure, 56, 54, 24, 50)
        axes.set_xscale("log")
        for one in found:
            left = max(one.from_s, least)
            style = bar_style("expired" if today is not None and one.from_s >= today else "hit")
            axes.bar(left, one.tokens, width=one.to_s - left, align="edge", **style)
        axes.set_xlim(least, found[-1].to_s)
        axes.xaxis.set_major_locator(FixedLocator([t for t in _TICKS_S if least <= t <= found[-1].to_s]))
        axes.xaxis.set_major_formatter(lambda v, _: duration(v))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("time since the last use on the same replica")
        axes.xaxis.label.set_color(MUTED)
        axes.yaxis.set_major_formatter(lambda v, _: compact(v) if v else "0")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        grid(axes)
        heading(axes, "Tokens used again", lift=26)
        lives = sorted({*LIVES_S, *(() if today is None else (today,))})
        for life in (x for x in lives if least < x < found[-1].to_s):
            axes.axvline(life, color=INK, linewidth=1.0, linestyle=(0, (2, 2)))
            axes.annotate(
                f"{'today, ' if life == today else ''}{duration(life)}: {percent(within(found, curves, life))}",
                (life, 1), xycoords=("data", "axes fraction"), xytext=(0, 6), textcoords="offset points",
                ha="center", va="bottom", color=INK, fontsize=11, annotation_clip=False,
            )  # fmt: skip
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Time between two uses",
            description="; ".join(f"up to {duration(g.to_s)}: {amount(g.tokens)} tokens" for g in found)
            + ".",
        )
