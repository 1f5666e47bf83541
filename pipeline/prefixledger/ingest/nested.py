"""Values inside values: JSON written as text, maps of columnar files, dotted paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.fields import MAX_TEXT
from prefixledger.ingest.json_text import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

_BRACKETS: Final = frozenset("[{")
_PAIR: Final = 2


def decoded(value: Any) -> Any:
    """Return the JSON value that a text holds, or the value itself where it is no such text.

    A map of a columnar file, which arrives as a list of pairs, becomes an object.

    Example:
        >>> decoded('{"a": 1}'), decoded("[broken"), decoded([("a", 1)])
        ({'a': 1}, '[broken', {'a': 1})
    """
    if isinstance(value, str) and value.lstrip()[:1] in _BRACKETS:
        try:
            return loads(value)
        except orjson.JSONDecodeError:
            return value
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, tuple) and len(item) == _PAIR for item in value)
    ):
        return dict(value)
    return value


def inner(record: Mapping[str, Any], *steps: str) -> Any:
    """Return what lies at the end of a path of fields, JSON in text opened on the way; None where it breaks off."""
    value: Any = record
    for step in steps:
        value = decoded(value)
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return decoded(value)


def inner_mapping(record: Mapping[str, Any], *steps: str) -> dict[str, Any]:
    """Return the object at the end of a path; an empty one where there is none."""
    value = inner(record, *steps)
    return value if isinstance(value, dict) else {}


def short_text(record: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of some fields that holds a name: text or a whole number, at most 1,000 characters long."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and 0 < len(value) <= MAX_TEXT:
            return value
        if type(value) is int:
            return str(value)
    return None
