"""Writes each picture of a page as a file of its own, SVG and PNG, for slides and tickets."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from prefixledger import __version__
from prefixledger.errors import Place, UsageError
from prefixledger.report.canvas import INK, RULE, area, note, sheet
from prefixledger.report.icicle import ROW_PX, WIDTH_PX, boxes, label_of, shade
from prefixledger.report.page import page
from prefixledger.report.palette import INKS, SERIES, hatch_patterns, sentinel, series
from prefixledger.report.svg import STYLE, collecting
from prefixledger.workspace import replacing, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from prefixledger.report.page import Page
    from prefixledger.report.view import ReportView

    Picture = tuple[str, str, str]
    """Name, finding and inline SVG."""

INDEX = "figures.json"
"""Lists the figures of the folder, written last; a folder with it is ours."""

_DPI = 144  # twice the pixels of the page
_HATCHES = {
    "uncacheable": "...", "in_flight": "---", "expired": "///", "misrouted": "|||", "key_changed": "\\\\\\", "unexplained": "xxx",
}  # fmt: skip
"""The patterns of matplotlib that look most like those of the page."""

_COLOURS = ("facecolor", "edgecolor", "color", "markerfacecolor", "markeredgecolor")
_VARIABLE = re.compile(r"var\(--([a-z-]+)\)")
_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_TREE_CSS = (
    ".icicle rect{fill:var(--rule)}.icicle rect.own{fill:var(--hit)}.icicle rect.root{fill:none;stroke:var(--rule)}"
    ".icicle text{fill:var(--ink);font-size:12px}a{text-decoration:none}"
)


def check_folder(folder: Path, *, force: bool = False) -> None:
    """Refuse a place that cannot hold figures, before any work is done.

    Raises:
        UsageError: It is a file, or a folder with files of somebody else.
    """
    if not folder.exists() or (folder.is_dir() and (force or not any(folder.iterdir()))):
        return
    if folder.is_dir() and _ours(folder):
        return
    raise UsageError(
        "this was not written by prefixledger and is not replaced",
        place=Place(str(folder)),
        hint="give an empty folder with --figures, or --force",
    )


def write_figures(view: ReportView, folder: Path) -> tuple[str, ...]:
    """Write every picture of a report into a folder, in the colours of the light page; return the names of the files.

    Raises:
        UsageError: The place cannot be written.
    """
    with collecting() as drawn:
        shown = page(view)
    figures = dict(drawn)
    if shown.icicle.svg:
        figures["fig-prefixes"] = _tree(view)
    return _write(_pictures(shown), figures, folder, view.made.version)


def write_pictures(draw: Callable[[], Iterable[Picture]], folder: Path) -> tuple[str, ...]:
    """Write the pictures of another page into a folder, as those of a report; return the names of the files.

    Args:
        draw: Returns (name, finding, inline SVG) of each; the id of its chart is ``fig-`` and the name.
        folder: Where.

    Raises:
        UsageError: The place cannot be written.
    """
    with collecting() as drawn:
        pictures = tuple(draw())
    return _write(pictures, dict(drawn), folder, __version__)


def _write(
    pictures: Iterable[Picture], figures: Mapping[str, Figure], folder: Path, version: str
) -> tuple[str, ...]:
    names: list[str] = []
    listed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, caption, svg in pictures:
            for suffix, content in (
                (".svg", _standalone(svg).encode()),
                (".png", _png(figures[f"fig-{name}"])),
            ):
                with replacing(folder / f"{name}{suffix}") as temporary:
                    temporary.write_bytes(content)
                names.append(f"{name}{suffix}")
            listed.append({"name": name, "finding": caption})
        write_json(folder / INDEX, {"generator": f"prefixledger {version}", "figures": listed})
    except OSError as error:
        raise UsageError(
            f"the figures cannot be written: {error.strerror or error}",
            place=Place(str(folder)),
            hint="give another place with --figures",
        ) from error
    return tuple(names)


def _pictures(shown: Page) -> Iterator[Picture]:
    """Yield (name, finding, inline SVG) of every picture of a page."""
    for name, svg in shown.charts.items():
        if svg:
            yield name, shown.captions.get(name, shown.verdict.sentence), svg
    for number, row in enumerate(shown.curves, start=1):
        drawn = {
            "capacity": row.capacity_chart,
            "ttl": row.ttl_chart,
            "gaps": row.gap_chart,
            "ages": row.age_chart,
        }
        for name, svg in drawn.items():
            if svg:
                yield f"{name}-{number}", row.captions[name], svg
    if shown.icicle.svg:
        yield "prefixes", shown.captions["prefixes"], shown.icicle.svg


def _standalone(svg: str) -> str:
    """Return an inline SVG as a file: with its size, its patterns, and colours instead of variables."""
    box = _BOX.search(svg)
    assert box is not None, "every picture has a viewBox"
    width, height = box.groups()
    kind = ' class="icicle"' if 'role="group"' in svg else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"{kind} '
        'font-family="system-ui, sans-serif" '
    )
    patterns = re.sub(r"</?svg[^>]*>", "", hatch_patterns())
    background = f'<rect x="0" y="0" width="{width}" height="{height}" style="fill:var(--page)"/>'
    style = f"<style>{_TREE_CSS}</style>" if kind else ""
    opening, _, body = svg.partition(">")
    text = f"{head}{opening.removeprefix('<svg ')}>{style}{patterns}{background}{body}"
    return _VARIABLE.sub(lambda m: INKS[m.group(1)].light, text) + "\n"


def _png(figure: Figure) -> bytes:
    """Draw a figure in the colours of the light page."""
    light = {sentinel(name): ink.light for name, ink in INKS.items()}
    hatches = {series(name): _HATCHES[name] for name in SERIES if name in _HATCHES}
    for artist in figure.findobj():
        _recolour(artist, light, hatches)
        behind = getattr(artist, "get_bbox_patch", lambda: None)()  # the box of a text is nobody's child
        if behind is not None:
            _recolour(behind, light, hatches)
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(
            buffer, format="png", dpi=_DPI, facecolor=INKS["page"].light, metadata={"Software": None}
        )
    return buffer.getvalue()


def _recolour(artist: Any, light: dict[str, str], hatches: dict[str, str]) -> None:
    hatch = getattr(artist, "get_hatch", lambda: None)()
    if hatch:
        artist.set_hatch(hatches.get(_hex(artist.get_facecolor()), hatch))
    for name in _COLOURS:
        get, put = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
        if get is None or put is None:
            continue
        found = light.get(_hex(get()))
        if found is not None:
            alpha = artist.get_alpha()
            put(found)
            artist.set_alpha(alpha)


def _hex(colour: Any) -> str:
    """Return a colour of matplotlib as hex, the first of several; empty where it is none."""
    try:
        one = colour[0] if getattr(colour, "ndim", 1) == 2 and len(colour) else colour  # noqa: PLR2004
        return to_hex(one)
    except (ValueError, TypeError, IndexError):
        return ""


def _tree(view: ReportView) -> Figure:
    """Draw the tree of prefixes once more, for a picture without links."""
    found = boxes(view)
    with mpl.rc_context(STYLE):
        figure = sheet(ROW_PX * (1 + max(box.row for box in found)))
        axes = area(figure, 0, 0, 0, 0)
        axes.set_axis_off()
        axes.set_xlim(0, WIDTH_PX)
        axes.set_ylim(max(box.row for box in found) + 0.5, -0.5)
        axes.barh(0, WIDTH_PX - 1, left=0, height=0.94, align="center", facecolor="none", edgecolor=RULE)
        note(axes, "all prompts", (0, 0), (6, 0), "left", "center", INK)
        for box in found:
            left, width = box.left * WIDTH_PX, max(box.width * WIDTH_PX - 1, 1.0)
            axes.barh(box.row, width, left=left, height=0.94, facecolor=RULE, edgecolor="none")
            axes.barh(
                box.row,
                width,
                left=left,
                height=0.94,
                facecolor=series("hit"),
                alpha=shade(box.prefix),
                edgecolor="none",
            )
            note(axes, label_of(box.prefix, width), (left, box.row), (6, 0), "left", "center", INK)
    return figure


def _ours(folder: Path) -> bool:
    try:
        values = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and str(values.get("generator", "")).startswith("prefixledger")
