"""The sheet that charts are drawn on: sizes in pixels, quiet axes, the colours of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from prefixledger.report.palette import HATCH_MARK, SERIES, sentinel, series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

WIDTH_PX = 880
_DPI = 72  # one pixel is one SVG unit

INK = sentinel("ink")
MUTED = sentinel("muted")
RULE = sentinel("rule")
PAGE = sentinel("page")


def sheet(height_px: int) -> Figure:
    """Return an empty transparent figure of the width of the page's column."""
    figure = Figure(figsize=(WIDTH_PX / _DPI, height_px / _DPI), dpi=_DPI, facecolor="none")
    FigureCanvasSVG(figure)
    return figure


def area(
    figure: Figure, left: float, top: float, right: float, bottom: float, *, share: Axes | None = None
) -> Axes:
    """Add axes with their frame at so many pixels from each edge of the sheet.

    Args:
        figure: The sheet.
        left: Pixels from the left edge.
        top: Pixels from the top edge.
        right: Pixels from the right edge.
        bottom: Pixels from the bottom edge.
        share: Axes whose x axis to share.
    """
    height = figure.get_figheight() * _DPI
    box = (
        left / WIDTH_PX,
        bottom / height,
        (WIDTH_PX - left - right) / WIDTH_PX,
        (height - top - bottom) / height,
    )
    axes = figure.add_axes(box, sharex=share)
    axes.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.spines["bottom"].set_linewidth(0.8)
    axes.tick_params(colors=MUTED, length=0, pad=5, labelsize=12)
    axes.xaxis.label.set_color(MUTED)
    axes.set_axisbelow(True)
    return axes


def grid(axes: Axes, which: str = "y") -> None:
    """Draw hairlines at the ticks."""
    axes.grid(visible=True, axis="y" if which == "y" else "x", color=RULE, linewidth=0.8)


def heading(axes: Axes, text: str, *, aside: str = "", lift: float = 9) -> None:
    """Write what the axis measures ``lift`` pixels above it, so that no label stands on its side."""
    axes.annotate(
        text, (0, 1), xytext=(0, lift), xycoords="axes fraction", textcoords="offset points",
        color=INK, fontsize=12, fontweight="bold", ha="left", va="bottom", annotation_clip=False,
    )  # fmt: skip
    if aside:
        axes.annotate(
            aside, (1, 1), xytext=(0, lift), xycoords="axes fraction", textcoords="offset points",
            color=MUTED, fontsize=12, ha="right", va="bottom", annotation_clip=False,
        )  # fmt: skip


def bar_style(name: str) -> dict[str, Any]:
    """Return how a bar or an area of ``hit`` or of a cause is filled."""
    style: dict[str, Any] = {"facecolor": series(name), "edgecolor": PAGE, "linewidth": 1.0}
    if SERIES[name].strokes:
        style["hatch"] = HATCH_MARK
    return style


def thin(count: int, most: int) -> Sequence[int]:
    """Return at most ``most`` of the positions 0 to ``count - 1``, evenly spread, both ends included."""
    if count <= most:
        return range(count)
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def note(
    axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], ha: str, va: str, color: str
) -> None:
    """Write ``text`` so many pixels beside a point of the data."""
    axes.annotate(
        text, at, xytext=offset, textcoords="offset points", ha=ha, va=va, color=color, fontsize=12,
        annotation_clip=False,
    )  # fmt: skip
