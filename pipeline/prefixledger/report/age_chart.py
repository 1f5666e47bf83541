"""Ages at hit above ages at eviction: where both have tokens, eviction takes what would have been hit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from prefixledger.report.canvas import area, bar_style, grid, heading, sheet
from prefixledger.report.numbers import amount, compact, duration, percent
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from prefixledger.report.curve_parts import AgeRange, Curves

_LEAST_S = 0.3
"""Where the range below a second begins on a logarithmic axis."""
_LAST_S = 2_592_000
_TICKS_S = (1, 10, 60, 300, 3_600, 14_400, 86_400, 604_800)
_MOST = 0.9


def age_chart(curves: Curves, chart_id: str) -> str:
    """Draw both histograms over one axis; empty where nothing was evicted."""
    ages = curves.ages
    if not any(a.evicted_tokens for a in ages):
        return ""
    with mpl.rc_context(STYLE):
        figure = sheet(330)
        above = area(figure, 56, 36, 24, 190)
        below = area(figure, 56, 186, 24, 50, share=above)
        above.set_xscale("log")
        for axes, name, title in ((above, "hit", "Tokens hit"), (below, "evicted", "Tokens evicted")):
            for one in ages:
                left, right = max(one.from_s, _LEAST_S), _end(one)
                tokens = one.hit_tokens if name == "hit" else one.evicted_tokens
                axes.bar(left, tokens, width=right - left, align="edge", **bar_style(name))
            axes.yaxis.set_major_formatter(lambda v, _: compact(v) if v else "0")
            axes.yaxis.set_major_locator(MaxNLocator(3))
            grid(axes)
            heading(axes, title)
        above.set_xlim(max(ages[0].from_s, _LEAST_S), _end(ages[-1]))
        above.tick_params(labelbottom=False)
        below.xaxis.set_major_locator(FixedLocator([t for t in _TICKS_S if t <= _end(ages[-1])]))
        below.xaxis.set_major_formatter(lambda v, _: duration(v))
        below.xaxis.set_minor_locator(NullLocator())
        below.set_xlabel("time since the last use of the block on its replica")
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Age at hit and at eviction",
            description=f"{age_sentence(curves)}.",
        )


def age_sentence(curves: Curves) -> str:
    """Say by which age most hits have come, and how much is evicted before it."""
    ages, hits = curves.ages, sum(a.hit_tokens for a in curves.ages)
    evicted, missed = sum(a.evicted_tokens for a in ages), sum(a.missed_tokens for a in ages)
    if not hits:
        return f"Nothing hits, and {amount(evicted)} tokens are evicted"
    seen = 0
    for last in ages:
        seen += last.hit_tokens
        if seen >= _MOST * hits:
            break
    young = sum(a.evicted_tokens for a in ages if a.from_s <= last.from_s)
    age = f"under {duration(last.upto_s)}" if last.upto_s is not None else f"{duration(last.from_s)} and more"
    return (
        f"{percent(seen / hits)} of the hits are of blocks used last {age} before; {percent(young / max(evicted, 1))} of what is evicted "
        f"goes at such an age, and {amount(missed)} of {amount(evicted)} evicted tokens are asked for again and missed"
    )


def _end(one: AgeRange) -> int:
    return _LAST_S if one.upto_s is None else one.upto_s
