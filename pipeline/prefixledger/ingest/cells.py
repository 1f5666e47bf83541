"""Turns the cells of mapped logs, which may be text, into numbers, lists and images."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.fields import checked_count, checked_number, shown, wrong_type
from prefixledger.ingest.json_text import loads
from prefixledger.ingest.records import BadRecordError, Image, TextPart
from prefixledger.ingest.times import LAST_ABSOLUTE_US, clock_us, iso_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.plan import FieldPlan

NULLS: Final = frozenset({"", "null", "NULL", "Null", "None", "NA", "N/A", "\\N", "nil"})
"""Cells that stand for no value."""
_TRUE: Final = frozenset({"true", "True", "TRUE", "1", "yes"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "0", "no"})
_SEPARATORS = re.compile(r"[|,;\s]+")
_MASK_U64: Final = (1 << 64) - 1
KINDS: Final = ("tools", "system", "message")
MAX_ROLE: Final = 64
_SHOWN: Final = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def find(record: Mapping[str, Any], plan: FieldPlan) -> tuple[bool, Any]:
    """Return whether a field is there, and its value; a null cell is there and None.

    The name as a whole wins over the same name read as a path into nested objects.
    """
    if plan.source in record:
        value = record[plan.source]
    elif not plan.steps:
        return False, None
    else:
        value = record
        for step in plan.steps:
            if not isinstance(value, dict) or step not in value:
                return False, None
            value = value[step]
    return True, None if isinstance(value, str) and value.strip() in NULLS else value


def cell_number(value: Any, name: str) -> float | int:
    """Return a number, also where it is written as text.

    Raises:
        BadRecordError: It is no finite number.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = int(text) if text.lstrip("+-").isdecimal() else float(text)
        except ValueError:
            raise wrong_type(name, value, "a number") from None
    elif isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    return checked_number(value, name)


def cell_count(value: Any, name: str) -> int:
    """Return a number of tokens, also where it is written as text.

    Raises:
        BadRecordError: It is no whole number, negative or absurd.
    """
    return checked_count(cell_number(value, name), name)


def cell_time_us(value: Any, plan: FieldPlan, name: str) -> tuple[int, bool]:
    """Return microseconds and whether the zone is known.

    Raises:
        BadRecordError: It cannot be read in the unit that the map states.
    """
    if isinstance(value, (datetime, date)):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
        known = moment.tzinfo is not None
        us = (moment if known else moment.replace(tzinfo=plan.zone or UTC)) - _EPOCH
        return clock_us(us // timedelta(microseconds=1), "us", name), known or plan.zone is not None
    if plan.unit == "iso":
        us_since, known = iso_us(value, name, plan.zone)
        return us_since, known or plan.zone is not None
    read = cell_number(value, name)
    if read * {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}[plan.unit] >= LAST_ABSOLUTE_US:
        raise BadRecordError(f"time out of range: {name} is {shown(read)} {plan.unit}, after the year 2100")
    return clock_us(read, plan.unit, name), True


def cell_text(value: Any, name: str, limit: int) -> str:
    """Return a name; numbers and booleans as they are written.

    Raises:
        BadRecordError: It is a list or an object, or too long.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")
    if len(value) > limit:
        raise BadRecordError(f"text too long: {name} has {len(value)} characters")
    return value


def cell_bool(value: Any, name: str) -> bool:
    """Return a truth value.

    Raises:
        BadRecordError: It is none.
    """
    text = str(value).strip()
    if text not in _TRUE | _FALSE:
        raise wrong_type(name, value, "true or false")
    return text in _TRUE


def cell_ids(value: Any, name: str, *, signed: bool = False) -> list[int]:
    """Return a list of ids: a list, or text such as ``[1, 2]``, ``1 2`` or ``1|2``.

    Args:
        value: The cell.
        name: Its name.
        signed: True where u64 may have been stored as negative i64, as Spark does; the bits are taken.

    Raises:
        BadRecordError: It is no list of whole numbers.
    """
    if isinstance(value, str):
        value = _list_in_text(value, name)
    if not isinstance(value, list):
        raise wrong_type(name, value, "a list of numbers")
    if signed and any(type(item) is int and item < 0 for item in value):
        return [item & _MASK_U64 if type(item) is int else item for item in value]
    return value


def cell_images(value: Any, name: str) -> tuple[Image, ...]:
    """Return images given as objects with ``hash``, ``offset`` and ``length`` (in tokens).

    Raises:
        BadRecordError: They are not given so.
    """
    if isinstance(value, str):
        try:
            value = loads(value)
        except orjson.JSONDecodeError:
            raise BadRecordError(f"broken JSON: {name}") from None
    if not isinstance(value, list):
        raise wrong_type(name, value, "a list of objects")
    images = []
    for item in value:
        if not isinstance(item, dict) or not {"hash", "offset", "length"} <= item.keys():
            raise wrong_type(name, item, "an object with hash, offset and length")
        key = cell_text(item["hash"], f"{name}.hash", 1_000)
        images.append(Image(key, cell_count(item["offset"], name), cell_count(item["length"], name)))
    return tuple(images)


def cell_parts(value: Any, name: str, prompt_tokens: int | None) -> tuple[TextPart, ...]:
    """Return what a prompt is made of, given as objects with ``tokens`` and ``text``, or ``digest`` in its place.

    Args:
        value: The cell; ``kind`` (message where left out), ``role``, ``canonical`` (a digest) and ``breakpoint`` (a cache
            mark behind it, such as ``ephemeral/1h``) of each are optional.
        name: Its name.
        prompt_tokens: Length of the prompt.

    Raises:
        BadRecordError: They are not given so, or are longer than the prompt.
    """
    if isinstance(value, str):
        try:
            value = loads(value)
        except orjson.JSONDecodeError:
            raise BadRecordError(f"broken JSON: {name}") from None
    if not isinstance(value, list):
        raise wrong_type(name, value, "a list of objects")
    parts = tuple(_part(item, name) for item in value)
    total = sum(part.n_tokens or 0 for part in parts)
    if prompt_tokens is not None and total > prompt_tokens:
        raise BadRecordError(f"token count: {name} has {total} tokens, but the prompt {prompt_tokens}")
    return parts


def _part(item: Any, name: str) -> TextPart:
    if not isinstance(item, dict) or "tokens" not in item or ("text" in item) == ("digest" in item):
        raise wrong_type(name, item, "an object with tokens, and text or digest")
    kind = item.get("kind", "message")
    if kind not in KINDS:
        raise BadRecordError(f"unknown value: {name}.kind is {str(kind)[:_SHOWN]!r}")
    text = item.get("text", item.get("digest"))
    role, canonical, mark = (item.get(field) for field in ("role", "canonical", "breakpoint"))
    return TextPart(
        kind,
        None if role is None else cell_text(role, f"{name}.role", MAX_ROLE),
        cell_text(text, f"{name}.text", len(str(text))).encode("utf-8", "surrogatepass"),
        None if canonical is None else str(canonical).encode("utf-8", "surrogatepass"),
        None if mark is None else cell_text(mark, f"{name}.breakpoint", MAX_ROLE),
        n_tokens=cell_count(item["tokens"], name),
        fingerprint="digest" in item,
    )


def _list_in_text(text: str, name: str) -> list[Any]:
    stripped = text.strip()
    try:
        if stripped.startswith("[") and "," in stripped:
            return list(loads(stripped))
        return [int(item) for item in _SEPARATORS.split(stripped.strip("[]()").strip()) if item]
    except (ValueError, TypeError):
        raise wrong_type(name, text, "a list of numbers") from None
