"""``prefixledger doctor``: is the installation whole, and does the workspace fit together?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, talk_options, workspace_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@workspace_option
@json_option
@talk_options
def doctor(workspace: Path, as_json: bool) -> None:
    """Check the installation and a workspace: libraries, kernels, files, and whether the books close.

    \b
    prefixledger doctor
    prefixledger doctor --workspace week-48 --json

    Exit 2 where something is wrong with what is installed, 3 where it is with the workspace; a note is worth knowing and
    stops nothing.
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json, print_table
    from prefixledger.doctor import broken

    checks = api.doctor(workspace=workspace)
    if as_json:
        print_json(checks)
    else:
        rows = (
            (check.state, check.subject, f"{check.found}\n{check.hint}" if check.hint else check.found)
            for check in checks
        )
        print_table(data_console(), ("", "what", "found"), rows)
    error = broken(checks)
    if error is not None:
        raise error
