"""``prefixledger index``: one page over all reports that were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.console import talk_of
from prefixledger.cli.options import FILE, force_option, json_option, talk_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT…", type=FILE)
@click.option(
    "-o", "--output", type=FILE, default="index.html", show_default=True, metavar="FILE", help="The page."
)
@force_option
@json_option
@talk_options
@click.pass_context
def index(ctx: click.Context, /, reports: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """List kept reports on one page: a calendar of days that lead to them, and how each moved against the one before.

    REPORT is a folder of reports, or the .json beside one. The page is made of these alone, so it can be made again at any
    time; a report that holds other lookups than when it was listed first says so.

    \b
    prefixledger index reports/ -o reports/index.html
    prefixledger index 2026-W47.json 2026-W48.json --json
    """
    from prefixledger import api
    from prefixledger.cli.console import data_console
    from prefixledger.cli.show import print_json, print_table
    from prefixledger.report.numbers import percent, whole

    talk = talk_of(ctx)
    result = api.index(reports, **options)
    lines = result.calendar.lines
    if as_json:
        print_json(result.calendar)
    else:
        rows = [
            (n.begin, n.end, whole(n.requests), percent(n.hit_rate), n.change, n.loss, n.reopened)
            for n in lines
        ]
        print_table(
            data_console(),
            ("from", "to", "lookups", "hit rate", "change", "largest loss", ""),
            rows,
            right=(2, 3, 4),
        )
    talk.say(f"wrote {result.html}")
