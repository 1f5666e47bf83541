"""``prefixledger demo``: a report on a made-up week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import (
    force_option,
    jobs_option,
    json_option,
    output_option,
    talk_options,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.results import ReportResult


@click.command()
@output_option
@workspace_option
@jobs_option
@force_option
@click.option("--open", "open_it", is_flag=True, help="Open the report in a browser.")
@json_option
@talk_options
@click.pass_context
def demo(ctx: click.Context, /, output: Path, as_json: bool, open_it: bool, **options: Any) -> None:
    """Make up a week of a multi-tenant assistant, offline, and report on it.

    20 tenants, 4 replicas and a hosted API; in mid-week a release breaks every prompt prefix, and the report has to find it.

    \b
    prefixledger demo
    prefixledger demo -o demo.html --open
    """
    from prefixledger import api
    from prefixledger.cli import results

    talk = talk_of(ctx)

    def verb() -> ReportResult:
        with progress_of(talk) as progress:
            return api.demo(output=output, progress=progress, **options)

    results.finish(verb, lambda result: results.say_report(result, talk, as_json=as_json))
    if open_it:
        click.launch(str(output))
