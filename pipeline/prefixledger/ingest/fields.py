"""Typed access to the fields of one parsed record; a bad value ends in a reason that names the field."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.records import BadRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_TOKENS: Final = 100_000_000
"""More prompt or output tokens than this are a fault of the log: the longest context on sale has 10 million."""
MAX_U64: Final = (1 << 64) - 1
MAX_TEXT: Final = 1_000
"""Names longer than this are no names; they would be copied into every row."""
MAX_LABEL: Final = 64
"""A value longer than this splits nothing into groups."""

_SHOWN = 40
_MOST_DIGITS = 100
_TYPE_NAMES = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "number",
    list: "list",
    str: "text",
    type(None): "null",
}


def shown(value: Any) -> str:
    """Return a number as it is and anything else as the name of its type, so that no text leaks into a reason."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)[:_SHOWN]
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def integer(text: str) -> int | None:
    """Return the whole number that a text spells, or None; of thousands of digits Python makes none either."""
    text = text.strip()
    digits = text.removeprefix("-")
    return int(text) if len(digits) <= _MOST_DIGITS and digits.isdecimal() else None


def wrong_type(name: str, value: Any, wanted: str) -> BadRecordError:
    """Return the error for a value of the wrong type."""
    return BadRecordError(f"wrong type: {name} is {shown(value)}, not {wanted}")


def mapping(record: Any, name: str | None = None) -> dict[str, Any]:
    """Return the record, or its field ``name``, if it is an object.

    Raises:
        BadRecordError: It is not an object, or the field is missing.
    """
    value = required(record, name) if name is not None else record
    if not isinstance(value, dict):
        raise wrong_type(name or "the record", value, "an object")
    return value


def required(record: Mapping[str, Any], name: str) -> Any:
    """Return a field that must be there and not be null.

    Raises:
        BadRecordError: It is missing or null.
    """
    value = record.get(name)
    if value is None:
        raise BadRecordError(f"null field: {name}" if name in record else f"missing field: {name}")
    return value


def count(record: Mapping[str, Any], name: str, limit: int = MAX_TOKENS) -> int:
    """Return a required whole number from 0 to ``limit``.

    Raises:
        BadRecordError: It is missing, no whole number, negative or absurd.
    """
    return checked_count(required(record, name), name, limit)


def maybe_count(record: Mapping[str, Any], name: str, limit: int = MAX_TOKENS) -> int | None:
    """Return a whole number, or None where it is absent or null.

    Raises:
        BadRecordError: It is no whole number, negative or absurd.
    """
    value = record.get(name)
    return None if value is None else checked_count(value, name, limit)


def checked_count(value: Any, name: str, limit: int = MAX_TOKENS) -> int:
    """Check a number of tokens that is there.

    Raises:
        BadRecordError: It is no whole number, negative or absurd.
    """
    if type(value) is not int:
        if not isinstance(value, float) or not math.isfinite(value) or value != int(value):
            raise wrong_type(name, value, "a whole number")
        value = int(value)
    assert isinstance(value, int)
    if value < 0:
        raise BadRecordError(f"negative number: {name} is {shown(value)}")
    if value > limit:
        raise BadRecordError(f"absurd number: {name} is {shown(value)}")
    return value


def number(record: Mapping[str, Any], name: str) -> float | int:
    """Return a required finite number.

    Raises:
        BadRecordError: It is missing, no number, NaN or infinite.
    """
    return checked_number(required(record, name), name)


def maybe_number(record: Mapping[str, Any], name: str) -> float | int | None:
    """Return a finite number, or None where it is absent or null.

    Raises:
        BadRecordError: It is no number, NaN or infinite.
    """
    value = record.get(name)
    return None if value is None else checked_number(value, name)


def checked_number(value: Any, name: str) -> float | int:
    """Check a number that is there.

    Raises:
        BadRecordError: It is no number, NaN or infinite.
    """
    if type(value) is int:
        return value
    if not isinstance(value, float):
        raise wrong_type(name, value, "a number")
    if not math.isfinite(value):
        raise BadRecordError(f"not a finite number: {name}")
    return value


def maybe_text(record: Mapping[str, Any], name: str) -> str | None:
    """Return a name; numbers are taken as their digits, the empty text as absent.

    Raises:
        BadRecordError: It is neither text nor a whole number, or longer than ``MAX_TEXT``.
    """
    value = record.get(name)
    if value is None or value == "":
        return None
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")
    if len(value) > MAX_TEXT:
        raise BadRecordError(f"text too long: {name} has {len(value)} characters")
    return value


def why_no_ids(value: Sequence[Any], name: str) -> str:
    """Say which item kept a list from becoming an array of u64."""
    for item in value:
        if isinstance(item, float) and item.is_integer() and abs(item) > MAX_U64 // 2:
            return f"u64 out of range: {name} holds {shown(item)}"
        if type(item) is not int:
            return f"wrong type: {name} holds {shown(item)}"
        if not 0 <= item <= MAX_U64:
            return f"u64 out of range: {name} holds {shown(item)}"
    return f"wrong type: {name}"


def extras(record: Mapping[str, Any], used: frozenset[str]) -> dict[str, Any]:
    """Return the other scalar fields of an envelope: candidates for labels, so measured floats are left out."""
    return {
        name: value
        for name, value in record.items()
        if name not in used and isinstance(value, (str, int)) and len(str(value)) <= MAX_LABEL
    }
