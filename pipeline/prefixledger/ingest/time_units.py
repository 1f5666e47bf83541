"""The unit of times that are numbers, told for a whole input, and times of columnar files."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.times import clock_us

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((1e9, 4e9, "s"), (1e12, 4e12, "ms"), (1e15, 4e15, "us"), (1e18, 4e18, "ns"))
"""Sizes of times between 2001 and 2096 in each unit."""
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


def unit_of(value: Any) -> str | None:
    """Return the unit in which a number is a date, or None where it is none.

    Example:
        >>> unit_of(1_795_946_400), unit_of("1795946400100"), unit_of(61.1), unit_of("2026-11-29T10:00:00Z")
        ('s', 'ms', None, None)
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return next((unit for low, high, unit in _UNITS if low <= value < high), None)


def common_unit(values: Iterable[Any]) -> str | None:
    """Return the unit of the median of some times; None where most of them are no numbers that are dates."""
    numbers = [value if isinstance(value, (int, float)) else -1 for value in values]
    return unit_of(sorted(numbers)[len(numbers) // 2]) if numbers else None


def stamp_us(value: Any, name: str, unit: str | None = None) -> tuple[int, bool]:
    """Return microseconds since 1970, and whether the zone is known.

    Args:
        value: A number, a text, or a time of a columnar file.
        name: Its name.
        unit: Unit of numbers in this input; None goes by the size of each.

    Raises:
        BadRecordError: It is no time, or not between 1970 and 2100.
    """
    if isinstance(value, (datetime, date)):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
        known = moment.tzinfo is not None
        since = (moment if known else moment.replace(tzinfo=UTC)) - _EPOCH
        return clock_us(since // timedelta(microseconds=1), "us", name), known
    if unit is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
        return clock_us(value, unit, name), True
    return moment_us(value, name)
