"""Turns a matplotlib figure into an SVG element that lives well inside a page."""

from __future__ import annotations

import html
import io
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from prefixledger.report.numbers import clean
from prefixledger.report.palette import INKS, SERIES, hatch_id, sentinel, series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: a third smaller, searchable, in the font of the page
    "svg.hashsalt": "prefixledger",  # else ids are random and two runs differ
    "svg.image_inline": True,
    "text.parse_math": False,  # names from logs may hold $
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the layout is the same on every machine
    "font.size": 12.0,
    "hatch.linewidth": 0.7,
    "path.simplify": True,
}
"""Any: matplotlib's own type for it is a literal of 400 names."""

_COLLECTED: ContextVar[list[tuple[str, Figure]] | None] = ContextVar("figures", default=None)

_DESCRIPTION_LIMIT = 400
_JUNK = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL
)
_ROOT = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_BOX = re.compile(r'viewBox="([^"]+)"')
_TAG = re.compile(r"<[^>]+>")
_ID = re.compile(r' id="([^"]+)"')
_REFERENCE = re.compile(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"')
_NOISE = re.compile(r' transform="rotate\(-?0 [^"]*\)"|font-family: [^;"]*;? ?')
_EMPTY = re.compile(r"<g ?/>|<g></g>|<defs ?/>|<defs></defs>")
_PATTERN = re.compile(r'<pattern id="([^"]+)".*?fill="(#[0-9a-f]{6})".*?</pattern>', re.DOTALL)
_DECIMALS = re.compile(r"(\d+\.\d)\d+")
_PATH = re.compile(r' d="([^"]+)"')
_STEP = re.compile(r"([A-Za-z])\s*((?:-?[\d.]+\s*)*)")


@contextmanager
def collecting() -> Iterator[list[tuple[str, Figure]]]:
    """Collect the figures that are drawn inside, with the ids of their charts, in order."""
    found: list[tuple[str, Figure]] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def inline_svg(figure: Figure, *, chart_id: str, title: str, description: str) -> str:
    """Draw a figure as one ``<svg>`` element.

    Colours are CSS variables, so that it follows the mode of the page; ids begin with ``chart_id``; it has a title
    and a description for those who do not see it; it holds no date, no address and no script.

    Args:
        figure: Drawn with the colours of ``palette.sentinel`` only, inside ``matplotlib.rc_context(STYLE)``.
        chart_id: Unique on the page.
        title: What the chart shows.
        description: What a reader sees in it, with the figures.
    """
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append((chart_id, figure))
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(
            buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = _JUNK.sub("", buffer.getvalue())
    opening = _ROOT.search(text)
    box = _BOX.search(opening.group()) if opening else None
    assert opening is not None
    assert box is not None, "matplotlib always writes a viewBox"
    body = _fit_for_page(text[opening.end() : text.rindex("</svg>")], chart_id)
    return (
        f'<svg viewBox="{box.group(1)}" role="img" aria-labelledby="{chart_id}-title {chart_id}-desc">'
        f'<title id="{chart_id}-title">{html.escape(clean(title, 120))}</title>'
        f'<desc id="{chart_id}-desc">{html.escape(clean(description, _DESCRIPTION_LIMIT))}</desc>{body}</svg>'
    )


def _fit_for_page(body: str, chart_id: str) -> str:
    """Change what is inside tags, never the text between them, which may come from a log."""
    hatches = {found: _series_of(colour) for found, colour in _PATTERN.findall(body)}
    body = _PATTERN.sub("", body)
    used = {a or b for tag in _TAG.findall(body) for a, b in _REFERENCE.findall(tag)} - set(hatches)
    names = {name: f"{chart_id}-{number}" for number, name in enumerate(sorted(used))}
    names |= {found: hatch_id(name) for found, name in hatches.items()}

    def fit(match: re.Match[str]) -> str:
        tag = _NOISE.sub("", match.group())
        tag = _ID.sub(lambda m: f' id="{names[m.group(1)]}"' if m.group(1) in names else "", tag)
        tag = _REFERENCE.sub(
            lambda m: f"url(#{names[m.group(1)]})" if m.group(1) else f'href="#{names[m.group(2)]}"', tag
        )
        tag = _PATH.sub(lambda m: f' d="{_short_path(m.group(1))}"', tag)
        tag = _DECIMALS.sub(r"\1", tag)
        for name in INKS:
            tag = tag.replace(sentinel(name), f"var(--{name})")
        return tag.replace("; ", ";").replace(": ", ":")

    body = re.sub(r">\s+<", "><", _TAG.sub(fit, body)).strip()
    while (slimmer := _EMPTY.sub("", body)) != body:
        body = slimmer
    return body


def _series_of(colour: str) -> str:
    """Return the series that a stand-in colour is for."""
    return next(name for name in SERIES if series(name) == colour)


def _short_path(path: str) -> str:
    """Write a path with one decimal (0.1 px), and the sides of steps as H and V, each the shorter way: half the bytes."""
    out: list[str] = []
    at: tuple[str, ...] = ()
    before: tuple[str, ...] = ()  # where the last step began, if that was a straight L
    for command, numbers in _STEP.findall(path):
        to = tuple(f"{float(n):.1f}".removesuffix(".0") for n in numbers.split())
        if command == "L" and len(at) == len(to) == 2:  # noqa: PLR2004  # x and y
            if to == at:
                continue
            if before and _goes_on(before, at, to):
                out.pop()
                at = before
            out.append(_step(at, to))
            before, at = at, to
            continue
        out.append(command + " ".join(to))
        before, at = (), to[-2:]
    return "".join(out)


def _goes_on(before: tuple[str, ...], at: tuple[str, ...], to: tuple[str, ...]) -> bool:
    """Return whether a step goes on in the direction of the one before, along an axis."""
    (ax, ay), (bx, by), (cx, cy) = before, at, to
    if ax == bx == cx:
        return (float(by) - float(ay)) * (float(cy) - float(by)) > 0
    return ay == by == cy and (float(bx) - float(ax)) * (float(cx) - float(bx)) > 0


def _step(at: tuple[str, ...], to: tuple[str, ...]) -> str:
    """Write a step along an axis to a place or by a distance, whichever is shorter; any other to its place."""
    for axis, name in enumerate("HV"):
        if at[1 - axis] == to[1 - axis]:
            # Both ends are rounded already, so distances add up to the same places.
            by = f"{float(to[axis]) - float(at[axis]):.1f}".removesuffix(".0")
            return min(f"{name}{to[axis]}", f"{name.lower()}{by}", key=len)
    return f"L{to[0]} {to[1]}"
