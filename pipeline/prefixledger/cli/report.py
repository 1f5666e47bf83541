"""``prefixledger report``: the main job, all stages in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import talk_of
from prefixledger.cli.options import (
    fail_on_option,
    figures_option,
    force_option,
    invoice_option,
    json_option,
    log_options,
    output_option,
    replay_options,
    show_ids_option,
    sources_argument,
    talk_options,
    window_options,
    workspace_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.results import ReportResult


@click.command()
@sources_argument
@output_option
@figures_option
@workspace_option
@window_options
@invoice_option
@replay_options
@fail_on_option
@log_options
@show_ids_option
@force_option
@json_option
@talk_options
@click.pass_context
def report(ctx: click.Context, /, sources: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Write a report on logs: one HTML file, its JSON twin and a folder of CSV files, with the same stem.

    SOURCE is a file, a folder, a glob, or "-" for stdin; or a workspace.

    An invoice is a CSV whose head names date, model, kind (token_type, line_item …), tokens (quantity, usage …), amount
    (cost, total …) and currency, one line a kind; or one line a day with columns such as input_tokens, cached_tokens,
    cache_write_5m_tokens, cache_write_1h_tokens, output_tokens; or usage and cost pages of OpenAI and Anthropic as JSON.
    Days are those of UTC.

    \b
    prefixledger report logs/*.jsonl.gz -o week.html --scenario fleet.toml
    prefixledger report gateway.jsonl --month 2026-11 --invoice november.csv
    prefixledger report .prefixledger --from 2026-11-16 --to 2026-11-23 --tz Europe/Berlin
    """
    from prefixledger import api
    from prefixledger.cli import results

    talk = talk_of(ctx)

    def verb() -> ReportResult:
        with progress_of(talk) as progress:
            return api.report(sources, progress=progress, **options)

    results.finish(verb, lambda result: results.say_report(result, talk, as_json=as_json))
