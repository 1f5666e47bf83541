"""``prefixledger formats``: what can be read."""

from __future__ import annotations

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, talk_options


@click.command()
@json_option
@talk_options
def formats(as_json: bool) -> None:
    """List the log formats that are read, and what each can answer.

    \b
    prefixledger formats
    prefixledger formats --json
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json, print_table

    known = api.formats()
    if as_json:
        print_json(known)
        return
    rows = (
        (
            one.name,
            (
                f"{one.title}; looked up by {one.keys}; {one.clock} clock\n"
                f"answers {', '.join(one.answers)}\n"
                f"not {', '.join(one.lacks)}"
            ),
        )
        for one in known
    )
    print_table(data_console(), ("name", "what it is and what it can answer"), rows)
