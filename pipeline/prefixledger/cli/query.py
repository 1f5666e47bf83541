"""``prefixledger query``: one SQL question to a workspace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console, talk_of
from prefixledger.cli.options import show_ids_option, talk_options, workspace_option

if TYPE_CHECKING:
    from pathlib import Path

MOST_SHOWN_ROWS = 500


@click.command()
@click.argument("sql", metavar="SQL")
@workspace_option
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, which is the default where stdout is no terminal."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
@show_ids_option
@talk_options
@click.pass_context
def query(
    ctx: click.Context, /, sql: str, workspace: Path, as_csv: bool, as_json: bool, show_ids: bool
) -> None:
    """Run one SQL statement on a workspace ("-" reads it from stdin).

    Views: requests, rejects, parts, blocks, last_blocks; and, with a column scenario, what the replays left behind:
    lookups, segments, misses and more ("SHOW TABLES" lists them, "DESCRIBE lookups" their columns). Nothing outside the workspace
    can be read, and nothing written.

    \b
    prefixledger query "SELECT replica, sum(hit_tokens) / sum(prompt_tokens) FROM lookups GROUP BY ALL"
    prefixledger query "SELECT cause, sum(tokens) FROM misses GROUP BY ALL" --csv
    """
    from prefixledger import api
    from prefixledger.cli import show

    if as_csv and as_json:
        raise click.UsageError("--csv and --json do not go together", ctx)
    result = api.query(sys.stdin.read() if sql == "-" else sql, workspace=workspace)
    if as_json:
        show.write_json_rows(result, sys.stdout, show_ids=show_ids)
    elif as_csv or not sys.stdout.isatty():
        show.write_csv_rows(result, sys.stdout, show_ids=show_ids)
    else:
        left = show.print_rows(data_console(), result, MOST_SHOWN_ROWS, show_ids=show_ids)
        if left:
            talk_of(ctx).say(f"only the first {MOST_SHOWN_ROWS} rows are shown; --csv prints all")
