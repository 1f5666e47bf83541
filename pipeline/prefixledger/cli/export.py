"""``prefixledger export``: a log as a trace that can be given away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import FILE, PLACE, json_option, talk_options

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("workspace", metavar="[WORKSPACE]", type=PLACE, default=".prefixledger")
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="FILE", help="The trace; .gz and .zst are packed."
)
@click.option(
    "--form",
    type=click.Choice(["mooncake", "bailian"]),
    default="mooncake",
    show_default=True,
    help="How the trace is written.",
)
@click.option(
    "--block-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Export only requests with blocks of N tokens. [default: the one size there is]",
)
@click.option(
    "--salt",
    metavar="TEXT",
    help="Makes ids of several workspaces comparable. [default: a secret kept in the workspace]",
)
@click.option("--force", is_flag=True, help="Replace a file that no export of this workspace wrote.")
@json_option
@talk_options
@click.pass_context
def export(ctx: click.Context, /, workspace: Path, as_json: bool, **options: Any) -> None:
    """Write a workspace as a Mooncake or Bailian trace: lengths, times and salted block keys.

    No text, no ids, no tenants: sessions and replicas become numbers. Read back, the trace replays as the logs did.

    \b
    prefixledger ingest logs/
    prefixledger export -o traffic_blksz_16.jsonl.zst
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json

    talk = talk_of(ctx)
    with progress_of(talk) as progress:
        done = api.export(workspace, progress=progress, **options)
    if as_json:
        print_json(done)
    talk.say(
        f"{done.path}: {done.rows:,} requests, {done.blocks:,} distinct blocks of {done.block_size} tokens"
    )
    for reason, count in done.left_out.items():
        talk.say(f"{done.path}: {count:,} requests are not in it: {reason}")
    for note in done.notes:
        talk.say(f"{done.path}: {note}")
