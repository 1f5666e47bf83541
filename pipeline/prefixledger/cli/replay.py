"""``prefixledger replay``: the traffic through simulated caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import (
    force_option,
    json_option,
    log_options,
    replay_options,
    sources_argument,
    talk_options,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.results import ReplayResult


@click.command()
@sources_argument
@workspace_option
@replay_options
@log_options
@force_option
@click.option(
    "--print-scenario", is_flag=True, help="Print the scenarios with every default, and do nothing else."
)
@json_option
@talk_options
@click.pass_context
def replay(
    ctx: click.Context, /, sources: tuple[Path, ...], as_json: bool, print_scenario: bool, **options: Any
) -> None:
    """Replay logs, or a workspace, through simulated caches, and name the cause of every missed token.

    SOURCE is read first, as by ingest; without one the workspace is replayed as it is. A replay that was made from the
    same requests and the same scenario is used again.

    \b
    prefixledger replay logs/ --scenario as-is.toml --scenario bigger.toml
    prefixledger replay --print-scenario > scenario.toml
    """
    from prefixledger import api
    from prefixledger.cli import results

    if print_scenario:
        asked = {name: options[name] for name in ("scenario", "replica_grace")}
        click.echo(api.print_scenario(**asked), nl=False)
        return
    talk = talk_of(ctx)

    def verb() -> ReplayResult:
        with progress_of(talk) as progress:
            return api.replay(sources, progress=progress, **options)

    results.finish(verb, lambda result: results.say_replays(result, talk, as_json=as_json))
