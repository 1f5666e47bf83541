"""The axis of time that charts share: ticks in the zone of the report, and numbered moments."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from prefixledger.report.canvas import INK, PAGE, WIDTH_PX
from prefixledger.report.numbers import local_time, moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prefixledger.report.view import Window

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


def time_ticks(axes: Axes, first_us: int, window: Window, hours: float, *, most: int = _MOST_TICKS) -> None:
    """Put ticks at midnight in the zone of the report, or at round times of a short window.

    Args:
        axes: Their x axis counts hours from ``first_us``.
        first_us: Left end, UTC microseconds.
        window: Has the zone.
        hours: Right end.
        most: As many have room.
    """
    start = local_time(first_us, window)
    short = hours <= _SHORT_HOURS
    if short:
        step_s = next((s for s in _STEPS_S if hours * 3600 / s <= most), _STEPS_S[-1])
    else:
        step_s = 86_400 * max(1, round(hours / 24 / most))
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    skipped = int((start - midnight).total_seconds() // step_s)
    at, names = [], []
    for number in range(skipped, skipped + 2 * _MOST_TICKS + 4):
        tick = midnight + dt.timedelta(seconds=number * step_s)
        offset = (tick - start).total_seconds() / 3600
        if -_EDGE * hours <= offset <= (1 if short else 1 - _EDGE) * hours:
            at.append(max(offset, 0.0))
            names.append(_tick_name(window, tick, first_us + round(offset * 3.6e9), step_s))
    axes.set_xticks(at, names, ha="center" if short else "left")


def _tick_name(window: Window, tick: dt.datetime, at_us: int, step_s: int) -> str:
    if step_s >= 86_400:  # noqa: PLR2004  # a day
        return (
            f"day {tick.toordinal() - _FIRST_DAY}" if window.relative else f"{tick:%a} {tick.day} {tick:%b}"
        )
    return moment(at_us, window, seconds=step_s < 60).split(" ")[-1]  # noqa: PLR2004  # a minute


def mark_times(panels: tuple[Axes, ...], hours: list[float], last: float) -> None:
    """Draw a line for every moment, and its number on top where it has room; neighbours share a mark.

    Args:
        panels: Axes below each other, the upper one first.
        hours: The moments, in hours of the x axis, in order; those outside are left out, and counted.
        last: Right end.
    """
    marks: list[tuple[float, int, int]] = []
    for number, hour in enumerate(hours, start=1):
        if not 0 <= hour <= last:
            continue
        for axes in panels:
            axes.axvline(hour, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        if marks and (hour - marks[-1][0]) / last * _DRAWN_PX < _MARK_PX:
            marks[-1] = (marks[-1][0], marks[-1][1], number)
        else:
            marks.append((hour, number, number))
    for hour, begin, end in marks:
        panels[0].annotate(
            str(begin) if begin == end else f"{begin}\N{EN DASH}{end}", (hour, 1.0), ha="center", va="center",
            color=PAGE, fontsize=10, fontweight="bold", annotation_clip=False, zorder=6,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": INK, "edgecolor": "none"},
        )  # fmt: skip
