"""Which cells of a grid nothing beats, and the charts that show it: hit rate against memory, load and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import NullLocator

from prefixledger.report.canvas import INK, MUTED, area, grid, heading, note, sheet
from prefixledger.report.numbers import compact, multiplier, percent
from prefixledger.report.palette import sentinel, series
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.attribute.cell import Cell

_MOST_LABELS = 12
"""Numbers beside more points than that lie on each other."""

_DECADES = 8.0
"""From here on an axis of memory is drawn in powers of ten."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something of which less is better.

    Attributes:
        name: As the axis of a chart is headed.
        values: Of each cell; None where it has none: it could not be replayed, or its memory has no limit.
        log: Whether its axis goes in powers.
    """

    name: str
    values: tuple[float | None, ...]
    log: bool = False

    @property
    def varies(self) -> bool:
        """Whether there is anything to draw."""
        return len({value for value in self.values if value is not None}) > 1


def measures(cells: Sequence[Cell]) -> tuple[Measure, ...]:
    """Return memory, load and cost of the cells of a grid, where they have any and it varies.

    Args:
        cells: The baseline and every combination.
    """
    size = int(cells[0].axes.get("block_size") or 1)
    memory = [_memory_blocks(cell, size) for cell in cells]
    load = [cell.totals.get("imbalance_prefill") for cell in cells]
    cost = [
        None if cell.cost is None or cell.cost["multiplier"] is None else float(cell.cost["multiplier"])
        for cell in cells
    ]
    known = [value for value in memory if value is not None]
    wide = bool(known) and max(known) > _DECADES * min(known)
    found = (
        Measure("Memory of all replicas, blocks", tuple(memory), log=wide),
        Measure("Tokens computed by the busiest replica, over the mean", tuple(load)),
        Measure("Cost of input, over that without a cache", tuple(cost)),
    )
    return tuple(measure for measure in found if measure.varies)


def frontier(cells: Sequence[Cell], asked: Sequence[Measure]) -> tuple[bool, ...]:
    """Tell which cells are beaten by no other: one that hits as much for as little, and is better in something.

    A capacity without a limit counts as more memory than any other.

    Args:
        cells: The baseline and every combination.
        asked: See ``measures``.
    """
    points = [
        None
        if cell.problem is not None
        else (-float(cell.totals["token_hit_rate"] or 0), *(_worst(measure.values[n]) for measure in asked))
        for n, cell in enumerate(cells)
    ]
    return tuple(
        mine is not None
        and not any(
            other is not None and other != mine and all(o <= m for o, m in zip(other, mine, strict=True))
            for other in points
        )
        for mine in points
    )


def chart(cells: Sequence[Cell], measure: Measure, best: Sequence[bool], chart_id: str) -> str:
    """Draw the hit rate of each cell over one measure, with the frontier in ink and the baseline named."""
    drawn = [n for n, value in enumerate(measure.values) if value is not None]
    xs = {n: value for n in drawn if (value := measure.values[n]) is not None}
    ys = {n: float(cells[n].totals["token_hit_rate"] or 0) for n in drawn}
    with mpl.rc_context(STYLE):
        figure = sheet(300)
        axes = area(figure, 56, 36, 40, 50)
        if measure.log:
            axes.set_xscale("log")
        others = [n for n in drawn if not best[n]]
        axes.plot(
            [xs[n] for n in others], [ys[n] for n in others], marker="o", markersize=6, linestyle="none",
            color=sentinel("muted"), alpha=0.5,
        )  # fmt: skip
        shown = sorted((n for n in drawn if best[n]), key=lambda n: (xs[n], ys[n]))
        axes.plot(
            [xs[n] for n in shown], [ys[n] for n in shown], marker="o", markersize=7, linestyle="none",
            color=series("hit"), zorder=4,
        )  # fmt: skip
        for n in shown[:_MOST_LABELS]:
            note(axes, str(n) if n else "", (xs[n], ys[n]), (7, 0), "left", "center", INK)
        if 0 in xs:
            axes.plot(
                [xs[0]],
                [ys[0]],
                marker="D",
                markersize=8,
                linestyle="none",
                color=series("evicted"),
                zorder=5,
            )
            note(axes, "baseline", (xs[0], ys[0]), (0, -12), "center", "top", INK)
        low, high = min(ys.values()), max(ys.values())
        room = max(high - low, 0.01) * 0.12
        axes.set_ylim(max(0.0, low - 2 * room), min(1.0, high + room) + 0.001)
        axes.yaxis.set_major_formatter(lambda v, _: percent(v))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda v, _: compact(v) if "blocks" in measure.name else multiplier(v))
        axes.set_xlabel(measure.name)
        grid(axes)
        heading(axes, "Token hit rate", aside="what nothing beats is in colour, with its number")
        axes.xaxis.label.set_color(MUTED)
        said = "; ".join(f"cell {n}: {percent(ys[n])} at {compact(xs[n])}" for n in shown[:_MOST_LABELS])
        return inline_svg(
            figure, chart_id=chart_id, title=f"Hit rate and {measure.name.lower()}", description=f"{said}."
        )


def finding(cells: Sequence[Cell], measure: Measure, best: Sequence[bool]) -> str:
    """Say which combination hits most, and which has least of a measure, of those that nothing beats."""

    def at(n: int) -> str:
        value = measure.values[n] or 0.0
        return compact(value) if "blocks" in measure.name else multiplier(value)

    shown = [n for n, value in enumerate(measure.values) if best[n] and value is not None]
    what = f"{measure.name[0].lower()}{measure.name[1:]}"
    if not shown:
        return f"Hit rate and {what}"
    rates = {n: float(cells[n].totals["token_hit_rate"] or 0) for n in shown}
    names = {n: f"combination {n}" if n else "the baseline" for n in shown}
    top = max(shown, key=lambda n: (rates[n], -n))
    text = (
        f"{names[top][0].upper()}{names[top][1:]} hits most, {percent(rates[top])}, at {at(top)} for {what}"
    )
    least = min(shown, key=lambda n: (measure.values[n] or 0.0, -rates[n], n))
    if at(least) == at(top):
        return text
    return f"{text}; {names[least]} has least, {at(least)}, and hits {percent(rates[least])}"


def _memory_blocks(cell: Cell, block_size: int) -> float | None:
    """Return the blocks of all replicas, of the size that the log has; None without a limit, and where pools differ."""
    words = str(cell.axes.get("capacity") or "").split()
    if cell.problem is not None or len(words) != 2 or not words[0].isdecimal():  # noqa: PLR2004
        return None
    own = {"blocks": int(cell.axes.get("block_size") or 1), "tokens": 1}.get(words[1])
    # Without an axis of block sizes tokens are not known to be so many blocks.
    if own is None or (words[1] == "tokens" and "block_size" not in cell.axes):
        return None
    replicas = int(cell.axes.get("replicas") or len(cell.replicas) or 1)
    return int(words[0]) * own * replicas / block_size


def _worst(value: float | None) -> float:
    return float("inf") if value is None else value
