"""Finds what in a text may change from call to call: times, dates, ids, numbers; the text between is its mask."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_MONTHS: Final = (
    b"jan",
    b"feb",
    b"mar",
    b"apr",
    b"may",
    b"jun",
    b"jul",
    b"aug",
    b"sep",
    b"oct",
    b"nov",
    b"dec",
)
_MONTH: Final = rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_WEEKDAY: Final = rb"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,? )?"
_NTH: Final = rb"\d{1,2}(?:st|nd|rd|th|\.)?"
_PATTERN: Final = re.compile(
    rb"(?<![0-9a-z])(?:"
    rb"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    rb"|(?P<date>\d{4}-\d{2}-\d{2}(?=t\d)|"
    + _WEEKDAY
    + rb"(?:\d{4}[-/]\d{2}[-/]\d{2}(?![0-9a-z])|\d{1,2}(?:/\d{1,2}/|\.\d{1,2}\.)\d{4}(?![0-9a-z])|"
    + _NTH
    + b" "
    + _MONTH
    + rb",? \d{4}|"
    + _MONTH
    + b" "
    + _NTH
    + rb",? \d{4}))"
    rb"|(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?![0-9a-z:])(?: ?[ap]m(?![a-z]))?(?:z(?![0-9a-z]))?)"
    rb"|(?P<epoch>1[5-9]\d{8}(?:\.?\d{3}|\.\d{1,9})?(?![0-9a-z]))"
    rb"|(?P<random>(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{5,}(?:[-_][0-9a-z]+)*)"
    rb"|(?P<number>\d+(?:\.\d+)?)"
    rb")|(?<=\dt)(?P<tail>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?z?)",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(rb"[0-9]")
_NO_WORD: Final = re.compile(rb"[^0-9a-z_-]", re.IGNORECASE)
_LONGEST_WORD: Final = 64
"""Bytes that are looked back for the beginning of a word."""
_BEFORE_BYTES: Final = 24
"""Longest of what stands before the first word with a digit in a date: ``Wednesday, September``."""
CLASSES: Final = ("uuid", "date", "time", "random", "number")
_LOW_BITS: Final = 0xFFFF
"""Of a number no more is kept than tells a counter: steps are small, and 16 bits name nobody."""
_HALF_DAY_H: Final = 12
_DAY_S: Final = 86_400
_MOST_DAYS: Final = 31
_MOST_MONTHS: Final = 12
MOST_MARKS: Final = 16
"""Marks kept of one piece; a table of numbers has more, and no time of day behind them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text that looks as if it changed from call to call.

    Attributes:
        kind: One of ``CLASSES``, by its looks alone.
        start: First byte.
        end: First byte behind it.
        value: Second of the day, day since 1970, 16 low bits of a number, or 32 bits of hash.
    """

    kind: str
    start: int
    end: int
    value: int


def find_marks(text: bytes, within: int | None = None) -> list[Mark]:
    """Return the marks of a text, in its order.

    Args:
        text: The text.
        within: Bytes from its start that are looked at; None for all.
    """
    return list(_marks(text, len(text) if within is None else within))


def written(marks: list[Mark], begin: int = 0) -> str:
    """Return the first marks of a piece that begins at a byte of the text, as ``schema_contents.PIECES`` has them."""
    kept = marks[:MOST_MARKS]
    return ";".join(f"{m.kind}:{m.start - begin}:{m.end - m.start}:{m.value}" for m in kept)


def masked(text: bytes, marks: list[Mark]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a text with one control letter for each mark, and the byte of the text behind each of its letters.

    Returns:
        (uint8[m], int64[m]): letters, and the end of each in ``text``.
    """
    letters = np.frombuffer(text, np.uint8)
    keep = np.ones(letters.size, np.bool_)
    out = letters.copy()
    for mark in marks:
        keep[mark.start : mark.end - 1] = False
        out[mark.end - 1] = 1 + CLASSES.index(mark.kind)
    return out[keep], np.flatnonzero(keep) + 1


def _marks(text: bytes, within: int) -> Iterator[Mark]:
    at = 0
    while (digit := _DIGIT.search(text, at, within)) is not None:
        # A mark has a digit, so all between a mark and the word of the next digit, and the month before it, is passed over.
        at = max(at, _word_start(text, digit.start()) - _BEFORE_BYTES)
        match = _PATTERN.search(text, at, within)
        if match is None:
            return
        at = match.end()
        kind, found = match.lastgroup or "", match.group()
        if kind == "epoch":
            yield Mark("time", match.start(), match.end(), int(found[:10]) % _DAY_S)
            continue
        kind = "time" if kind == "tail" else kind
        yield Mark(kind, match.start(), match.end(), _value(kind, found))


def _word_start(text: bytes, at: int) -> int:
    """Return where the letters and digits begin that a byte is among; 0 where that is too far away to be looked for."""
    before = _NO_WORD.search(text[max(0, at - _LONGEST_WORD) : at][::-1])
    return 0 if before is None else at - before.start()


def _value(kind: str, found: bytes) -> int:
    if kind == "time":
        parts = re.findall(rb"\d+", found)
        hour, minute, second = (int(part) for part in (*parts, b"0")[:3])
        lower = found.lower()
        if b"pm" in lower and hour < _HALF_DAY_H:
            hour += _HALF_DAY_H
        if b"am" in lower and hour == _HALF_DAY_H:
            hour = 0
        return hour * 3_600 + minute * 60 + second
    if kind == "date":
        return _day(found)
    if kind == "number":
        return int(found.partition(b".")[0][-18:]) & _LOW_BITS
    return crc32(found)


def _day(found: bytes) -> int:
    """Return days since 1970; a hash of a date that the calendar does not have."""
    lower = found.lower()
    numbers = [int(part) for part in re.findall(rb"\d+", lower)]
    named = [at + 1 for at, name in enumerate(_MONTHS) if name in lower]
    if named:
        year, month, day = max(numbers), named[0], min(numbers)
    elif numbers[0] > _MOST_DAYS:
        year, month, day = numbers
    else:  # with a dot the day comes first, with a slash the month where it can
        first, second, year = numbers
        day, month = (first, second) if b"." in lower or first > _MOST_MONTHS else (second, first)
    try:
        return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return crc32(found)
