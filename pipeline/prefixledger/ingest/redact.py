"""A short picture of a bad record without a word of any prompt in it."""

from __future__ import annotations

import re
from typing import Final

MAX_EXCERPT: Final = 120
_LOOKED_AT = 600
_SHORT = "…"
_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*(?:"|\\?\Z))(?P<key>\s*:)?
    | (?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w]))
    | (?P<word>\w[\w.-]*)
    | (?P<mark>[][{}:,;|()=+-])
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})
_IDS = re.compile(r"(-?\d+(?:\.\d+)?, ?-?\d+(?:\.\d+)?), ?-?\d[-\d., ]*(?=[\]…]|$)")
_MAX_DIGITS = 24


def redact(raw: bytes, known: frozenset[str]) -> str:
    """Return the structure of a record: known field names and numbers; every other text becomes ``…``.

    Token ids spell text too, so a run of numbers is cut after the second.

    Args:
        raw: The record, or its beginning.
        known: Field names that may be shown.
    """
    text = raw[:_LOOKED_AT].decode("utf-8", "replace")
    out: list[str] = []
    for match in _TOKEN.finditer(text):
        piece = _shown(match, known)
        if piece == _SHORT and out and out[-1] == _SHORT:
            continue
        out.append(piece)
    line = _IDS.sub(rf"\1, {_SHORT}", "".join(out).strip())
    return line if len(line) <= MAX_EXCERPT else line[: MAX_EXCERPT - 1] + _SHORT


def _shown(match: re.Match[str], known: frozenset[str]) -> str:
    if match["string"] is not None:
        key = match["key"] or ""
        name = match["string"].strip('"')
        return f'"{name}"{key.strip()}' if key and name in known else f'"{_SHORT}"{key.strip()}'
    if match["number"] is not None:
        return match["number"] if len(match["number"]) <= _MAX_DIGITS else _SHORT
    if match["word"] is not None:
        return match["word"] if match["word"] in known or match["word"] in _WORDS else _SHORT
    if match["space"] is not None:
        return " "
    return match["mark"] or _SHORT
