"""Gives a year to the times of logs that write none, such as ``11-29 10:00:00``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOMINAL_YEAR: Final = 1972
"""Times without a year are read into this leap year, in which every date exists, until the whole log is known."""
_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US
_FEBRUARY_29: Final = 59
"""0-based day of a leap year."""
_MOST_YEARS_BACK: Final = 10
"""A 29 February is at most eight years back, across a century without a leap year."""
_SLACK_US: Final = _DAY_US
"""A file is as old as its last line, give or take a time zone."""


def year_shifts(
    nominal_us: NDArray[np.int64], *, file_us: int | None, first_year: int | None
) -> NDArray[np.int64]:
    """Return what to add to times of the nominal year so that they lie in their own.

    A step of more than half a year backwards is New Year; the same forwards is a line that was written late. The last
    time lies in the latest year that is not after the file itself, unless the first year is given.

    Args:
        nominal_us: int64[n], times within ``NOMINAL_YEAR`` in order of the log.
        file_us: When the file was last written to, microseconds since 1970.
        first_year: Year of the first time; stronger than ``file_us``.

    Raises:
        ValueError: Neither is given.

    Example:
        >>> december, january = 365 * 86_400_000_000, 86_400_000_000
        >>> start = int(datetime(NOMINAL_YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
        >>> shifts = year_shifts(np.array([start + december, start + january]), file_us=None, first_year=2026)
        >>> [datetime.fromtimestamp(us / 1e6, UTC).year for us in np.array([start + december, start + january]) + shifts]
        [2026, 2027]
    """
    if nominal_us.size == 0:
        return nominal_us
    in_year = nominal_us - _new_year_us(NOMINAL_YEAR)
    half = 183 * _DAY_US
    steps = np.diff(in_year)
    turns = np.concatenate([[0], np.cumsum((steps < -half).astype(np.int64) - (steps > half))])
    if first_year is None:
        if file_us is None:
            raise ValueError("neither the time of the file nor a year is known")
        first_year = _latest_first_year(in_year, turns, file_us)
    return _own_times(in_year, first_year + turns) - nominal_us


def _latest_first_year(in_year: NDArray[np.int64], turns: NDArray[np.int64], file_us: int) -> int:
    latest = int(np.argmax(turns * 366 * _DAY_US + in_year))
    year = datetime.fromtimestamp(file_us / 1e6, UTC).year + 1
    for _ in range(_MOST_YEARS_BACK):
        exists = all(
            _is_leap(year + int(turn)) for turn in np.unique(turns[in_year // _DAY_US == _FEBRUARY_29])
        )
        ends = int(_own_times(in_year[latest : latest + 1], year + turns[latest : latest + 1])[0])
        if exists and ends <= file_us + _SLACK_US:
            break
        year -= 1
    return year


def _own_times(in_year: NDArray[np.int64], years: NDArray[np.int64]) -> NDArray[np.int64]:
    known = {int(year): (_new_year_us(int(year)), _is_leap(int(year))) for year in np.unique(years)}
    begin = np.array([known[year][0] for year in years.tolist()], np.int64)
    leap = np.array([known[year][1] for year in years.tolist()], np.bool_)
    late = ~leap & (in_year // _DAY_US > _FEBRUARY_29)
    return begin + in_year - np.where(late, _DAY_US, 0)


def _new_year_us(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * _SECOND_US


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
