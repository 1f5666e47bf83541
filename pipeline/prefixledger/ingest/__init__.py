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
    from collections.abc import Callable, Iterable, Sequence

    from prefixledger.engine import Engine
    from prefixledger.workspace import Workspace

__all__ = [
    "IngestOptions",
    "IngestSummary",
    "InputAccount",
    "NoRequestError",
    "Progress",
    "TooManyRejectsError",
    "engine_sources",
    "run",
]


def run(
    sources: Sequence[str],
    workspace: Workspace,
    options: IngestOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    engine: Engine | None = None,
) -> IngestSummary:
    """Read logs into a workspace; see ``stage.run_stage``."""
    from prefixledger.ingest.stage import run_stage  # noqa: PLC0415  # worker processes import this package without numba

    return run_stage(sources, workspace, options, progress, engine)


def engine_sources(sources: Iterable[str]) -> tuple[tuple[str, list[str]], ...]:
    """Return what engines tell of themselves, by format, in order; see ``detect.engine_format``."""
    from itertools import groupby  # noqa: PLC0415  # only here

    from prefixledger.ingest.detect import engine_format  # noqa: PLC0415  # as above

    return tuple((name, list(group)) for name, group in groupby(sources, engine_format))
