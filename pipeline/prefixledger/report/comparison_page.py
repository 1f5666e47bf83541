"""The page of a comparison: the answer, both accounts on one scale, both courses of time on the same axes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from prefixledger import __version__
from prefixledger.errors import UsageError
from prefixledger.report.books import Book
from prefixledger.report.canvas import INK, MUTED, area, grid, heading, sheet
from prefixledger.report.charts import account_bar
from prefixledger.report.investigation_page import check_page
from prefixledger.report.numbers import percent
from prefixledger.report.palette import series
from prefixledger.report.render import page_html
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.workspace import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prefixledger.report.comparison import Compared

__all__ = ["check_page", "write_comparison"]

_TEMPLATE = "templates/comparison.html.j2"
_SHORT_HOURS = 48


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """What the template draws.

    Attributes:
        found: The comparison.
        names: What the two are called.
        windows: What each covers, from and to.
        bars: The account of each as a bar; empty without tokens.
        courses: Both hit rates over time; empty where one has fewer than two slices.
        course_said: How low each of them goes.
    """

    found: Compared
    names: tuple[str, str]
    windows: tuple[tuple[str, str], tuple[str, str]]
    bars: tuple[str, str]
    courses: str
    course_said: str


def write_comparison(
    found: Compared, twins: tuple[Mapping[str, Any], Mapping[str, Any]], names: tuple[str, str], output: Path
) -> None:
    """Write the page.

    Args:
        found: What the two come to.
        twins: The JSON twins.
        names: What the two are called.
        output: Where.

    Raises:
        UsageError: The place cannot be written.
    """
    page = ComparisonPage(
        found=found,
        names=names,
        windows=(_window(twins[0]), _window(twins[1])),
        bars=(_bar(twins[0], "bar-before"), _bar(twins[1], "bar-after")),
        courses=_courses(twins, "courses"),
        course_said=_course_said(twins),
    )
    try:
        with replacing(output) as temporary:
            temporary.write_text(page_html(_TEMPLATE, page=page, version=__version__), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the page cannot be written: {error.strerror or error}", hint="give another place with -o"
        ) from error


def _window(twin: Mapping[str, Any]) -> tuple[str, str]:
    return tuple((twin["window"][end] or "").replace("T", " ")[:16] for end in ("from", "to"))  # type: ignore[return-value]


def _bar(twin: Mapping[str, Any], chart_id: str) -> str:
    totals = twin["totals"]
    if not totals["prompt_tokens"]:
        return ""
    book = Book(
        "all",
        totals["requests"],
        0,
        totals["prompt_tokens"],
        0,
        totals["hit_tokens"],
        twin["misses"]["by_cause"],
    )
    return account_bar(book, chart_id)


def _courses(twins: tuple[Mapping[str, Any], Mapping[str, Any]], chart_id: str) -> str:
    """Draw both hit rates from the start of each window on, so that the same hour of the week stands at the same place."""
    lines = [_course(twin) for twin in twins]
    if min(len(line) for line in lines) < 2:  # noqa: PLR2004  # one point makes no line
        return ""
    longest = max(line[-1][0] for line in lines)
    unit, name = (1.0, "hours") if longest <= _SHORT_HOURS else (24.0, "days")
    with mpl.rc_context(STYLE):
        figure = sheet(230)
        axes = area(figure, 56, 36, 24, 50)
        for line, color, style, width in (
            (lines[0], INK, (0, (3, 2)), 1.3),
            (lines[1], series("hit"), "solid", 1.9),
        ):
            axes.step(
                [at / unit for at, _ in line], [rate for _, rate in line], where="post", color=color, linestyle=style,
                linewidth=width,
            )  # fmt: skip
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
        axes.set_xlim(0, longest / unit)
        axes.set_xlabel(f"{name} from the start of each window")
        axes.xaxis.label.set_color(MUTED)
        grid(axes)
        heading(axes, "Token hit rate", aside="dashed: the first, solid: the second")
        said = "; ".join(
            f"the {which} lies between {percent(min(r for _, r in line))} and {percent(max(r for _, r in line))}"
            for which, line in zip(("first", "second"), lines, strict=True)
        )
        return inline_svg(figure, chart_id=chart_id, title="Both hit rates over time", description=f"{said}.")


def _course_said(twins: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str:
    """Say how low both hit rates go; empty where one has no slice."""
    lows = [min((rate for _, rate in _course(twin)), default=None) for twin in twins]
    if None in lows:
        return ""
    return f"At its lowest the first hits {percent(lows[0])}, the second {percent(lows[1])}"


def _course(twin: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return (hours since the first slice, hit rate) of the slices with tokens."""
    slices = twin["timeline"]["slices"]
    if not slices:
        return []
    start = datetime.fromisoformat(slices[0]["at"])
    return [
        (
            (datetime.fromisoformat(s["at"]) - start).total_seconds() / 3600,
            s["hit_tokens"] / s["prompt_tokens"],
        )
        for s in slices
        if s["prompt_tokens"]
    ]
