"""The page of an investigation: the answer, each change with its table, and what else was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger import __version__
from prefixledger.errors import Place, UsageError
from prefixledger.report.incident_charts import (
    before_after,
    before_after_sentence,
    course,
    course_sentence,
    window_of,
)
from prefixledger.report.render import GENERATOR, page_html
from prefixledger.workspace import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.attribute.investigated import Investigation
    from prefixledger.report.figures import Picture

_TEMPLATE = "templates/investigation.html.j2"
_HEAD_BYTES = 4096


def check_page(output: Path, *, force: bool) -> None:
    """Refuse a name that does not fit, and what somebody else wrote, before any work is done.

    Raises:
        UsageError: See above.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"{output.name!r} is no name for a page",
            place=Place(str(output)),
            hint="give a name that ends in .html; --json prints the same as data",
        )
    if output.is_dir():
        raise UsageError(
            "a folder of that name is in the way", place=Place(str(output)), hint="give another -o"
        )
    if output.exists() and not force:
        with output.open("rb") as stream:
            if f'<meta name="generator" content="{GENERATOR}'.encode() not in stream.read(_HEAD_BYTES):
                raise UsageError(
                    "this was not written by prefixledger and is not replaced",
                    place=Place(str(output)),
                    hint="give another -o, or --force to replace it",
                )


def pictures(found: Investigation) -> Iterator[Picture]:
    """Yield (name, finding, inline SVG): the course where there is one, and before and after of each moment."""
    if len(found.hourly) > 1:
        yield "course", course_sentence(found), course(found, "fig-course")
    for number, one in enumerate(found.incidents, start=1):
        if one.table:
            name = f"change-{number}"
            yield name, before_after_sentence(one), before_after(one, f"fig-{name}")


def write_page(found: Investigation, output: Path) -> None:
    """Write the page.

    Raises:
        UsageError: The place cannot be written.
    """
    drawn = {name: (svg, caption) for name, caption, svg in pictures(found)}
    text = page_html(
        _TEMPLATE,
        window=window_of(found),
        page=found,
        version=__version__,
        course=drawn.get("course"),
        changes=[drawn.get(f"change-{number}") for number in range(1, 1 + len(found.incidents))],
    )
    try:
        with replacing(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the page cannot be written: {error.strerror or error}",
            place=Place(str(output)),
            hint="give another place with -o",
        ) from error
