"""Reads logs of any known format into a workspace, and accounts for every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.ingest.account import (
    IngestSummary,
    InputAccount,
    NoRequestError,
    Progress,
    TooManyRejectsError,
)
from prefixledger.ingest.options import IngestOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prefixledger.workspace import Workspace

__all__ = [
    "IngestOptions",
    "IngestSummary",
    "InputAccount",
    "NoRequestError",
    "Progress",
    "TooManyRejectsError",
    "run",
]


def run(
    sources: Sequence[str],
    workspace: Workspace,
    options: IngestOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> IngestSummary:
    """Read logs into a workspace; see ``stage.run_stage``."""
    from prefixledger.ingest.stage import run_stage  # noqa: PLC0415  # worker processes import this package without numba

    return run_stage(sources, workspace, options, progress)
