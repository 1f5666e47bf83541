"""Which part of a log a report is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import Facts
from ingest_support import ingest, mooncake, write_lines
from prefixledger.attribute.window import Window, bucket_us, choose_window, default_window
from prefixledger.config.units import datetime_us
from prefixledger.errors import UsageError
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

SECOND_US = 1_000_000
USAGE_MAP = """
format = "jsonl"
[columns]
started_at = { from = "at", unit = "iso" }
prompt_tokens = "n"
cached_tokens_observed = "read"
status = "s"
"""


def _us(text: str) -> int:
    return datetime_us(datetime.fromisoformat(text).replace(tzinfo=UTC))


def test_the_last_whole_iso_week() -> None:
    """From Monday to Monday, wholly between the first and the last request."""
    window = choose_window(_us("2026-11-10T08:00"), _us("2026-11-25T12:00"))
    assert (window.from_us, window.to_us) == (_us("2026-11-16"), _us("2026-11-23"))
    assert window.why == "last whole ISO week"


def test_a_week_begins_at_midnight_of_the_zone() -> None:
    """In Berlin a week of November begins at 23:00 UTC, and the week of a clock change has 169 hours."""
    window = choose_window(_us("2026-11-01T00:00"), _us("2026-11-25T12:00"), zone="Europe/Berlin")
    assert (window.from_us, window.to_us) == (_us("2026-11-15T23:00"), _us("2026-11-22T23:00"))
    autumn = choose_window(_us("2026-10-01T00:00"), _us("2026-10-26T12:00"), zone="Europe/Berlin")
    assert autumn.to_us - autumn.from_us == timedelta(hours=169) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2026-11-16T00:00:01", "2026-11-25T12:00"),  # began after the only Monday midnight of a whole week
        ("2026-11-16T00:00", "2026-11-22T23:59:59"),  # ended before the week did
        ("2026-11-18T00:00", "2026-11-19T00:00"),
    ],
)
def test_a_log_without_a_whole_week_is_taken_whole(first: str, last: str) -> None:
    """Where no week lies wholly inside, the window is the log, its last request included."""
    window = choose_window(_us(first), _us(last))
    assert window == Window(_us(first), _us(last) + 1, why="whole log")


def test_a_week_may_begin_with_the_first_and_end_with_the_last_request() -> None:
    """Requests at both midnights are enough."""
    window = choose_window(_us("2026-11-16"), _us("2026-11-23"))
    assert (window.from_us, window.to_us) == (_us("2026-11-16"), _us("2026-11-23"))


def test_a_relative_clock_has_no_weeks() -> None:
    """Offsets from the start are taken whole, however long the log is."""
    window = choose_window(0, 30 * 86_400 * SECOND_US, relative=True)
    assert (window.from_us, window.to_us, window.why) == (0, 30 * 86_400 * SECOND_US + 1, "whole log")


def test_what_was_asked_for() -> None:
    """A given side is kept, the other is that of the log."""
    first, last = _us("2026-11-10"), _us("2026-11-25")
    from_us, to_us = _us("2026-11-12"), _us("2026-11-13")
    assert choose_window(first, last, from_us=from_us) == Window(from_us, last + 1, why="as asked")
    assert choose_window(first, last, to_us=to_us) == Window(first, to_us, why="as asked")
    assert choose_window(first, last, from_us=from_us, to_us=to_us) == Window(from_us, to_us, why="as asked")


def test_a_window_that_ends_before_it_begins() -> None:
    """The error says where the log lies."""
    with pytest.raises(UsageError, match="before it begins") as caught:
        choose_window(0, 10, from_us=5, to_us=5)
    assert "1970-01-01" in (caught.value.hint or "")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc"])
def test_a_zone_that_does_not_exist(zone: str) -> None:
    """An unknown zone is an error, never UTC."""
    with pytest.raises(UsageError, match="no time zone"):
        choose_window(0, 10, zone=zone)


@given(length_us=st.integers(0, 20 * 366 * 86_400 * SECOND_US))
def test_at_most_200_buckets(length_us: int) -> None:
    """The timeline has at most 200 slices, and at least 40 where one is longer than a second."""
    width = bucket_us(Window(0, length_us))
    count = -(-length_us // width)
    assert count <= 200
    assert width == SECOND_US or count >= 40


@pytest.mark.parametrize(("length_s", "width_s"), [(3_600, 30), (86_400, 600), (7 * 86_400, 3_600)])
def test_round_buckets(length_s: int, width_s: int) -> None:
    """An hour is cut into half minutes, a day into 10 minutes, a week into hours."""
    assert bucket_us(Window(0, length_s * SECOND_US)) == width_s * SECOND_US


def test_window_of_a_workspace(tmp_path: Path) -> None:
    """The manifest says where the log begins and ends."""
    log = Facts()
    log.lookup(3, 10)
    log.lookup(8, 10)
    assert default_window(log.write(tmp_path)) == Window(3 * SECOND_US, 8 * SECOND_US + 1, why="whole log")


def test_a_week_without_lookups_is_passed_over() -> None:
    """The last whole week with lookups counts; where none has any, or it is not whole, the whole log."""
    first, last = _us("2026-10-20T08:00"), _us("2026-11-25T12:00")
    window = choose_window(first, last, latest_before=lambda _before: _us("2026-11-03T10:00"))
    assert (window.from_us, window.to_us) == (_us("2026-11-02"), _us("2026-11-09"))
    assert window.why == "last whole ISO week with lookups"
    for latest in (None, _us("2026-10-21")):
        window = choose_window(first, last, latest_before=lambda _before, at=latest: at)
        assert window == Window(first, last + 1, why="whole log")


def test_two_bursts_years_apart_give_no_empty_report(tmp_path: Path) -> None:
    """The default window asks the rows themselves: the week before the last one holds none."""
    days = ("2024-06-03T12:00", "2024-06-12T12:00", "2024-06-16T23:59", "2026-11-25T12:00")
    rows = [mooncake(_us(at) / 1_000, [1]) for at in days]
    ingest(tmp_path / "ws", write_lines(tmp_path / "x_blksz_16.jsonl", rows))
    window = default_window(Workspace(tmp_path / "ws"))
    assert (window.from_us, window.to_us) == (_us("2024-06-10"), _us("2024-06-17"))


def test_failed_calls_make_no_week(tmp_path: Path) -> None:
    """A week of failed calls alone would give an empty report too."""
    rows = [
        {"at": at, "n": 9, "read": 4, "s": status}
        for at, status in (
            ("2026-11-01T12:00Z", 200), ("2026-11-12T12:00Z", 200), ("2026-11-19T12:00Z", 500), ("2026-11-25T12:00Z", 200),
        )
    ]  # fmt: skip
    columns = tmp_path / "map.toml"
    columns.write_text(USAGE_MAP, encoding="utf-8")
    ingest(tmp_path / "ws", write_lines(tmp_path / "x.jsonl", rows), map_file=columns)
    window = default_window(Workspace(tmp_path / "ws"))
    assert (window.from_us, window.to_us) == (_us("2026-11-09"), _us("2026-11-16"))
