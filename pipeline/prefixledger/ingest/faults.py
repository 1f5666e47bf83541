"""A slow second look at a record that did not parse, to say why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.json_text import end_without_memory

if TYPE_CHECKING:
    import orjson

TRUNCATED: Final = "truncated last line"

_MAX_DIGITS = 400  # a double ends at 309 digits


class _ConstantError(Exception):
    pass


def _constant(name: str) -> Any:
    raise _ConstantError(name)


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _ConstantError("a number of more than 400 digits")
    return int(text)


def why_broken(raw: bytes, error: orjson.JSONDecodeError, *, cut: bool) -> str:
    """Say why ``orjson`` refused a record.

    Args:
        raw: The record.
        error: What it raised.
        cut: True where the record is the last of its input and has no line end.

    Returns:
        The reason for the reject; it names a position, never the text.

    Raises:
        MemoryError: The parser lacked memory: nothing is known of the record.
    """
    end_without_memory(error)
    if b"\0" in raw:
        return f"NUL byte: at byte {raw.index(0)}"
    try:
        text = raw.decode()
    except UnicodeDecodeError as bad:
        return TRUNCATED if cut and bad.end >= len(raw) else f"bad UTF-8: at byte {bad.start}"
    if "depth limit" in str(error):
        return "nested too deeply: more than 1,024 levels"
    return _why_by_json(text, cut=cut) or _why_by_message(error)


def _why_by_json(text: str, *, cut: bool) -> str | None:
    """Try the parser of the standard library, which takes NaN and numbers of any length."""
    try:
        json.loads(text, parse_constant=_constant, parse_int=_integer)
    except _ConstantError as constant:
        return f"not a finite number: {constant}"
    except RecursionError:
        return "nested too deeply: more than 1,000 levels"
    except ValueError:
        return TRUNCATED if cut else None
    return None


def _why_by_message(error: orjson.JSONDecodeError) -> str:
    if "infinity" in str(error):
        return f"not a finite number: too large at character {error.pos}"
    if "surrogate" in str(error):
        return f"broken JSON: half of a surrogate pair at character {error.pos}"
    return f"broken JSON: at character {error.pos}"
