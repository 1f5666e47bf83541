"""``prefixledger investigate``: what changed, when, for whom, and what happened then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import (
    FILE,
    PLACE,
    figures_option,
    force_option,
    json_option,
    log_options,
    sources_argument,
    talk_options,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.results import InvestigateResult


@click.command()
@sources_argument
@workspace_option
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Also write a page (.html).")
@figures_option
@click.option("--at", metavar="TIME", help="Look only at this moment. [default: find moments]")
@click.option("--from", "from_", metavar="TIME", help="First moment that is looked at. [default: the log's]")
@click.option("--to", metavar="TIME", help="First moment behind.")
@click.option(
    "--scenario",
    type=FILE,
    metavar="FILE",
    help="What is replayed. [default: the replay of the workspace, else vLLM, as logged, unlimited]",
)
@click.option(
    "--events", type=FILE, multiple=True, metavar="FILE", help="Restarts, deploys … in TOML, CSV or JSONL."
)
@click.option(
    "--replica-grace",
    metavar="TIME",
    help="How long a replica lives after its last logged request. [default: the scenario's, 10m]",
)
@click.option(
    "--engine-log", type=PLACE, multiple=True, metavar="FILE", help="Log or metrics of an engine; see replay."
)
@log_options
@force_option
@json_option
@talk_options
@click.pass_context
def investigate(ctx: click.Context, /, sources: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Find when the hit rate or a cause changed, for which tenant, prefix, model, release or replica, and what happened then.

    Changes are told with their intervals, and only those that chance does not make. Before and after stand beside each
    other by cause, with the releases, resets and routing changes of that time; then the few things that most misses are
    owed to, matched comparisons, how caches came back after resets, and what isolation costs.

    \b
    prefixledger investigate logs/
    prefixledger investigate --at 2026-11-18T14:05:00Z
    prefixledger investigate demo-workspace -o incident.html
    """
    from prefixledger import api
    from prefixledger.cli import investigation, results

    talk = talk_of(ctx)

    def verb() -> InvestigateResult:
        with progress_of(talk) as progress:
            return api.investigate(sources, progress=progress, **options)

    results.finish(verb, lambda result: investigation.say(result, talk, as_json=as_json))
