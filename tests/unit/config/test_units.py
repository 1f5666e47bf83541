"""Durations, capacities and times are read exactly and refused clearly."""

from __future__ import annotations

from datetime import timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.config.units import (
    Capacity,
    format_duration,
    month_us,
    parse_capacity,
    parse_duration_us,
    parse_time_us,
    us_datetime,
)
from prefixledger.errors import UsageError


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("90s", 90_000_000),
        ("5m", 300_000_000),
        ("1h", 3_600_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        ("2d", 172_800_000_000),
        ("250ms", 250_000),
        ("1.5s", 1_500_000),
        ("7us", 7),
        ("0", 0),
        ("0s", 0),
        ("none", None),
    ],
)
def test_durations_are_microseconds(text: str, us: int | None) -> None:
    """Every unit counts as what it says, sums are added, ``none`` is for ever."""
    assert parse_duration_us(text) == us


@pytest.mark.parametrize("text", ["", "5", "5x", "m", "5m!", "-5m", "1h-2m", "0.1us", "never"])
def test_a_bad_duration_is_refused(text: str) -> None:
    """A bare number has no unit, and nothing after a duration is ignored."""
    with pytest.raises(UsageError, match="not a duration"):
        parse_duration_us(text)


@given(st.integers(0, 10**16))
def test_a_duration_survives_writing_and_reading(us: int) -> None:
    """``format_duration`` loses nothing."""
    assert parse_duration_us(format_duration(us)) == us


@pytest.mark.parametrize(
    ("text", "capacity"),
    [
        ("60000 blocks", Capacity(60_000, "blocks")),
        ("60_000 blocks", Capacity(60_000, "blocks")),
        ("1,000,000 tokens", Capacity(1_000_000, "tokens")),
        ("1 block", Capacity(1, "blocks")),
        ("60GiB", Capacity(60 * 2**30, "bytes")),
        ("60 GB", Capacity(60 * 10**9, "bytes")),
        ("1.5GiB", Capacity(3 * 2**29, "bytes")),
        ("60GiB per gpu", Capacity(60 * 2**30, "bytes", per_gpu=True)),
        ("unlimited", Capacity(None)),
    ],
)
def test_capacities_keep_their_unit(text: str, capacity: Capacity) -> None:
    """Blocks, tokens and bytes stay apart until a block size is known."""
    assert parse_capacity(text) == capacity


@pytest.mark.parametrize(
    "text", ["", "60000", "60 gib", "-1 blocks", "1.5 blocks", "6 blocks per gpu", "lots"]
)
def test_a_bad_capacity_is_refused(text: str) -> None:
    """A number without unit, half a block and a misspelt unit are not guessed at."""
    with pytest.raises(UsageError, match="not a capacity"):
        parse_capacity(text)


def test_from_log_is_no_number_and_not_unlimited() -> None:
    """The number comes from the log when a replay begins; until then it is neither known nor without limit."""
    assert parse_capacity("from-log") == Capacity(None, "from-log")
    assert parse_capacity("from-log") != parse_capacity("unlimited")


def test_times_are_utc_unless_they_say_otherwise() -> None:
    """Z, an offset, no zone, a zone of the caller, a date and an offset from zero."""
    ten = 1_795_514_400_000_000
    assert us_datetime(ten).isoformat() == "2026-11-24T10:00:00+00:00"
    assert parse_time_us("2026-11-24T10:00:00Z") == ten
    assert parse_time_us("2026-11-24T12:00:00+02:00") == ten
    assert parse_time_us("2026-11-24 10:00") == ten
    assert parse_time_us("2026-11-24 12:00", timezone(timedelta(hours=2))) == ten
    assert parse_time_us("2026-11-24") == ten - 10 * 3_600_000_000
    assert parse_time_us("+90s") == 90_000_000


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "+none", "+", "1764000000"])
def test_a_bad_time_is_refused(text: str) -> None:
    """A bare number is no time: it does not say its unit."""
    with pytest.raises(UsageError):
        parse_time_us(text)


def test_a_month_is_as_long_as_its_calendar_says() -> None:
    """November in New York begins in summer time and has an hour more than its 30 days."""
    first, end = month_us("2026-11", ZoneInfo("America/New_York"))
    assert us_datetime(first).isoformat() == "2026-11-01T04:00:00+00:00"
    assert (end - first) // 3_600_000_000 == 30 * 24 + 1
    assert month_us("2026-12")[1] == month_us("2027-01")[0]
    with pytest.raises(UsageError, match="not a month"):
        month_us("2026-13")
