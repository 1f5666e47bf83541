"""``prefixledger whatif``: the traffic under other capacities, lifetimes, routings and numbers of replicas."""

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

    from prefixledger.results import WhatIfResult


@click.command()
@sources_argument
@workspace_option
@click.option(
    "--capacity",
    metavar="A,B",
    help='Capacities of one replica: 20000 (blocks), "1000000 tokens", unlimited; 90% finds the smallest that hits so much.',
)
@click.option("--ttl", metavar="A,B", help="Lifetimes: 5m,1h,none.")
@click.option(
    "--residence", metavar="A,B", help="How long requests hold their blocks: logged,estimated,none."
)
@click.option(
    "--running",
    metavar="N,M",
    help="Requests that may run on a replica at a time (max_num_seqs, max_running_requests); none: as many as fit.",
)
@click.option(
    "--tier",
    metavar="A,B",
    help="Lower tiers, [KIND:]SIZE[:SCOPE]: none,2x,lmcache:512GiB:fleet.",
)
@click.option("--rates", metavar="A,B", help="Models whose prices are paid, or by-model.")
@click.option(
    "--routing",
    metavar="A,B",
    help="Routings: prefix-hash,cache-aware … or all that place requests themselves.",
)
@click.option(
    "--replicas",
    metavar="N,M",
    help="Numbers of replicas, +1,-1 for more and fewer than today, for routings that place requests themselves. [default: as many as before]",
)
@click.option(
    "--block-sizes",
    metavar="N,M",
    help="Tokens per block; each takes an index of its own. Not a multiple of the log's: read again from token ids or text.",
)
@click.option(
    "--salt", metavar="A,B", help="Cache salts: off (one for all), on (one for each tenant), as-logged."
)
@click.option(
    "--layout",
    metavar="A,B",
    help="Prompts: volatile-last (what changes from call to call at the end), as-logged.",
)
@click.option(
    "--growth",
    metavar="A,B",
    help="Times the traffic: 1.5,2. Sessions come again, keep what they share, and bring the rest as new content.",
)
@click.option(
    "--sample",
    metavar="N%",
    help="Replay only so much of the log: subtrees below what more than 1 % of the requests share. Each cell says how far it "
    "may be off.",
)
@click.option(
    "--scenario", type=FILE, metavar="FILE", help="The baseline. [default: vLLM, as logged, unlimited]"
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
@click.option(
    "-o", "--output", type=FILE, metavar="FILE", help="Also write a page (.html), and a CSV of the same stem."
)
@figures_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per cell.")
@json_option
@talk_options
@click.pass_context
def whatif(
    ctx: click.Context, /, sources: tuple[Path, ...], as_json: bool, as_csv: bool, **options: Any
) -> None:
    """Replay logs, or a workspace, under every combination of some settings, beside the baseline.

    Each cell has the numbers that replay gives for that scenario; no replay is kept. A provider's cache has no capacity
    or replicas to choose: there only lifetime and prices change.

    \b
    prefixledger whatif logs/ --capacity 20000,40000,80000 --ttl 5m,1h
    prefixledger whatif --scenario as-is.toml --routing as-logged,cache-aware --replicas 4,8 -o whatif.html
    prefixledger whatif logs/ --block-sizes 16,64 --salt as-logged,off --tier none,2x
    prefixledger whatif --scenario as-is.toml --growth 1.5,2 --routing prefix-hash --replicas 4,6
    """
    from prefixledger import api
    from prefixledger.cli import cells, results

    if as_csv and as_json:
        raise click.UsageError("--csv and --json do not go together", ctx)
    talk = talk_of(ctx)

    def verb() -> WhatIfResult:
        with progress_of(talk) as progress:
            return api.whatif(sources, progress=progress, **options)

    def say(result: WhatIfResult) -> None:
        cells.say_cells(result, talk, form="json" if as_json else "csv" if as_csv else "table")

    results.finish(verb, say)
