"""Prints the cells of a grid: as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console, fitted
from prefixledger.cli.results import say_account, say_inputs
from prefixledger.cli.show import plain, print_json, print_table
from prefixledger.config.grid import told
from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.report.best import sentence
from prefixledger.report.cell_rows import csv_rows, currencies_of
from prefixledger.report.cheapest import cheapest
from prefixledger.report.glossary import SETTING_NAMES, cause_name
from prefixledger.report.numbers import compact

if TYPE_CHECKING:
    from decimal import Decimal

    from prefixledger.attribute.cell import Cell
    from prefixledger.cli.console import Talk
    from prefixledger.results import WhatIfResult

_LOAD = ("requests", "prefill", "peak", "waited")

_BETWEEN = "interval"

_ROUTED = ("routing", "replicas")
"""Axes of which a ranking compares the values."""

_HEADED = {PREFILL_TOKENS: "prefill"}

_CAUSES = ("invalidated", "expired", "evicted", "misrouted", "cold")


def say_cells(result: WhatIfResult, talk: Talk, *, form: str) -> None:
    """Print one row per cell on stdout, and what the reader must know on stderr.

    Args:
        result: What the verb did.
        talk: How much is said.
        form: ``table``, ``csv`` or ``json``.
    """
    if result.ingest is not None:
        say_inputs(result.ingest, talk)
    for note in result.notes:
        talk.say(f"baseline: {note}")
    for cell in result.cells:
        if cell.problem is not None:
            talk.say(f"{told(cell.axes)}: not replayed: {cell.problem}")
    if result.asked_cells > len(result.cells):
        talk.say(f"cut short: {len(result.cells) - 1} of {result.asked_cells - 1} combinations were replayed")
    if result.html is not None:
        talk.say(f"the page is {result.html}, and the table beside it {result.csv}")
    if form == "json":
        print_json({"notes": result.notes, "cells": result.cells})
    elif form == "csv":
        _write_csv(result.cells)
    else:
        _print_cells(result.cells, talk)
        say_account(result.account())
        talk.say(sentence(result.cells))


def _print_cells(cells: tuple[Cell, ...], talk: Talk) -> None:
    """Print the table, with causes and intervals where it then fits, and say how it is read."""
    console = data_console()
    # A setting that no cell changes says nothing.
    axes = [name for name in cells[0].axes if len({cell.axes[name] for cell in cells}) > 1]
    groups = _groups(cells)
    columns, rows = _laid_out(cells, axes, groups, wide=True)
    wide = console.width >= _width([columns, *rows])
    if not wide:
        columns, rows = _laid_out(cells, axes, groups, wide=False)
        talk.say("the causes of misses and the intervals are left out of so narrow a table; --csv has them")
    numbers = range(1 + (len(axes) if wide else min(1, len(axes))), len(columns))
    print_table(console, columns, rows, right=numbers, whole=(0, *numbers))
    talk.say(_key(wide=wide))
    if wide:
        talk.say(_noise(cells))
    if best := cheapest(cells):
        click.echo(fitted(best, sys.stdout))
    if "routing" in axes:
        _say_ranking(groups, cells)


def _width(rows: list[list[str]]) -> int:
    """Return the columns of letters that a table takes: its widest cells, three between them, one at each end."""
    return sum(max(map(len, column)) + 3 for column in zip(*rows, strict=True)) + 2


def _laid_out(
    cells: tuple[Cell, ...], axes: list[str], groups: dict[str, list[int]], *, wide: bool
) -> tuple[list[str], list[list[str]]]:
    """Return the headings and a row for each cell.

    Args:
        cells: The baseline and every combination.
        axes: Settings that some cell changes.
        groups: See ``_groups``.
        wide: With causes, intervals and all of the load; else the settings share a column, or each would be broken within
            its words.
    """
    currencies = currencies_of(cells)
    causes = [cause for cause in _CAUSES if any(cell.misses["by_cause"].get(cause) for cell in cells)]
    melts = _melting(cells, groups)
    settings = [SETTING_NAMES[name][0].lower() for name in axes] if wide else ["setting"] if axes else []
    columns = ["", *settings, "hit rate", "points"]
    columns += [_BETWEEN, *map(cause_name, causes)] if wide else []
    columns += [*(c if wide else _HEADED.get(c, c) for c in currencies), *(_LOAD if wide else ("imbalance",))]
    rows = []
    for number, cell in enumerate(cells):
        values = ["-" if cell.axes[name] is None else str(cell.axes[name]) for name in axes]
        told_values = values if wide else [", ".join(values)] if axes else []
        begin = ["baseline" if number == 0 else str(number), *told_values]
        if cell.problem is not None:
            rows.append([*begin, "refused", *["-"] * (len(columns) - len(begin) - 1)])
            continue
        change = None if number == 0 else cell.totals["change_pp"]
        noise = " noise" if cell.within_noise and not wide else ""
        rows.append(
            [
                *begin,
                _spread(cell),
                "-" if change is None else f"{change:+.2f}{noise}",
                *([_between(cell), *(_share_of(cell, cause) for cause in causes)] if wide else []),
                *(_paid(cell, currency, whole=wide) for currency in currencies),
                *_load(cell, melts=melts[number], whole=wide),
            ]
        )
    return columns, rows


def _melting(cells: tuple[Cell, ...], groups: dict[str, list[int]]) -> dict[int, bool]:
    """Return which cells melt a replica."""
    from prefixledger.report import ranking

    return {
        number: melts
        for group in groups.values()
        for number, melts in zip(
            group, ranking.melting(ranking.options_of([cells[n] for n in group])), strict=True
        )
    }


def _key(*, wide: bool) -> str:
    load = (
        "requests and prefill (tokens computed) are those of the busiest replica over the mean, peak is the most in flight on "
        "one, waited is for memory, all lookups added up"
        if wide
        else "imbalance is the busiest replica over the mean, by requests or by prefill (tokens computed), whichever is worse"
    )
    return (
        "hit rate and causes are shares of all prompt tokens, points are against the baseline, amounts are input and output "
        f"with the cache; {load}; ! marks one that melts a replica"
    )


def _groups(cells: tuple[Cell, ...]) -> dict[str, list[int]]:
    """Return the cells that differ in their routing alone, or in replicas, by what they have in common and others have not."""
    others = [
        name for name in cells[0].axes if name not in _ROUTED and len({cell.axes[name] for cell in cells}) > 1
    ]
    groups: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        if cell.problem is not None:
            continue
        groups.setdefault(", ".join(f"{name} {cell.axes[name]}" for name in others), []).append(number)
    return groups


def _load(cell: Cell, *, melts: bool, whole: bool) -> list[str]:
    """Return what a routing does to the busiest replica; where room is short, the worse of its two loads."""
    totals, mark = cell.totals, "!" if melts else ""
    requests, prefill = totals["imbalance_requests"] or 0, totals["imbalance_prefill"] or 0
    if not whole:
        return [_ratio(max(requests, prefill)) + mark]
    return [
        _ratio(requests) + mark,
        _ratio(prefill),
        str(totals["peak_in_flight"] or "-"),
        f"{totals['waited_s']:,.0f} s" if totals["waited_s"] else "-",
    ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value else "-"


def _say_ranking(groups: dict[str, list[int]], cells: tuple[Cell, ...]) -> None:
    """Explain the routings of one capacity and lifetime, for each of these that the grid has."""
    from prefixledger.report.ranking import options_of, ranking

    for name, group in groups.items():
        for reason in ranking(options_of([cells[number] for number in group])):
            click.echo(fitted(f"{name}: {reason}" if name else reason, sys.stdout))


def _between(cell: Cell) -> str:
    if cell.interval is None:
        return "-"
    between = f"{cell.interval.low:+.2f}…{cell.interval.high:+.2f}"
    return f"{between} noise" if cell.within_noise else between


def _noise(cells: tuple[Cell, ...]) -> str:
    """Say what the intervals are of, and which differences are none."""
    drawn = {(c.interval.clusters, c.interval.n_clusters) for c in cells if c.interval is not None}
    if not drawn:
        return "too few sessions and days to say how far chance goes, so there are no intervals"
    clusters = " or ".join(f"{count:,} {name}s" for name, count in sorted(drawn))
    return (
        f"{_BETWEEN}: where the change in points lies 95 times in 100 when the {clusters} of this log are drawn again; "
        "noise: that includes no change"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _spread(cell: Cell) -> str:
    """Return the hit rate, and between which rates it lies under other draws of the router."""
    rate, low, high = (cell.totals[f"token_hit_rate{end}"] for end in ("", "_low", "_high"))
    if cell.totals["seeds"] == 1 or rate is None or low is None or high is None:
        return _share(rate)
    return f"{rate:.2%} ({low:.1%} … {high:.1%})"


def _share_of(cell: Cell, cause: str) -> str:
    prompt = cell.totals["prompt_tokens"]
    return _share(cell.misses["by_cause"][cause] / prompt if prompt else None)


def _paid(cell: Cell, currency: str, *, whole: bool) -> str:
    """Return what a cell costs; tokens in three digits where room is short."""
    if currency == PREFILL_TOKENS and not whole:
        return next((compact(float(c["actual"])) for c in cell.costs if c["currency"] == currency), "-")
    return next((_money(cost["actual"]) for cost in cell.costs if cost["currency"] == currency), "-")


def _money(amount: Decimal) -> str:
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.2f}"


def _write_csv(cells: tuple[Cell, ...]) -> None:
    rows = csv_rows(cells)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if value is None else plain(value) for value in row])
