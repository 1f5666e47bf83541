"""What the verbs give back: where everything is, the tables as polars frames, and what a notebook shows of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from prefixledger.frames import Tabled, objects_frame, rows_frame
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl

    from prefixledger.attribute import Comparison, CounterComparison
    from prefixledger.attribute.cell import Cell
    from prefixledger.attribute.investigated import Investigation
    from prefixledger.cards import Card
    from prefixledger.ingest import IngestSummary
    from prefixledger.replay import ReplaySummary
    from prefixledger.report.books import Book
    from prefixledger.report.calendar import Calendar
    from prefixledger.report.comparison import Compared

    Frames = Mapping[str, Callable[[], pl.DataFrame]]

_BOOKS = ("lookups", "segments", "misses")
"""Tables of a replay that most questions need."""


def _book(totals: Mapping[str, Any], misses: Mapping[str, int]) -> Book:
    """Return the account that the totals of a cell, or of the twin of a report, are."""
    from prefixledger.report.books import Book

    asked, hits = int(totals["prompt_tokens"] or 0), int(totals["hit_tokens"] or 0)
    return Book("all", int(totals["requests"] or 0), 0, asked, 0, hits, misses)


@dataclass(frozen=True, slots=True)
class ReplayResult(Tabled):
    """What the verb ``replay`` did.

    Attributes:
        workspace: Where the files are.
        ingest: The account of the sources; None where a workspace was given.
        replays: One per scenario, in the order given.
        compared: For each the hits of the replay beside those that the service reports, or engines count; None without either.
    """

    workspace: str | Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]
    compared: tuple[Comparison | CounterComparison | None, ...] = ()

    def _frames(self) -> Frames:
        stems = {path.stem for one in self.replays for path in one.folder.glob("*.parquet")}
        ordered = (*_BOOKS, *sorted(stems - {*_BOOKS}))
        return {"scenarios": self._scenarios, **{stem: partial(self._rows, stem) for stem in ordered}}

    def account(self, scenario: str) -> tuple[str, ...]:
        """Return the closing account of a replay over the whole log, and its verdict last, as plain text.

        Args:
            scenario: Name of one of ``replays``.
        """
        from prefixledger.report.summary import account_of, set_out
        from prefixledger.report.verdict import brief

        one = next(one for one in self.replays if one.name == scenario)
        book = self._book(one)
        unlimited = any(pool.capacity_blocks is None and pool.ttl_us is None for pool in one.pools)
        sentence = brief(book, one.ideal_hit_rate if one.prompt_tokens else None, unlimited=unlimited)
        return (*set_out(account_of(book)), sentence)

    def _scenarios(self) -> pl.DataFrame:
        columns = ("scenario", "lookups", "prompt_tokens", "hit_tokens", "token_hit_rate", "ideal_hit_rate")
        rows = [
            (one.name, one.lookups, one.prompt_tokens, one.hit_tokens, one.token_hit_rate, one.ideal_hit_rate)
            for one in self.replays
        ]
        return rows_frame(columns, rows)

    def _rows(self, table: str) -> pl.DataFrame:
        """Return a table of all replays that have it, the name of the scenario first."""
        import polars as pl

        found = [
            pl.read_parquet(path).select(pl.lit(one.name).alias("scenario"), pl.all())
            for one in self.replays
            if (path := one.folder / f"{table}.parquet").is_file()
        ]
        return pl.concat(found, how="diagonal_relaxed")

    def _card(self) -> Card:
        from prefixledger.cards import frame_card
        from prefixledger.report.account_card import bars

        many = len(self.replays) > 1
        books = [(one, self._book(one)) for one in self.replays]
        accounts = [(one.name if many else "", book.hit_tokens, book.misses) for one, book in books]
        best = max(self.replays, key=lambda one: one.token_hit_rate)
        verdict = self.account(best.name)[-1]
        title = f"The best of {len(self.replays)} scenarios is {best.name}. {verdict}" if many else verdict
        notes = tuple(f"{one.name}: {note}" for one in self.replays for note in one.notes)
        return frame_card(title, self._scenarios(), notes, bars(*accounts))

    def _book(self, one: ReplaySummary) -> Book:
        """Return the account of all lookups of a replay that it simulated."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        from prefixledger.report.books import Book

        columns = {"hit_tokens": "hit", **{f"miss_{cause}_tokens": cause for cause in CAUSES}}
        path, simulated = one.folder / "lookups.parquet", pc.field("basis") == "simulated"
        table = pq.read_table(path, columns=["prompt_tokens", *columns], filters=simulated)
        asked, hits, *misses = (int(pc.sum(table[name]).as_py() or 0) for name in ("prompt_tokens", *columns))
        return Book("simulated", table.num_rows, 0, asked, 0, hits, dict(zip(CAUSES, misses, strict=True)))


@dataclass(frozen=True, slots=True)
class ReportResult(Tabled):
    """What the verb ``report`` did.

    Attributes:
        workspace: Where the stages' files are.
        ingest: The account of the sources; None where a workspace was given.
        replays: One per scenario, in the order given.
        html: The page.
        json: Its twin.
        csv: The folder of tables.
        lines: The account and the verdict as plain text; the verdict is the last line.
        compared: The hits of the first replay beside those that the service reports; None where no lookup has both.
        crossed: A sentence for each rule of ``--fail-on`` that the report crosses.
    """

    workspace: str | Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]
    html: Path
    json: Path
    csv: Path
    lines: tuple[str, ...]
    compared: Comparison | CounterComparison | None = None
    crossed: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The report in one sentence."""
        return self.lines[-1]

    @property
    def twin(self) -> dict[str, Any]:
        """What the JSON twin says; its types are in ``report.document``."""
        values: dict[str, Any] = json.loads(self.json.read_text(encoding="utf-8"))
        return values

    def _frames(self) -> Frames:
        from prefixledger.report.tables import tables

        found = (table for table in tables(self.twin) if table.rows)
        return {one.name.removesuffix(".csv"): partial(rows_frame, one.columns, one.rows) for one in found}

    def _card(self) -> Card:
        from prefixledger.cards import frame_card
        from prefixledger.report.account_card import bars

        twin = self.twin
        account = ("", twin["totals"]["hit_tokens"], twin["misses"]["by_cause"])
        advice = ("action", "saved", "currency", "tokens", "confidence")
        todo = rows_frame(advice, [[one[name] for name in advice] for one in twin["recommendations"]])
        table = todo if todo.height else self.frame("account")
        notes = (*twin["verdict"]["caveats"], *self.crossed, f"The report is {self.html}.")
        return frame_card(twin["verdict"]["sentence"], table, notes, bars(account))


@dataclass(frozen=True, slots=True)
class WhatIfResult(Tabled):
    """What the verb ``whatif`` did.

    Attributes:
        workspace: Where the requests are; no replay is kept.
        ingest: The account of the sources; None where a workspace was given.
        cells: The baseline, and then every combination.
        notes: What the reader must know of the baseline.
        asked_cells: How many cells there are to be; more than there are where Ctrl-C came first.
        html: The page, if one was asked for.
        csv: The table beside it.
    """

    workspace: str | Path
    ingest: IngestSummary | None
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    asked_cells: int = 0
    html: Path | None = None
    csv: Path | None = None

    def _frames(self) -> Frames:
        return {"cells": self._cells, "replicas": self._replicas}

    def account(self) -> tuple[str, ...]:
        """Return the closing account of the baseline, beside that of the best combination if one was replayed, as plain text."""
        from prefixledger.report.best import best_of
        from prefixledger.report.summary import accounts_of, set_out

        best = best_of(self.cells)
        named = [("baseline", self.cells[0]), *([("best", best)] if best is not None else [])]
        return set_out(
            accounts_of(*((name, _book(one.totals, one.misses["by_cause"])) for name, one in named))
        )

    def _cells(self) -> pl.DataFrame:
        from prefixledger.report.cell_rows import csv_rows

        columns, *rows = csv_rows(self.cells)
        return rows_frame(columns, rows)

    def _replicas(self) -> pl.DataFrame:
        rows = [{"cell": number, **one} for number, cell in enumerate(self.cells) for one in cell.replicas]
        columns = tuple(rows[0]) if rows else ("cell",)
        return rows_frame(columns, [[row[name] for name in columns] for row in rows])

    def _card(self) -> Card:
        from prefixledger.cards import frame_card
        from prefixledger.report.account_card import bars
        from prefixledger.report.best import best_of, sentence

        first, best = self.cells[0], best_of(self.cells)
        named = [("baseline", first), *([("best", best)] if best is not None else [])]
        accounts = [(name, int(one.totals["hit_tokens"] or 0), one.misses["by_cause"]) for name, one in named]
        cells = self._cells()
        axes = [name for name in first.axes if cells[name].n_unique() > 1]
        paid = [name for name in cells.columns if name.startswith("actual_")]
        shown = cells.select("cell", *axes, "token_hit_rate", "change_pp", *paid)
        return frame_card(sentence(self.cells), shown, self.notes, bars(*accounts))


@dataclass(frozen=True, slots=True)
class InvestigateResult(Tabled):
    """What the verb ``investigate`` did.

    Attributes:
        workspace: Where the stages' files are.
        ingest: The account of the sources; None where a workspace was given.
        found: What was found.
        html: The page, if one was asked for.
    """

    workspace: str | Path
    ingest: IngestSummary | None
    found: Investigation
    html: Path | None = None

    def account(self) -> tuple[str, ...]:
        """Return the closing account of what was looked at, as plain text."""
        from prefixledger.report.books import Book
        from prefixledger.report.summary import account_of, set_out

        one = self.found
        book = Book("all", one.requests, 0, one.prompt_tokens, 0, one.hit_tokens, one.misses)
        return set_out(account_of(book))

    def _frames(self) -> Frames:
        from prefixledger.attribute import investigated as kinds

        found = self.found
        numbered = [(number, move) for number, one in enumerate(found.incidents) for move in one.moves]
        hours = [(begin, rate, *shares) for begin, rate, shares in found.hourly]
        return {
            "incidents": partial(objects_frame, found.incidents, kinds.Incident),
            "moves": lambda: objects_frame(
                [m for _, m in numbered], kinds.Move, incident=[n for n, _ in numbered]
            ),
            "burdens": partial(objects_frame, found.burdens, kinds.Burden),
            "matched": partial(objects_frame, found.matched, kinds.Matched),
            "recoveries": partial(objects_frame, found.recoveries, kinds.Recovery),
            "splits": partial(objects_frame, found.splits, kinds.Split),
            "side_channels": partial(objects_frame, found.side_channels, kinds.SideChannel),
            "hourly": partial(rows_frame, ("begin", "hit_rate", *found.causes), hours),
        }

    def _card(self) -> Card:
        from prefixledger.cards import frame_card
        from prefixledger.report.account_card import bars

        found = self.found
        worst = max(
            found.incidents, key=lambda one: abs(one.table[0].after - one.table[0].before), default=None
        )
        accounts = []
        if worst is not None:
            before, after = (
                {row.name: getattr(row, side) for row in worst.table}
                for side in ("before_tokens", "after_tokens")
            )
            at = f"{worst.at:%Y-%m-%d %H:%M}"
            accounts = [(f"before {at}", before["hit"], before), (f"after {at}", after["hit"], after)]
        shown = self.frame().select("at", "field", "value", "better", "sentence")
        return frame_card(" ".join(found.verdict), shown, found.shapes, bars(*accounts))


@dataclass(frozen=True, slots=True)
class CompareResult(Tabled):
    """What the verb ``compare`` did.

    Attributes:
        comparison: What moved.
        html: The page, if one was asked for.
        twins: The JSON twins of both.
    """

    comparison: Compared
    html: Path | None
    twins: tuple[Mapping[str, Any], Mapping[str, Any]] = field(repr=False)

    def account(self) -> tuple[str, ...]:
        """Return the closing accounts of both beside each other, as plain text."""
        from prefixledger.report.summary import accounts_of, set_out

        first, second = (_book(twin["totals"], twin["misses"]["by_cause"]) for twin in self.twins)
        return set_out(accounts_of(("first", first), ("second", second)))

    def _frames(self) -> Frames:
        from prefixledger.report.comparison import GroupMoved, Moved

        found = self.comparison
        return {
            "figures": partial(objects_frame, (*found.figures, *found.causes), Moved),
            "groups": partial(objects_frame, found.groups, GroupMoved),
        }

    def _card(self) -> Card:
        from prefixledger.cards import frame_card
        from prefixledger.report.account_card import bars

        accounts = [
            (name, twin["totals"]["hit_tokens"], twin["misses"]["by_cause"])
            for name, twin in zip(("first", "second"), self.twins, strict=True)
        ]
        shown = self.frame().select("name", "before", "after", "change", "better")
        return frame_card(self.comparison.sentence, shown, self.comparison.notes, bars(*accounts))


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What the verb ``index`` did.

    Attributes:
        calendar: Days and reports.
        html: The page.
    """

    calendar: Calendar
    html: Path
