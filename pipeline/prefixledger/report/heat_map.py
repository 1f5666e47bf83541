"""The chart of replicas by hour: which cache was warm when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from prefixledger.report.canvas import INK, MUTED, RULE, WIDTH_PX, area, heading, sheet
from prefixledger.report.numbers import clean, moment, percent
from prefixledger.report.palette import series
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.report.time_axis import time_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from prefixledger.report.parts import ReplicaSlice
    from prefixledger.report.view import ReportView

MOST_REPLICAS = 24
_STEPS = 10
"""Shades: more than ten of one colour nobody tells apart."""

_TABLE_ROWS = 42
"""A week in slices of four hours."""

_ROW_PX, _LEFT_PX, _RIGHT_PX = 26, 160, 24
_GAP = 0.06
_KEY_STEPS = (0, 3, 6, 9)
Box = tuple[float, float, int]
"""Left and right end in hours from the first slice, and the row."""


@dataclass(frozen=True, slots=True)
class HeatTable:
    """The figures of the chart.

    Attributes:
        width_s: Seconds that one row covers.
        replicas: Columns.
        rows: When a row begins, and for each replica what it was asked and hit; None where it had no lookups.
    """

    width_s: int
    replicas: tuple[str, ...]
    rows: tuple[tuple[int, tuple[tuple[int, int] | None, ...]], ...]


def heat_table(view: ReportView) -> HeatTable:
    """Return hit rates by time and replica, in rows of some hours: a cell of the chart each would be thousands."""
    rows = rows_of(view)
    if not rows or not view.timeline.buckets:
        return HeatTable(1, (), ())
    width_s, first_us = view.timeline.width_s, view.timeline.buckets[0].at_us
    together = max(1, -(-len(view.timeline.buckets) // _TABLE_ROWS))
    step_us = width_s * together * 1_000_000
    sums: dict[int, dict[int, tuple[int, int]]] = {}
    for column, (_, slices) in enumerate(rows):
        for one in slices:
            row = sums.setdefault((one.at_us - first_us) // step_us, {})
            asked, hit = row.get(column, (0, 0))
            row[column] = (asked + one.prompt_tokens, hit + one.hit_tokens)
    return HeatTable(
        width_s * together,
        tuple(name for name, _ in rows),
        tuple(
            (first_us + step * step_us, tuple(cells.get(column) for column in range(len(rows))))
            for step, cells in sorted(sums.items())
        ),
    )


def rows_of(view: ReportView) -> tuple[tuple[str, tuple[ReplicaSlice, ...]], ...]:
    """Return the slices of every replica, the busiest replicas at most, pool by pool and by name."""
    found: dict[tuple[int | None, str], list[ReplicaSlice]] = {}
    for one in view.replica_slices:
        found.setdefault((one.pool, one.replica), []).append(one)
    most = sorted(found, key=lambda key: (-sum(s.prompt_tokens for s in found[key]), str(key)))[
        :MOST_REPLICAS
    ]
    return tuple((name, tuple(found[pool, name])) for pool, name in found if (pool, name) in most)


def heat_map(view: ReportView, chart_id: str) -> str:
    """Draw the hit rate of each replica in each slice of time: the stronger the colour, the more it hit."""
    rows, width_h = rows_of(view), view.timeline.width_s / 3600
    first_us = view.timeline.buckets[0].at_us
    hours = len(view.timeline.buckets) * width_h
    cells: dict[int, list[Box]] = {}
    for number, (_, slices) in enumerate(rows):
        for one in slices:
            if one.prompt_tokens:
                left = (one.at_us - first_us) / 3.6e9
                cells.setdefault(_shade(one), []).append((left, left + width_h * (1 - _GAP), number))
    with mpl.rc_context(STYLE):
        figure = sheet(74 + _ROW_PX * len(rows))
        axes = area(figure, _LEFT_PX, 40, _RIGHT_PX, 34)
        axes.set_xlim(0, hours)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        # Grey below, so that a cell without hits is not taken for one without lookups.
        busy = _joined([box for boxes in cells.values() for box in boxes], width_h)
        axes.add_patch(PathPatch(_path(busy), facecolor=RULE, edgecolor="none"))
        for shade, boxes in sorted(cells.items()):
            if shade:
                axes.add_patch(
                    PathPatch(_path(boxes), facecolor=series("hit"), alpha=_alpha(shade), linewidth=0)
                )
        axes.set_yticks(range(len(rows)), [clean(name, 20) for name, _ in rows], color=INK)
        time_ticks(axes, first_us, view.window, hours)
        heading(axes, "Token hit rate, simulated")
        _key(axes)
        return inline_svg(
            figure, chart_id=chart_id, title="Hit rate by replica and time", description=_told(view, rows)
        )


def coldest(view: ReportView) -> ReplicaSlice | None:
    """Return the slice that missed the most tokens below what its replica hits on the whole; None where all are even."""
    rates = {}
    for name, slices in rows_of(view):
        asked = sum(s.prompt_tokens for s in slices)
        rates[name] = sum(s.hit_tokens for s in slices) / asked if asked else 0.0
    short = [
        (s.prompt_tokens * rates[s.replica] - s.hit_tokens, s) for _, slices in rows_of(view) for s in slices
    ]
    most = max(short, key=lambda pair: (pair[0], -pair[1].at_us, pair[1].replica), default=(0.0, None))
    return most[1] if most[0] > 0 else None


def _told(view: ReportView, rows: Iterable[tuple[str, Sequence[ReplicaSlice]]]) -> str:
    parts = []
    for name, slices in rows:
        low = min(
            (s for s in slices if s.prompt_tokens), key=lambda s: (s.hit_tokens / s.prompt_tokens, s.at_us)
        )
        parts.append(
            f"{clean(name, 20)} is lowest, {percent(low.hit_tokens / low.prompt_tokens)}, at {moment(low.at_us, view.window)}"
        )
    return "; ".join(parts[:6]) + "."


def _shade(one: ReplicaSlice) -> int:
    return min(_STEPS - 1, int(one.hit_tokens / one.prompt_tokens * _STEPS))


def _alpha(shade: int) -> float:
    return shade / (_STEPS - 1)


def _joined(boxes: Iterable[Box], width_h: float) -> list[Box]:
    """Return boxes that stand side by side in a row as one."""
    found: list[Box] = []
    for left, right, row in sorted(boxes, key=lambda box: (box[2], box[0])):
        if found and found[-1][2] == row and left - found[-1][1] < width_h * 2 * _GAP:
            found[-1] = (found[-1][0], right, row)
        else:
            found.append((left, right, row))
    return found


def _path(boxes: Sequence[Box]) -> Path:
    """Return boxes as one path: a week of 24 replicas has 4,032 of them."""
    corners, codes = [], []
    for left, right, row in boxes:
        top, bottom = row - 0.44, row + 0.44
        corners += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(corners, codes)


def _key(axes: Axes) -> None:
    """Draw the scale at the right end of the heading."""
    pixel = 1 / (WIDTH_PX - _LEFT_PX - _RIGHT_PX)
    at = 1 - 232 * pixel
    for step in _KEY_STEPS:
        for color, alpha in ((RULE, 1.0), (series("hit"), _alpha(step))):
            axes.annotate(
                "\N{BLACK SQUARE}", (at, 1), xytext=(0, 7), xycoords="axes fraction", textcoords="offset points",
                color=color, alpha=alpha, fontsize=13, annotation_clip=False,
            )  # fmt: skip
        axes.annotate(
            f"{step * 100 // (_STEPS - 1)} %", (at + 14 * pixel, 1), xytext=(0, 9), xycoords="axes fraction",
            textcoords="offset points", color=MUTED, fontsize=11, annotation_clip=False,
        )  # fmt: skip
        at += 58 * pixel
