"""Prints rows, tables and JSON."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from prefixledger.ids import short_id
from prefixledger.texts import quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console

    from prefixledger.attribute.query import QueryResult


_ID_COLUMNS = ("request_id", "session_id")
"""Columns with these endings are shortened unless --show-ids."""

_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (dict, lambda value: {str(key): plain(item) for key, item in value.items()}),
    ((set, frozenset), lambda value: sorted(plain(item) for item in value)),
    ((list, tuple), lambda value: [plain(item) for item in value]),
    (float, lambda value: value if math.isfinite(value) else None),
    ((str, int, type(None)), lambda value: value),
    (datetime, lambda value: value.isoformat().replace("+00:00", "Z")),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
    (Decimal, lambda value: int(value) if value == value.to_integral_value() else float(value)),
    ((bytes, bytearray, memoryview), lambda value: bytes(value).hex()),
    (Path, lambda value: value.as_posix()),
)


def plain(value: Any) -> Any:
    """Turn a value into what JSON has: times as ISO 8601, bytes as hex, no NaN."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    convert = next((convert for kinds, convert in _CONVERSIONS if isinstance(value, kinds)), str)
    return convert(value)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, keys in a fixed order."""
    click.echo(json.dumps(plain(value), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False))


_WIDE = 80
_LEAST = 6
"""Letters of a column that may be broken."""


def print_table(
    console: Console,
    columns: Iterable[str],
    rows: Iterable[Iterable[Any]],
    right: Iterable[int] = (),
    whole: Iterable[int] = (),
) -> None:
    """Print a table as wide as the terminal allows.

    Args:
        console: Where.
        columns: Headings.
        rows: Cells; markup in them is not read.
        right: Indexes of the columns that are set flush right.
        whole: Indexes of those that are never broken where there are ``_WIDE`` columns of letters: numbers and short words.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = list(columns)
    cells = [[quiet(_cell(value)) for value in row] for row in rows]
    flush_right, unbroken = set(right), set(whole)
    widest = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    # Where even these find no room, a number that is broken is better than one that is cut off.
    needed = sum(3 + (width if n in unbroken else min(width, _LEAST)) for n, width in enumerate(widest))
    if console.width < max(_WIDE, needed):
        unbroken = set()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(
            Text(name),
            justify="right" if index in flush_right else "left",
            overflow="fold",
            no_wrap=index in unbroken,
        )
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def print_rows(console: Console, result: QueryResult, limit: int, *, show_ids: bool) -> bool:
    """Print the first rows of an answer as a table, and say whether there are more."""
    rows = _rows(result, show_ids=show_ids)
    shown = list(islice(rows, limit))
    right = [
        n
        for n, kind in enumerate(result.types)
        if kind.endswith(("INT", "INTEGER", "DOUBLE", "FLOAT")) or kind.startswith("DECIMAL")
    ]
    print_table(console, result.columns, shown, right)
    return next(rows, None) is not None


def write_csv_rows(result: QueryResult, stream: TextIO, *, show_ids: bool) -> None:
    """Write an answer as CSV with a header; null is an empty field."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(result.columns)
    for row in _rows(result, show_ids=show_ids):
        writer.writerow([_cell(value) for value in row])


def write_json_rows(result: QueryResult, stream: TextIO, *, show_ids: bool) -> None:
    """Write an answer as a JSON array of objects, one row a line."""
    stream.write("[")
    for number, row in enumerate(_rows(result, show_ids=show_ids)):
        values = {name: plain(value) for name, value in zip(result.columns, row, strict=True)}
        stream.write(",\n" if number else "\n")
        stream.write(json.dumps(values, ensure_ascii=False, allow_nan=False))
    stream.write("\n]\n")


def _rows(result: QueryResult, *, show_ids: bool) -> Iterator[list[Any]]:
    hidden = [] if show_ids else [n for n, name in enumerate(result.columns) if name.endswith(_ID_COLUMNS)]
    for row in result.rows():
        cells = list(row)
        for index in hidden:
            if isinstance(cells[index], str):
                cells[index] = short_id(cells[index])
        yield cells


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
