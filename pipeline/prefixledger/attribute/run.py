"""Turns the facts of one replay into books: lookups, segments, misses and the observed book."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.attribute.inputs import read_replay
from prefixledger.attribute.session import Session
from prefixledger.attribute.tables import LOOKUPS, MISSES, OBSERVED_BOOK, SEGMENTS
from prefixledger.workspace import write_table

if TYPE_CHECKING:
    from prefixledger.workspace import Workspace

STEPS = (
    "20_causes/changed",
    "20_causes/judged",
    "20_causes/merged",
    "20_causes/uncacheable",
    "20_causes/unmeasured",
    "20_causes/observed_spans",
    "20_causes/segments",
    "30_books/book",
    "30_books/lookups",
    "30_books/misses",
    "30_books/observed",
)
CHECKS = (
    "40_checks/facts_cover_prompts",
    "40_checks/segments_follow_causes",
    "40_checks/lookups_close",
    "40_checks/observed_close",
    "40_checks/requests_counted",
    "40_checks/totals_close",
)
OUTPUTS = (LOOKUPS, SEGMENTS, MISSES, OBSERVED_BOOK)


def run(workspace: Workspace, name: str, *, threads: int = 2) -> None:
    """Write ``lookups``, ``segments``, ``misses`` and ``observed`` of one replayed scenario.

    Args:
        workspace: Where the replay is.
        name: Name of the scenario.
        threads: Threads of DuckDB; the files do not depend on it.

    Raises:
        UsageError: This scenario was never replayed.
        InternalError: The books do not close; nothing is written then.
    """
    with Session(threads) as session:
        session.bind(read_replay(workspace, name))
        session.run(STEPS)
        session.check(CHECKS)
        for output in OUTPUTS:
            write_table(
                workspace.replay(name) / f"{output.name}.parquet", session.table(output.name, output.arrow())
            )
