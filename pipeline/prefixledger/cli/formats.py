"""``prefixledger formats``: what can be read, and how to log what can be replayed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, talk_options

if TYPE_CHECKING:
    from prefixledger.ingest.howto import HowTo
    from prefixledger.ingest.reader import FormatInfo


_WHO: Final = 18
"""Characters of the first column of --how: of 80 the other one needs most."""


@click.command()
@click.option("--how", is_flag=True, help="No block hashes? Which switch makes a log that can be replayed.")
@json_option
@talk_options
def formats(how: bool, as_json: bool) -> None:
    """List the log formats that are read, and what each can answer.

    \b
    prefixledger formats
    prefixledger formats --how       no block hashes? do this
    prefixledger formats --json
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json, print_table
    from prefixledger.ingest.howto import HowTo

    known = api.formats(how=how)
    if as_json:
        print_json(known)
        return
    columns = (
        ("who", "what to turn on, and what can be said then")
        if how
        else ("name", "what it is and what it can answer")
    )
    rows = (
        (textwrap.fill(one.who, _WHO), _way(one)) if isinstance(one, HowTo) else (one.name, _what(one))
        for one in known
    )
    print_table(data_console(), columns, rows)


def _what(one: FormatInfo) -> str:
    keys = "no keys" if one.keys == "none" else f"looked up by {one.keys}"
    return (
        f"{one.title}; {keys}; {one.clock} clock\n"
        f"answers {', '.join(one.answers)}\n"
        f"not {', '.join(one.lacks)}"
    )


def _way(one: HowTo) -> str:
    keys = {"exact": "exact keys", "from text": "keys recomputed from text", "none": "no keys"}[one.keys]
    return f"{one.switch}\n{keys}: {one.gives}\nnot {one.lacks}\nread as {one.format}"
