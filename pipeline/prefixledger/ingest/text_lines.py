"""Lines of text logs without what colours them and what container runtimes put around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from prefixledger.ingest.json_text import loads
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.times import iso_us
from prefixledger.ingest.years import NOMINAL_YEAR

_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_CRI: Final = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\S+) std(?:out|err) (?P<tag>[FP]) ?")
_DOCKER: Final = b'{"log":'


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        text: What the process wrote.
        at_us: When the runtime took it, microseconds since 1970; None where it wrote no time.
        partial: True where the runtime cut it and the rest follows in the next line.
    """

    text: str
    at_us: int | None = None
    partial: bool = False


def plain_line(raw: bytes) -> Line:
    """Return a line without wrapper and colours; what is no UTF-8 is replaced."""
    at_us, partial = None, False
    text = raw.decode("utf-8", "replace")
    if raw.startswith(_DOCKER):
        try:
            held = loads(raw)
            text, at_us = str(held["log"]), _iso(str(held.get("time", "")))
            partial = not text.endswith("\n")
        except (orjson.JSONDecodeError, KeyError, TypeError):
            pass  # a line that looks like Docker's and is not
    else:
        match = _CRI.match(text)
        if match is not None:
            text, at_us, partial = text[match.end() :], _iso(match["at"]), match["tag"] == "P"
    return Line(_ANSI.sub("", text).strip("\r\n"), at_us, partial)


def nominal_us(text: str) -> int:
    """Return the time of ``MM-DD HH:MM:SS`` in the nominal year.

    Raises:
        BadRecordError: There is no such time.
    """
    try:
        moment = datetime.strptime(f"{NOMINAL_YEAR}-{text}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise BadRecordError("unreadable time: the prefix of the line") from None
    return int(moment.timestamp()) * 1_000_000


def _iso(text: str) -> int | None:
    try:
        return iso_us(text, "time")[0]
    except BadRecordError:
        return None
