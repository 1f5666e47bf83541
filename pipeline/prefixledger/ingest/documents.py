"""The values of JSON that does not stand one to a line, and what of it is broken."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from prefixledger.ingest.json_text import loads
from prefixledger.ingest.streams import captured_answers, is_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINS = re.compile(rb"^(?=[\[{])", re.MULTILINE)
_BLANK = re.compile(r"[\s,]*")
_END = re.compile(r"\s*(?:[,\]]|$)")
_SCANNER = json.JSONDecoder()


class Broken(NamedTuple):
    """A stretch of a text that is no JSON, and what it was refused with."""

    start: int
    end: int
    error: orjson.JSONDecodeError


def json_values(data: bytes) -> Iterator[Any]:
    """Yield the JSON values of a text one after the other; the elements of a list that is the whole text.

    A bare capture of event streams is read as the answers that they make. What is broken is yielded as ``Broken``, and what
    stands behind it is read on where it is known to begin: at the line of the next value. A list that is broken is read to its
    last whole element.
    """
    if is_capture(data):
        yield from captured_answers(data)
        return
    try:
        value = loads(data)
    except orjson.JSONDecodeError as error:
        yield from _elements(data, error) if data.lstrip()[:1] == b"[" else _concatenated(data)
        return
    if isinstance(value, list):
        yield from value
    else:
        yield value


def _concatenated(data: bytes) -> Iterator[Any]:
    """Split objects that follow each other at the lines where one begins.

    So do elements of a longer value that are not indented: where most of what is split off is no value, all that stands behind
    the first of that is one broken value.
    """
    starts = sorted({0, *(match.start() for match in _BEGINS.finditer(data))})
    ends = [*starts[1:], len(data)]
    found = [_piece(data, *piece) for piece in zip(starts, ends, strict=True) if data[slice(*piece)].strip()]
    broken = [at for at, value in enumerate(found) if isinstance(value, Broken)]
    if 2 * len(broken) > len(found):
        first = found[broken[0]]
        found = [*found[: broken[0]], first._replace(end=len(data))]
    yield from found


def _piece(data: bytes, start: int, end: int) -> Any:
    try:
        return loads(data[start:end])
    except orjson.JSONDecodeError as error:
        return Broken(start, end, error)


def _elements(data: bytes, error: orjson.JSONDecodeError) -> Iterator[Any]:
    """Yield the elements of a list up to the first that is broken, and the rest as that."""
    text = data.decode("utf-8", "surrogateescape")
    at = text.index("[") + 1
    while True:
        begin = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing as well
        try:
            _, at = _SCANNER.raw_decode(text, begin)
            value = loads(text[begin:at].encode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            break
        if _END.match(text, at) is None:
            break
        yield value
    start = len(text[:begin].encode("utf-8", "surrogateescape"))
    yield Broken(start, len(data), error)
