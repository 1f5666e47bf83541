"""What a notebook shows of a result: a sentence, an account as a bar, and a table; no script, every text escaped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from prefixledger.ids import short_id
from prefixledger.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

_MOST_ROWS = 12
_LONGEST_CELL = 120
_LONGEST_SENTENCE = 1000
_ID_COLUMNS = ("request_id", "session_id")
_WHOLE = 1e5
"""From here on a number needs no decimals."""
_SHORT = 40
"""Characters that a cell keeps on one line."""
_LEAST_WIDTH = 0.0005
"""Share of a bar below which nothing would be seen."""

_BOX = "max-width:60em;font-family:system-ui,sans-serif;font-size:13px;line-height:1.45"
_CELL = "padding:2px 10px 2px 0;border-top:1px solid rgba(128,128,128,.35);vertical-align:top;text-align:"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bar.

    Attributes:
        name: What it is.
        share: Of the whole bar.
        told: The share in words.
        colour: CSS colour on a light page.
        dark: The same on a dark page.
    """

    name: str
    share: float
    told: str
    colour: str
    dark: str

    @property
    def ground(self) -> str:
        """CSS of its fill; a browser that cannot tell dark from light keeps the light one."""
        return f"background:{self.colour};background:light-dark({self.colour},{self.dark})"


@dataclass(frozen=True, slots=True)
class Bar:
    """An account that closes, as one bar.

    Attributes:
        name: Whose account it is; empty where there is only one.
        parts: In order.
    """

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """What is shown.

    Attributes:
        title: The answer in one sentence.
        bars: Accounts.
        columns: Headings of the table.
        rows: Its cells.
        numbers: Columns that are set flush right.
        notes: What the reader must know, a line each.
    """

    title: str
    bars: tuple[Bar, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    numbers: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def card_html(card: Card) -> str:
    """Return a piece of HTML that takes its colour of text and ground from the notebook."""
    pieces = [
        _format('<p style="margin:0 0 6px;font-weight:600">{}</p>', clean(card.title, _LONGEST_SENTENCE))
    ]
    pieces += [_bar(bar) for bar in card.bars]
    if card.columns:
        pieces.append(_table(card))
    pieces += [
        _format('<p style="margin:4px 0 0;opacity:.75">{}</p>', clean(note, _LONGEST_SENTENCE))
        for note in card.notes
    ]
    return str(_format('<div class="prefixledger" style="{}">{}</div>', _BOX, _join(pieces)))


def table_of(
    frame: pl.DataFrame,
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], frozenset[int], tuple[str, ...]]:
    """Return the columns, the first rows, the columns that are numbers, and a note where rows are left out; ids are short."""
    shown = frame.head(_MOST_ROWS)
    columns = tuple(frame.columns)
    numbers = frozenset(n for n, kind in enumerate(frame.dtypes) if kind.is_numeric())
    rows = tuple(
        tuple(_text(name, value) for name, value in zip(columns, row, strict=True)) for row in shown.rows()
    )
    left = frame.height - shown.height
    return columns, rows, numbers, (f"{left:,} more rows",) if left else ()


def frame_card(
    title: str, frame: pl.DataFrame, notes: tuple[str, ...] = (), bars: tuple[Bar, ...] = ()
) -> Card:
    """Return a card whose table is the first rows of a frame."""
    columns, rows, numbers, left = table_of(frame)
    return Card(title, bars, columns, rows, numbers, (*left, *notes))


def _bar(bar: Bar) -> Markup:
    """Return a bar and its key, which names every part in order: colours alone tell nobody enough."""
    drawn = [
        _format(
            '<span title="{}" style="flex:{:.6f} 1 0;{}"></span>',
            f"{clean(part.name)}: {clean(part.told)}",
            part.share,
            part.ground,
        )
        for part in bar.parts
        if part.share >= _LEAST_WIDTH
    ]
    key = [
        _format(
            '<span style="white-space:nowrap;margin-right:12px"><span style="display:inline-block;width:9px;height:9px;'
            'margin-right:4px;{}"></span>{} {}</span> ',
            part.ground,
            clean(part.name),
            clean(part.told),
        )
        for part in bar.parts
    ]
    name = _format('<div style="opacity:.75">{}</div>', clean(bar.name)) if bar.name else Markup()
    label = "; ".join(f"{clean(part.name)} {clean(part.told)}" for part in bar.parts)
    return _format(
        '{}<div role="img" aria-label="{}" style="display:flex;height:14px;gap:1px">{}</div><div style="margin:3px 0 8px">{}</div>',
        name,
        label,
        _join(drawn),
        _join(key),
    )


def _table(card: Card) -> Markup:
    side = ["right" if n in card.numbers else "left" for n in range(len(card.columns))]
    head = _join(
        _format('<th scope="col" style="{}">{}</th>', f"{_CELL}{at};font-weight:600;opacity:.75", clean(name))
        for name, at in zip(card.columns, side, strict=True)
    )
    body = _join(
        _format(
            "<tr>{}</tr>",
            _join(
                _format('<td style="{}">{}</td>', f"{_CELL}{at}{_wrap(cell)}", clean(cell, _LONGEST_CELL))
                for cell, at in zip(row, side, strict=True)
            ),
        )
        for row in card.rows
    )
    return _format(
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;border:0;font-size:inherit"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>',
        head,
        body,
    )


def _wrap(cell: str) -> str:
    return ";white-space:nowrap" if len(cell) <= _SHORT else ""


def _text(column: str, value: Any) -> str:
    shown = str(value)
    if value is None:
        shown = ""
    elif isinstance(value, str):
        shown = short_id(value) if column.endswith(_ID_COLUMNS) else value
    elif isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, int):
        shown = f"{value:,}"
    elif isinstance(value, float):
        shown = f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.6g}"
    elif isinstance(value, datetime):
        shown = f"{value:%Y-%m-%d %H:%M:%S}"
    elif isinstance(value, list):
        shown = ", ".join(_text("", one) for one in value)
    return shown


def _format(text: str, *values: object) -> Markup:
    """Put values into HTML of our own making; each is escaped unless it is such HTML."""
    return Markup(text).format(*values)  # noqa: S704  # called with literals of this module


def _join(pieces: Iterable[Markup]) -> Markup:
    return Markup().join(pieces)
