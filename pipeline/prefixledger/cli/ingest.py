"""``prefixledger ingest``: logs into a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import (
    force_option,
    json_option,
    log_options,
    logs_argument,
    talk_options,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest import IngestSummary


@click.command()
@logs_argument
@workspace_option
@log_options
@force_option
@json_option
@talk_options
@click.pass_context
def ingest(ctx: click.Context, /, sources: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Read logs into a workspace, and account for every record.

    SOURCE is a file, a folder, a glob, or "-" for stdin; plain, gzip, zstd or bzip2. A file that was read before is a duplicate,
    so the same command may be run again at any time.

    \b
    prefixledger ingest logs/
    prefixledger ingest trace.jsonl.zst --format mooncake --t0 2026-11-24T00:00:00Z
    """
    from prefixledger import api
    from prefixledger.cli import results, show

    talk = talk_of(ctx)

    def verb() -> IngestSummary:
        with progress_of(talk) as progress:
            return api.ingest(sources, progress=progress, **options)

    def say(summary: IngestSummary) -> None:
        results.say_inputs(summary, talk)
        if as_json:
            show.print_json(summary)
            return
        results.say_records(summary)
        talk.say(f"next: prefixledger report --workspace {options['workspace']}")

    results.finish(verb, say)
