"""The index over kept reports: made of their twins alone, again at any time, and honest about late data."""

from __future__ import annotations

import copy
import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest

import report_data
from prefixledger import api
from prefixledger.errors import UsageError
from prefixledger.report.calendar import Kept, calendar
from prefixledger.report.twin import twin

if TYPE_CHECKING:
    from pathlib import Path

WEEK = json.loads(json.dumps(twin(report_data.week())))


def later(weeks: int, *, requests: int | None = None, rate: float | None = None) -> dict[str, Any]:
    """Return the week so many weeks later."""
    found = copy.deepcopy(WEEK)
    shift = dt.timedelta(weeks=weeks)

    def moved(at: str) -> str:
        return (dt.datetime.fromisoformat(at) + shift).isoformat().replace("+00:00", "Z")

    for end in ("from", "to"):
        found["window"][end] = moved(found["window"][end])
    for one in found["timeline"]["slices"]:
        one["at"] = moved(one["at"])
    if requests is not None:
        found["totals"]["requests"] = requests
    if rate is not None:
        found["totals"]["token_hit_rate"] = rate
    return found


def test_weeks_in_order_with_their_changes() -> None:
    """Each day leads to its report; a gap between two weeks is no day."""
    found = calendar((Kept("c.html", later(2, rate=0.5)), Kept("a.html", WEEK)), {})
    assert [line.link for line in found.lines] == ["a.html", "c.html"]
    assert found.lines[0].change == ""
    assert found.lines[1].better is False
    assert [week for week, _ in found.weeks] == ["2026-W48", "2026-W50"]
    days = [day for _, row in found.weeks for day in row]
    assert all(days)
    assert {day.link for day in days[:7] if day} == {"a.html"}
    asked = sum(day.prompt_tokens for day in days[:7] if day)
    assert asked == WEEK["totals"]["prompt_tokens"]


def test_clocks_without_dates_are_in_the_list_only() -> None:
    """Offsets from the start of a log are no days."""
    relative = copy.deepcopy(WEEK)
    relative["window"]["relative"] = True
    found = calendar((Kept("a.html", relative),), {})
    assert found.weeks == ()
    assert len(found.lines) == 1


def keep(folder: Path, name: str, values: dict[str, Any]) -> None:
    """Put a report into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / f"{name}.html").write_text("page", encoding="utf-8")


def test_the_index_is_made_again_and_late_data_opens_a_week(tmp_path: Path) -> None:
    """The same reports give the same bytes; one with more lookups than before says so, also the time after."""
    folder, page = tmp_path / "reports", tmp_path / "index.html"
    keep(folder, "w48", WEEK)
    keep(folder, "w49: late", later(1))
    (folder / "notes.json").write_text('{"mine": 1}', encoding="utf-8")
    keep(folder, "alone", later(3))
    (folder / "alone.html").unlink()
    first = api.index([folder], output=page)
    before = page.read_bytes()
    assert [line.link for line in first.calendar.lines] == ["reports/w48.html", "reports/w49%3A%20late.html"]
    api.index([folder], output=page)
    assert page.read_bytes() == before
    asked = WEEK["totals"]["requests"]
    keep(folder, "w48", later(0, requests=asked + 5))
    for _ in range(2):
        line = api.index([folder], output=page).calendar.lines[0]
        assert line.reopened == f"opened again: {asked + 5:,} lookups, {asked:,} when it was listed first"
    text = page.read_text(encoding="utf-8")
    assert "opened again" in text
    assert "<script" not in text


def test_no_report_and_files_of_others(tmp_path: Path) -> None:
    """Both are said before anything is written."""
    with pytest.raises(UsageError, match="no report"):
        api.index([tmp_path], output=tmp_path / "index.html")
    keep(tmp_path / "reports", "a", WEEK)
    (tmp_path / "index.json").write_text('{"mine": 1}', encoding="utf-8")
    with pytest.raises(UsageError, match="not written by prefixledger"):
        api.index([tmp_path / "reports"], output=tmp_path / "index.html")
    assert not (tmp_path / "index.html").exists()
