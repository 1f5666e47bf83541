"""``prefixledger prune``: what is old, cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import PLACE, json_option, talk_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("workspace", metavar="[WORKSPACE]", type=PLACE, default=".prefixledger")
@click.option("--before", required=True, metavar="TIME", help="First moment that stays, UTC unless it says.")
@click.option(
    "--warm-up",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="How long before it all requests stay: as long as the slowest cache takes to turn over.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
@talk_options
@click.pass_context
def prune(ctx: click.Context, /, workspace: Path, as_json: bool, **options: Any) -> None:
    """Cut off the requests before a moment, but for those that decide what caches hold at it.

    On every replica the last request to use each block that others use, too, stays, and so does all of the warm-up: replays
    go on from there, and reports begin at the moment. Replays go, for they were made from other requests. Reports that were written stay.

    \b
    prefixledger prune --before 2026-11-01 --dry-run
    prefixledger prune week-by-week --before 2026-11-01
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json

    talk = talk_of(ctx)
    with progress_of(talk) as progress:
        done = api.prune(workspace, progress=progress, **options)
    if as_json:
        print_json(done)
    go = "went" if done.done else "would go"
    talk.say(
        f"{done.workspace}: {done.removed:,} requests from before {done.before} {go}; {done.kept_before:,} from before it stay for "
        f"what caches hold, and {done.kept:,} from then on"
    )
    if done.replays:
        names = ", ".join(done.replays)
        talk.say(f"{done.workspace}: replays that {go}: {names}; run prefixledger replay again")
