"""Curves of the parts of a pool, small: its replicas beside the pool as one cache, and the prompts that begin alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import NullLocator

from prefixledger.report.canvas import INK, MUTED, area, grid, heading, note, sheet
from prefixledger.report.numbers import clean, percent, points, whole
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.report.curve_parts import Curves

LEAST_SPREAD = 0.01
"""Of the hit rate; parts that are nearer to each other than that tell nothing."""
_NAME = 24
_TIMES = (0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part in the table under its chart.

    Attributes:
        name: As the chart names it.
        prompt_tokens: Of its lookups.
        rates: Hit rate at each of the sizes of the chart's table.
        pooled: Whether it is the whole pool as one cache.
    """

    name: str
    prompt_tokens: int
    rates: tuple[float, ...]
    pooled: bool = False


@dataclass(frozen=True, slots=True)
class PartChart:
    """The parts of one kind.

    Attributes:
        kind: ``replica`` or ``prefix``.
        svg: The drawing.
        caption: What it shows.
        sizes_blocks: Blocks per replica of the columns of the table, ascending; the middle one is today's, or the knee.
        rows: The table, the most prompt tokens first, the pool as one cache last.
    """

    kind: str
    svg: str
    caption: str
    sizes_blocks: tuple[int, ...]
    rows: tuple[PartRow, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    prompt_tokens: int
    xs: tuple[float, ...]
    rates: tuple[float, ...]
    pooled: bool

    def at(self, blocks: float) -> float:
        """Return the hit rate of a size: straight between points, none below the first."""
        if blocks >= self.xs[-1]:
            return self.rates[-1]
        if blocks < self.xs[0]:
            return 0.0
        right = next(i for i, x in enumerate(self.xs) if x > blocks)
        share = (blocks - self.xs[right - 1]) / (self.xs[right] - self.xs[right - 1])
        return self.rates[right - 1] + (self.rates[right] - self.rates[right - 1]) * share


def part_charts(curves: Curves, names: Mapping[str, str], chart_id: str) -> tuple[PartChart, ...]:
    """Draw the parts of a pool over the capacity of a replica, of each kind that tells something.

    Args:
        curves: The pool.
        names: Of prefixes, by key; others are named by the beginning of their key.
        chart_id: Begins the ids of the drawings.
    """
    middle = curves.capacity_today or (curves.knee.capacity_blocks if curves.knee is not None else 0)
    if not middle:
        return ()
    pooled = [line for line in _lines(curves, "pooled", names) if len(line.xs) > 1]
    found = []
    for kind in ("replica", "prefix"):
        lines = [line for line in _lines(curves, kind, names) if len(line.xs) > 1]
        beside = pooled if kind == "replica" else []
        rates = [line.at(middle) for line in (*lines, *beside)]
        if len(lines) < 2 or max(rates) - min(rates) < LEAST_SPREAD:  # noqa: PLR2004
            continue
        sizes = tuple(round(middle * times) for times in _TIMES)
        found.append(
            PartChart(
                kind=kind,
                svg=_drawn(curves, lines, beside, middle, f"{chart_id}-{kind}"),
                caption=_caption(curves, lines, beside, middle, kind),
                sizes_blocks=sizes,
                rows=tuple(
                    PartRow(line.name, line.prompt_tokens, tuple(map(line.at, sizes)), line.pooled)
                    for line in (*sorted(lines, key=lambda line: -line.prompt_tokens), *beside)
                ),
            )
        )
    return tuple(found)


def _lines(curves: Curves, kind: str, names: Mapping[str, str]) -> list[_Line]:
    of: dict[str, list[tuple[float, int, int]]] = {}
    for point in curves.parts:
        if point.kind == kind and point.axis == "capacity" and point.prompt_tokens:
            of.setdefault(point.name, []).append((point.at, point.hit_tokens, point.prompt_tokens))
    # One cache for all has the memory of all: its sizes are drawn per replica.
    many = curves.replicas if kind == "pooled" else 1
    titles = {"pooled": "all as one cache"}
    return [
        _Line(
            clean(titles.get(kind) or (names.get(name) or name[:12] if kind == "prefix" else name), _NAME),
            points[0][2],
            tuple(max(at / many, 1) for at, _, _ in points),
            tuple(hits / asked for _, hits, asked in points),
            kind == "pooled",
        )
        for name, points in of.items()
    ]


def _drawn(
    curves: Curves, lines: Sequence[_Line], pooled: Sequence[_Line], middle: int, chart_id: str
) -> str:
    low, high = _ends(lines, middle)
    with mpl.rc_context(STYLE):
        figure = sheet(230)
        axes = area(figure, 56, 36, 190, 50)
        axes.set_xscale("log")
        for line in (*lines, *pooled):
            color = series("hit") if line is high else series("evicted") if line is low else MUTED
            dashes = (0, (4, 3)) if line.pooled else "-"
            strong = line in (low, high) or line.pooled
            axes.plot(
                line.xs, line.rates, color=INK if line.pooled else color, linestyle=dashes,
                linewidth=1.8 if strong else 1.0, alpha=1.0 if strong else 0.6,
            )  # fmt: skip
        ends = [line for line in (high, *pooled, low) if line is not low or low is not high]
        axes.axvline(middle, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
        least = min(line.xs[0] for line in lines)
        axes.set_xlim(least, max(*map(_settled, (*lines, *pooled)), middle * 2))
        axes.set_ylim(0, 1.02)
        axes.set_yticks([0, 0.5, 1.0], ["0 %", "50 %", "100 %"])
        for line, y in zip(ends, _apart([line.rates[-1] for line in ends]), strict=True):
            note(axes, line.name, (axes.get_xlim()[1], y), (6, 0), "left", "center", INK)
        axes.xaxis.set_major_formatter(lambda v, _: whole(v))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("blocks per replica")
        grid(axes)
        heading(
            axes, "Token hit rate, simulated",
            aside=f"the line: {'today' if curves.capacity_today else 'the knee'}, {whole(middle)} blocks",
        )  # fmt: skip
        said = "; ".join(f"{line.name}: {percent(line.at(middle))}" for line in (*lines, *pooled))
        return inline_svg(
            figure, chart_id=chart_id, title="Hit rate by capacity, part by part", description=f"{said}."
        )


def _ends(lines: Sequence[_Line], middle: int) -> tuple[_Line, _Line]:
    """Return the part that hits least and the one that hits most."""
    return min(lines, key=lambda line: line.at(middle)), max(lines, key=lambda line: line.at(middle))


def _settled(line: _Line) -> float:
    """Return the size from which on a curve is flat, to half a point: the rest of the axis would show nothing."""
    return next(x for x, y in zip(line.xs, line.rates, strict=True) if y >= line.rates[-1] - LEAST_SPREAD / 2)


def _apart(heights: Sequence[float]) -> list[float]:
    """Move labels so far apart, from the top down, that none lies on another: a line of text is 0.11 high here."""
    placed: list[tuple[float, int]] = []
    for number in sorted(range(len(heights)), key=lambda n: -heights[n]):
        top = min((height for height, _ in placed), default=2.0) - 0.11
        placed.append((min(heights[number], top), number))
    return [height for height, _ in sorted(placed, key=lambda one: one[1])]


def _caption(curves: Curves, lines: Sequence[_Line], pooled: Sequence[_Line], middle: int, kind: str) -> str:
    low, high = _ends(lines, middle)
    size = "today's memory" if curves.capacity_today else f"{whole(middle)} blocks"
    if kind == "prefix":
        return (
            f"Of the prompts that begin alike, those of {high.name} hit {percent(high.at(middle))} with {size}, those of "
            f"{low.name} {percent(low.at(middle))}; unlimited memory would give the latter {percent(low.rates[-1])}"
        )
    asked = sum(line.prompt_tokens for line in lines)
    mean = sum(line.at(middle) * line.prompt_tokens for line in lines) / asked
    text = f"With {size} {high.name} hits {percent(high.at(middle))} and {low.name} {percent(low.at(middle))}"
    if not pooled or len(lines) < curves.replicas:
        return text
    gain = pooled[0].at(middle) - mean
    if gain < LEAST_SPREAD:
        return f"{text}; one cache with the memory of all would hit no more than they do together"
    return f"{text}; one cache with the memory of all would hit {percent(pooled[0].at(middle))}, {points(gain)} more than they do together"
