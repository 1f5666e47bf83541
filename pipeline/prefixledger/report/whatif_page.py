"""The page of a grid of what-ifs: the table, and what nothing in it beats."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from prefixledger import __version__
from prefixledger.errors import Place, UsageError
from prefixledger.report.best import sentence
from prefixledger.report.cell_rows import csv_rows, currencies_of
from prefixledger.report.cheapest import cheapest
from prefixledger.report.frontier import chart, finding, frontier, measures
from prefixledger.report.render import GENERATOR, page_html
from prefixledger.workspace import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.attribute.cell import Cell
    from prefixledger.report.figures import Picture

_TEMPLATE = "templates/whatif.html.j2"
_HEAD_BYTES = 4096
_CAUSES = ("invalidated", "expired", "evicted", "misrouted", "key_changed", "cold", "unexplained")


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """What the template prints.

    Attributes:
        sentence: The grid in one sentence.
        facts: What the reader must know, one sentence each.
        axes: Names of the settings that some cell changes.
        causes: Causes that some cell has.
        currencies: Of what is paid.
        cells: The baseline and every combination.
        best: Which of them nothing beats.
        charts: Caption and drawing of each measure.
        version: Of this program.
    """

    sentence: str
    facts: tuple[str, ...]
    axes: tuple[str, ...]
    causes: tuple[str, ...]
    currencies: tuple[str, ...]
    cells: tuple[Cell, ...]
    best: tuple[bool, ...]
    charts: tuple[tuple[str, str], ...]
    version: str = __version__


def whatif_page(cells: tuple[Cell, ...], notes: tuple[str, ...], missing: int = 0) -> WhatIfPage:
    """Lay a grid out.

    Args:
        cells: The baseline and every combination.
        notes: What the reader must know of the baseline.
        missing: Combinations that Ctrl-C left out.
    """
    asked = measures(cells)
    best = frontier(cells, asked)
    best_price = cheapest(cells)
    left_out = (f"Cut short: {missing} combinations were not replayed.",) if missing else ()
    return WhatIfPage(
        sentence=sentence(cells),
        facts=(*left_out, *((f"{best_price[0].upper()}{best_price[1:]}.",) if best_price else ()), *notes),
        axes=tuple(name for name in cells[0].axes if len({cell.axes[name] for cell in cells}) > 1),
        causes=tuple(c for c in _CAUSES if any(cell.misses["by_cause"].get(c) for cell in cells)),
        currencies=tuple(currencies_of(cells)),
        cells=cells,
        best=best,
        charts=tuple((caption, svg) for _, caption, svg in pictures(cells)),
    )


def pictures(cells: tuple[Cell, ...]) -> Iterator[Picture]:
    """Yield (name, finding, inline SVG) of the hit rate over each measure that varies."""
    asked = measures(cells)
    best = frontier(cells, asked)
    for n, measure in enumerate(asked):
        yield f"frontier-{n}", finding(cells, measure, best), chart(cells, measure, best, f"fig-frontier-{n}")


def check_page(output: Path, *, force: bool) -> None:
    """Refuse a name that does not fit, and what somebody else wrote, before any work is done.

    Raises:
        UsageError: See above.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"{output.name!r} is no name for a page",
            place=Place(str(output)),
            hint="give a name that ends in .html; the .csv goes beside it",
        )
    for path, mark in (
        (output, f'<meta name="generator" content="{GENERATOR}'.encode()),
        (output.with_suffix(".csv"), b",token_hit_rate,seeds,"),
    ):
        if path.is_dir():
            raise UsageError(
                "a folder of that name is in the way", place=Place(str(path)), hint="give another -o"
            )
        if path.exists() and not force:
            with path.open("rb") as stream:
                if mark not in stream.read(_HEAD_BYTES):
                    raise UsageError(
                        "this was not written by prefixledger and is not replaced",
                        place=Place(str(path)),
                        hint="give another -o, or --force to replace it",
                    )


def write_page(page: WhatIfPage, output: Path) -> tuple[Path, Path]:
    """Write the page, and the cells as CSV beside it; return both places.

    Raises:
        UsageError: The place cannot be written.
    """
    table = output.with_suffix(".csv")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in csv_rows(page.cells):
        writer.writerow(["" if value is None else _plain(value) for value in row])
    try:
        for path, content in ((table, text.getvalue()), (output, page_html(_TEMPLATE, page=page))):
            with replacing(path) as temporary:
                temporary.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the page cannot be written: {error.strerror or error}",
            place=Place(str(output)),
            hint="give another place with -o",
        ) from error
    return output, table


def _plain(value: Any) -> Any:
    return (
        float(value)
        if isinstance(value, Decimal) and value % 1
        else int(value)
        if isinstance(value, Decimal)
        else value
    )
