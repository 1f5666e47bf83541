"""From the times that logs hold to integer microseconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import checked_number, shown, wrong_type
from prefixledger.ingest.records import BadRecordError

if TYPE_CHECKING:
    from datetime import tzinfo

UNIT_US: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
"""Microseconds in one unit; 0 stands for a division by 1,000."""
SECOND_US: Final = 1_000_000
FIRST_ABSOLUTE_US: Final = 978_307_200 * SECOND_US
"""2001-01-01: a clock that begins before it counts from a start of its own."""
LAST_ABSOLUTE_US: Final = 4_102_444_800 * SECOND_US
"""2100-01-01: later times are faults, mostly of the unit."""
MAX_SPAN_US: Final = 366 * 86_400 * SECOND_US
"""No request takes a year: two times of one record that are further apart have different units or zeros."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def scaled_us(value: Any, unit: str, name: str) -> int:
    """Turn a number of ``unit`` into microseconds, to the nearest one.

    Raises:
        BadRecordError: It is no finite number.
    """
    checked = checked_number(value, name)
    factor = UNIT_US[unit]
    if type(checked) is int:
        return checked * factor if factor else round(checked / 1_000)
    us = checked * factor if factor else checked / 1_000
    if not math.isfinite(us):
        raise BadRecordError(f"time out of range: {name} is {shown(value)} {unit}")
    return round(us)


def clock_us(value: Any, unit: str, name: str) -> int:
    """Turn a reading of a clock into microseconds; see ``scaled_us``.

    Raises:
        BadRecordError: It is no finite number, negative, or after 2100.
    """
    us = scaled_us(value, unit, name)
    if us < 0:
        raise BadRecordError(f"negative time: {name} is {shown(value)}")
    if us >= LAST_ABSOLUTE_US:
        raise BadRecordError(f"time out of range: {name} is {shown(value)} {unit}, after the year 2100")
    return us


def span_us(value: Any, unit: str, name: str) -> int:
    """Turn a duration into microseconds.

    Raises:
        BadRecordError: It is no finite number, negative, or longer than a year.
    """
    us = scaled_us(value, unit, name)
    if us < 0:
        raise BadRecordError(f"negative duration: {name} is {shown(value)}")
    if us > MAX_SPAN_US:
        raise BadRecordError(f"absurd duration: {name} is {shown(value)} {unit}")
    return us


def iso_us(value: Any, name: str, zone: tzinfo | None = None) -> tuple[int, bool]:
    """Read an ISO 8601 time; a seventh digit of the second is cut off.

    Args:
        value: The field.
        name: Its name.
        zone: Zone of a time that names none; None reads it as UTC.

    Returns:
        Microseconds since 1970, and whether the text named its zone.

    Raises:
        BadRecordError: It is no text, no time, or not between 1970 and 2100.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "a time as text")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise BadRecordError(f"unreadable time: {name}") from None
    known = moment.tzinfo is not None
    aware = moment if known else moment.replace(tzinfo=zone or UTC)
    try:
        us = (aware - _EPOCH) // _US
    except OverflowError:
        raise BadRecordError(f"unreadable time: {name}") from None
    if not 0 <= us < LAST_ABSOLUTE_US:
        raise BadRecordError(f"time out of range: {name} is in the year {moment.year}")
    return us, known


def check_order(earlier_us: int, later_us: int | None, name: str) -> None:
    """Refuse a later time of a record that lies before its start, or a year after it.

    Raises:
        BadRecordError: The two cannot be of one clock.
    """
    if later_us is None:
        return
    if abs(later_us - earlier_us) > MAX_SPAN_US:
        raise BadRecordError(f"mixed time units: {name} is a year or more away from the start")
    if later_us < earlier_us:
        raise BadRecordError(f"negative duration: {name} lies before the start")
