"""Reads a time whatever its spelling: unix seconds to nanoseconds, .NET ticks, ISO 8601, the dates of HTTP headers."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any, Final

from prefixledger.ingest.fields import checked_number, integer, shown, wrong_type
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.times import iso_us

_NUMBER_UNITS: Final = (
    (1e9, 4e9, 1_000_000, 1),
    (1e12, 4e12, 1_000, 1),
    (1e15, 4e15, 1, 1),
    (1e18, 4e18, 1, 1_000),
)
"""From, to, factor and divisor: no two units of a date in our time share a magnitude."""
_TICKS_FROM, _TICKS_TO = 6.2e17, 6.6e17
_TICKS_IN_US: Final = 10
_UNIX_IN_TICKS_US: Final = 62_135_596_800 * 1_000_000
"""Microseconds from the year 1, where ticks begin, to 1970."""
_BIGQUERY_ZONE: Final = " UTC"


def moment_us(value: Any, name: str) -> tuple[int, bool]:
    """Read an absolute time.

    Args:
        value: Number or text.
        name: Its field.

    Returns:
        Microseconds since 1970, and whether its zone is known.

    Raises:
        BadRecordError: It is no time that can be told from its magnitude or spelling.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.replace(".", "", 1).isdecimal():
            number = float(text) if "." in text else integer(text)
            if number is None:
                raise BadRecordError(f"time out of range: {name} has {len(text)} digits")
            return _number_us(number, name), True
        if text[:3].isalpha():
            return _http_us(text, name), True
        return iso_us(text.removesuffix(_BIGQUERY_ZONE) + "Z" * text.endswith(_BIGQUERY_ZONE), name)
    if isinstance(value, bool):
        raise wrong_type(name, value, "a time")
    return _number_us(checked_number(value, name), name), True


def _number_us(value: float, name: str) -> int:
    if _TICKS_FROM <= value < _TICKS_TO:
        return int(value) // _TICKS_IN_US - _UNIX_IN_TICKS_US
    for low, high, factor, divisor in _NUMBER_UNITS:
        if low <= value < high:
            return (
                int(value) // divisor
                if type(value) is int and divisor > 1
                else round(value * factor / divisor)
            )
    raise BadRecordError(f"time out of range: {name} is {shown(value)}, in no unit a date of our time")


def _http_us(text: str, name: str) -> int:
    try:
        return round(parsedate_to_datetime(text).timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        raise BadRecordError(f"unreadable time: {name}") from None
