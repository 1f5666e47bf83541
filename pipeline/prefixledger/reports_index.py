"""The verb ``index``: one page over all reports that were kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prefixledger import __version__
from prefixledger.errors import Place, UsageError
from prefixledger.workspace import replacing, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.report.calendar import Kept
    from prefixledger.results import IndexResult

DEFAULT_OUTPUT = "index.html"


def index(
    reports: Sequence[str | Path], *, output: str | Path = DEFAULT_OUTPUT, force: bool = False
) -> IndexResult:
    """List kept reports on one page: a calendar of days, and a line for each with its change.

    What it is made of are the JSON twins alone, so it can be made again at any time; beside it is written how many lookups
    each report held when it was listed first, so that one that was made again with late data says so.

    Args:
        reports: Folders of reports, or JSON twins.
        output: The page; its ``.json`` goes beside it.
        force: Replace a page that prefixledger did not write.

    Returns:
        The index, and where it is.

    Raises:
        UsageError: There is no report, or a foreign file is in the way.
        InputError: A report is of another form.
    """
    from prefixledger.report.calendar import calendar, first_listed
    from prefixledger.report.comparison_page import check_page
    from prefixledger.report.render import page_html
    from prefixledger.results import IndexResult

    page = Path(output)
    memory = page.with_suffix(".json")
    check_page(page, force=force)
    kept = tuple(_kept(reports, page))
    if not kept:
        raise UsageError(
            f"there is no report in {', '.join(str(r) for r in reports) or 'nothing'}",
            hint="name folders that hold the .html and .json of reports",
        )
    listed = _listed(memory, force=force)
    found = calendar(kept, listed)
    try:
        with replacing(page) as temporary:
            temporary.write_text(
                page_html("templates/index.html.j2", found=found, version=__version__), encoding="utf-8"
            )
        write_json(
            memory, {"generator": f"prefixledger {__version__}", "listed": first_listed(found, listed)}
        )
    except OSError as error:
        raise UsageError(
            f"the index cannot be written: {error.strerror or error}",
            place=Place(str(page)),
            hint="give another place with -o",
        ) from error
    return IndexResult(found, page)


def _kept(reports: Sequence[str | Path], page: Path) -> Iterator[Kept]:
    """Yield the reports whose page stands beside their twin, by name."""
    from prefixledger.report.calendar import Kept
    from prefixledger.report.twin import check_form

    places = [Path(report) for report in reports]
    files = {
        path.resolve() for place in places for path in (place.rglob("*.json") if place.is_dir() else (place,))
    }
    for path in sorted(files):
        twin = _read(path)
        html = path.with_suffix(".html")
        if twin is not None and "timeline" in twin and html.is_file():
            check_form(twin, path)
            link = Path(os.path.relpath(html, page.resolve().parent)).as_posix()
            yield Kept(quote(link), twin)  # a colon in a name would make a scheme of what stands before it


def _listed(memory: Path, *, force: bool) -> dict[str, int]:
    """Return what the index before remembered.

    Raises:
        UsageError: Somebody else's file has the name of the memory.
    """
    if not memory.exists():
        return {}
    values = _read(memory)
    if values is not None and "listed" in values:
        return {str(key): int(number) for key, number in values["listed"].items()}
    if force:
        return {}
    raise UsageError(
        "this was not written by prefixledger and is not replaced",
        place=Place(str(memory)),
        hint="give another -o, or --force to replace it",
    )


def _read(path: Path) -> dict[str, Any] | None:
    """Return the values of a JSON file of ours; None where it is something else."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(values, dict) and str(values.get("generator", "")).startswith("prefixledger")
    return values if ours else None
