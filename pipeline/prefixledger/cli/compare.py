"""``prefixledger compare``: two runs or two periods side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.console import talk_of
from prefixledger.cli.options import FILE, PLACE, force_option, json_option, talk_options, tz_option

if TYPE_CHECKING:
    from prefixledger.cli.console import Talk
    from prefixledger.results import CompareResult


@click.command()
@click.argument("first", type=PLACE)
@click.argument("second", type=PLACE, required=False)
@click.option(
    "--from",
    "from_",
    multiple=True,
    metavar="TIME",
    help="First moment of the period; twice: of each. [default: last whole ISO week]",
)
@click.option("--to", multiple=True, metavar="TIME", help="First moment after it, or after each.")
@tz_option
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Also write a page (.html).")
@force_option
@json_option
@talk_options
@click.pass_context
def compare(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Set two periods, workspaces or reports beside each other: what moved, and whether chance moves as much.

    A workspace stands for its last replay. Alone it is compared with itself: a period, by default the last whole ISO week,
    with the one before that is as long, or two periods. A report is named by the .json beside it.

    \b
    prefixledger compare .prefixledger
    prefixledger compare .prefixledger --from 2026-11-18T14:00 --to 2026-11-19T10:00
    prefixledger compare .prefixledger --from 2026-11-02 --to 2026-11-09 --from 2026-11-16 --to 2026-11-23
    prefixledger compare before/ after/
    prefixledger compare week-46.json week-47.json -o weeks.html
    """
    from prefixledger import api

    _say(api.compare(**options), talk_of(ctx), as_json=as_json)


def _say(result: CompareResult, talk: Talk, *, as_json: bool) -> None:
    """Print the figures on stdout, the answer last on stderr."""
    from prefixledger.cli.console import data_console
    from prefixledger.cli.results import say_account
    from prefixledger.cli.show import print_json, print_table

    found = result.comparison
    if as_json:
        print_json(found)
    else:
        words = {True: "better", False: "worse", None: ""}
        rows = [
            (m.name, m.before, m.after, m.change, words[m.better]) for m in (*found.figures, *found.causes)
        ]
        print_table(data_console(), ("", "first", "second", "change", ""), rows, right=(1, 2, 3))
        say_account(result.account())
    for note in found.notes:
        talk.say(note)
    if found.low is not None and found.high is not None:
        talk.say(
            f"the change lies between {found.low * 100:+.1f} and {found.high * 100:+.1f} points, 95 times in 100"
        )
    if result.html is not None:
        talk.say(f"wrote {result.html}")
    talk.say(found.sentence)
