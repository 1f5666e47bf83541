"""Turns the facts of one replay into books: lookups, segments, misses and the observed book, part by part."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.attribute.book_file import writing_book
from prefixledger.attribute.inputs import read_whole
from prefixledger.attribute.parts import cuts, parts_of
from prefixledger.attribute.session import Session
from prefixledger.attribute.tables import LOOKUPS, MISSES, OBSERVED_BOOK, SEGMENTS
from prefixledger.engine import LocalEngine, Work

if TYPE_CHECKING:
    from prefixledger.attribute.book_file import BookFile
    from prefixledger.attribute.parts import Whole
    from prefixledger.engine import Engine
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
"""The first looks at all changes of a replay, the others at one part."""
CHECKS = (
    "40_checks/facts_cover_prompts",
    "40_checks/segments_follow_causes",
    "40_checks/lookups_close",
    "40_checks/observed_close",
    "40_checks/requests_counted",
    "40_checks/totals_close",
)
ACCOUNT = "45_parts/account"
WHOLE_CHECK = "45_parts/parts_close"
OUTPUTS = (LOOKUPS, SEGMENTS, MISSES, OBSERVED_BOOK)

PARTS = Work("causes", "names the causes of a part of a replay", wide=True)
_LAST = {SEGMENTS.name: "keyed_segments", MISSES.name: "keyed_misses"}
"""Where rows without keys stand behind all others, and how many of the others a part has."""


@dataclass(frozen=True, slots=True)
class _Books:
    """What a part leaves: its rows of every file, and its account."""

    rows: dict[str, pa.Table]
    account: pa.Table


def run(
    workspace: Workspace,
    name: str,
    *,
    threads: int = 2,
    engine: Engine | None = None,
    parts: int | None = None,
) -> None:
    """Write ``lookups``, ``segments``, ``misses`` and ``observed`` of one replayed scenario.

    Args:
        workspace: Where the replay is.
        name: Name of the scenario.
        threads: Threads of DuckDB; the files do not depend on it.
        engine: What may attribute parts apart; None: this process does one after the other.
        parts: How many parts there should be; the files do not depend on it. None goes by the size of the replay.

    Raises:
        UsageError: This scenario was never replayed.
        InternalError: The books do not close; nothing is written then.
    """
    whole = read_whole(workspace, name)
    found = cuts(whole, parts)
    # A part costs more to send than a small log takes.
    places = engine if engine is not None and len(found) > 1 else LocalEngine(1)
    threads = 1 if places.remote else threads
    made = places.map(PARTS, attributed, parts_of(whole, found), threads)
    with ExitStack() as stack:
        files = {
            table.name: stack.enter_context(
                writing_book(whole.folder / f"{table.name}.parquet", table.arrow())
            )
            for table in OUTPUTS
        }
        _close(whole, [_put(files, books) for books in made], threads)


def attributed(threads: int, part: dict[str, pa.Table]) -> _Books:
    """Name the causes of one part, and check that its books close.

    Args:
        threads: Threads of DuckDB.
        part: Its inputs, see ``parts_of``.

    Raises:
        InternalError: They do not close.
    """
    with Session(threads) as session:
        session.bind(part)
        session.run(STEPS[1:])
        session.check(CHECKS)
        session.run([ACCOUNT])
        rows = {table.name: session.table(table.name, table.arrow()) for table in OUTPUTS}
        return _Books(rows, session.table("account"))


def _put(files: dict[str, BookFile], books: _Books) -> pa.Table:
    """Write the rows of a part behind those of the parts before it; return its account."""
    (account,) = books.account.to_pylist()
    for name, rows in books.rows.items():
        files[name].put(rows, account[_LAST[name]] if name in _LAST else None)
    return books.account


def _close(whole: Whole, accounts: list[pa.Table], threads: int) -> None:
    """Check that the parts are the whole.

    Raises:
        InternalError: They are not.
    """
    numbered = pa.table({"lookup": np.arange(len(whole.lookups))})
    with Session(threads) as session:
        session.bind({"account": pa.concat_tables(accounts)})
        session.bind({"requests": whole.requests, "lookup_facts": numbered})
        session.check([WHOLE_CHECK])
