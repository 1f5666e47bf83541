"""Numbers, times and names as the report prints them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.report import numbers
from prefixledger.report.view import Window

NOON_US = int(dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "n/a"),
        (0.0, "0.0 %"),
        (0.0004, "< 0.1 %"),
        (0.6123, "61.2 %"),
        (0.9996, "> 99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_percent_never_rounds_to_none_or_all(share: float | None, text: str) -> None:
    """What is not 0 or 100 % does not print as it, and no value is not 0."""
    assert numbers.percent(share) == text


@given(st.floats(0, 1))
def test_percent_is_honest_at_both_ends(share: float) -> None:
    """Only a true zero prints as 0.0 % and only a true one as 100.0 %."""
    assert (numbers.percent(share) == "0.0 %") == (share == 0)
    assert (numbers.percent(share) == "100.0 %") == (share == 1)


def test_whole_has_thousands_separators_and_a_true_minus() -> None:
    """Counts are grouped by three."""
    assert numbers.whole(1_234_567) == "1,234,567"
    assert numbers.whole(-1_000) == "\N{MINUS SIGN}1,000"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "0"),
        (999_999, "999,999"),
        (1_000_000, "1 million"),
        (143_200_000, "143 million"),
        (2.5e12, "2.5 trillion"),
    ],
)
def test_amount_fits_a_sentence(tokens: float, text: str) -> None:
    """Large counts get a word."""
    assert numbers.amount(tokens) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.00 k"),
        (117_000, "117 k"),
        (9_364_692, "9.36 M"),
        (999_950, "1.00 M"),
    ],
)
def test_compact_keeps_three_digits(value: float, text: str) -> None:
    """Crowded tables get three significant digits and a letter."""
    assert numbers.compact(value) == text


def test_money_names_its_currency() -> None:
    """Small amounts keep three digits; tokens as a currency are spelt out."""
    assert numbers.money(Decimal("1234.5"), "USD") == "$1,234.50"
    assert numbers.money(Decimal("0.00123"), "USD") == "$0.00123"
    assert numbers.money(Decimal(-2), "CHF") == "\N{MINUS SIGN}CHF 2.00"
    assert numbers.money(Decimal(3_000_000), "prefill tokens") == "3 million prefill tokens"
    assert numbers.money(None, "USD") == "n/a"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (5, "5 s"), (300, "5 min"), (4_800, "1 h 20 min"), (90_061, "1 d 1 h"), (None, "n/a")],
)
def test_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    """Lengths of time are rounded to what a reader needs."""
    assert numbers.duration(seconds) == text


def test_moments_are_in_the_zone_of_the_report() -> None:
    """The same moment reads differently in Berlin and as an offset."""
    assert numbers.moment(NOON_US, Window(0, 1)) == "Wed 25 Nov 12:00"
    assert numbers.moment(NOON_US, Window(0, 1, "Europe/Berlin")) == "Wed 25 Nov 13:00"
    assert numbers.moment(90_061_000_000, Window(0, 1, relative=True), seconds=True) == "+1 d 01:01:01"


def test_an_evening_belongs_to_the_day_of_the_zone() -> None:
    """21:30 in Los Angeles is no moment of the next day, in winter time or in summer time."""

    def _us(month: int, day: int, hour: int) -> int:
        return int(dt.datetime(2026, month, day, hour, 30, tzinfo=dt.UTC).timestamp()) * 1_000_000

    zone = Window(0, 1, "America/Los_Angeles")
    assert numbers.moment(_us(11, 13, 5), zone) == "Thu 12 Nov 21:30"
    assert numbers.moment(_us(7, 13, 4), zone) == "Sun 12 Jul 21:30"


def test_span_says_the_day_once() -> None:
    """Both ends on one day need one date."""
    hour = 3_600_000_000
    assert numbers.span(NOON_US, NOON_US + hour, Window(0, 1)) == "on Wed 25 Nov from 12:00 to 13:00"
    assert (
        numbers.span(NOON_US, NOON_US + 24 * hour, Window(0, 1))
        == "from Wed 25 Nov 12:00 to Thu 26 Nov 12:00"
    )


def test_iso_is_utc_to_the_microsecond() -> None:
    """Machines get UTC; whole seconds stay short."""
    assert numbers.iso(NOON_US) == "2026-11-25T12:00:00Z"
    assert numbers.iso(NOON_US + 1) == "2026-11-25T12:00:00.000001Z"
    assert numbers.iso(None) is None


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (1 / 3, 0.333333),
        (float("nan"), None),
        (float("inf"), None),
        (None, None),
        (Decimal("12345678.9"), 12345700),
    ],
)
def test_significant_has_six_digits_and_no_nan(value: float | Decimal | None, rounded: float | None) -> None:
    """The twin never holds what JSON cannot."""
    assert numbers.significant(value) == rounded


@given(st.text(max_size=300))
def test_clean_leaves_no_mark_that_could_disturb(text: str) -> None:
    """No control, direction or unassigned character survives, and the limit holds."""
    cleaned = numbers.clean(text, 40)
    assert len(cleaned) <= 40
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202a\u202e\u2066\u200f" for c in cleaned)


def test_located_does_not_repeat_the_field() -> None:
    """A value that names its field needs no field in front."""
    assert numbers.located("tenant", "tenant-7") == "at tenant-7"
    assert numbers.located("service_tier", "batch") == "at service tier batch"
