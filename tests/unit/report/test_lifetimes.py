"""A lifetime shows as a step between gaps, and one that was shortened as a finding, from logs with usage alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import report_data
from prefixledger import api
from prefixledger.report.findings import derive

if TYPE_CHECKING:
    from pathlib import Path

_START = datetime(2026, 11, 23, 9, tzinfo=UTC)


def _call(at: datetime, *, read: int, short: int = 0, long: int = 0, session: str) -> str:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": short + long,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": 5,
    }
    answer = {
        "id": f"msg_{at.timestamp():.0f}",
        "type": "message",
        "model": "claude-sonnet-4-5",
        "usage": usage,
    }
    return json.dumps(
        {
            "ts": at.isoformat(),
            "session_id": session,
            "request": {"model": "claude-sonnet-4-5"},
            "response": answer,
        }
    )


def _twin(tmp_path: Path, calls: list[str], **options: Any) -> dict[str, Any]:
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(calls))
    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws", **options)
    twin: dict[str, Any] = json.loads((tmp_path / "r.json").read_text())
    return twin


@pytest.mark.parametrize("shortened", [True, False])
def test_a_lifetime_that_was_shortened_is_found(tmp_path: Path, shortened: bool) -> None:
    """Turns 20 minutes apart: read for two days, then written again each time, because they were written for 5 minutes."""
    calls = []
    for day in range(4):
        short = shortened and day > 1
        for turn in range(4):
            at = _START + timedelta(days=day, minutes=20 * turn)
            if short:
                calls.append(_call(at, read=0, short=30_000, session=f"s{day}"))
            else:
                calls.append(
                    _call(at, read=30_000 if turn else 0, long=500 if turn else 30_000, session=f"s{day}")
                )
    twin = _twin(tmp_path, calls)

    found = [finding for finding in twin["findings"] if finding["kind"] == "ttl_changed"]
    if not shortened:
        assert (found, twin["ttl_changes"]) == ([], [])
        return
    (change,), (finding,) = twin["ttl_changes"], found
    assert (change["day"], change["long_share_before"], change["long_share_since"]) == ("2026-11-25", 1, 0)
    assert (change["rewritten_requests"], change["rewritten_tokens"]) == (6, 180_000)
    assert finding["tokens"] == 180_000
    assert "before 2026-11-25" in finding["title"]


def test_what_is_written_again_stands_by_gap(tmp_path: Path) -> None:
    """Gaps of 60 to 290 s write 9,000 to 10,000 tokens, of 310 and 900 s 150,000 and more: the step is at 5 minutes."""
    at, calls = _START, [_call(_START, read=0, short=150_000, session="s")]
    prefix = 150_000
    for gap_s, wrote in ((60, 9_000), (200, 10_000), (290, 9_000), (310, 150_000), (900, 155_000)):
        at += timedelta(seconds=gap_s)
        prefix += 9_500
        calls.append(_call(at, read=max(0, prefix - wrote), short=wrote, session="s"))
    twin = _twin(tmp_path, calls)
    by_gap = {row["from_s"]: row["mean_written_tokens"] for row in twin["gaps"]}
    assert by_gap == {0: 9_000, 60: 10_000, 240: 9_000, 300: 150_000, 360: 155_000}
    # An hour bridges both long gaps: 178,500 and 188,000 tokens would be read, and all else pays 2 in place of 1.25.
    (worth,) = twin["longer_lives"]
    assert (worth["lost_short_tokens"], worth["lost_long_tokens"]) == (178_500 + 188_000, 0)
    assert worth["grown_tokens"] == 150_000 + 28_000 + 9_500 + 9_500
    saved = 366_500 * (1.25 - 0.1) - 197_000 * (2 - 1.25)
    assert worth["saved"] == pytest.approx(saved * 3 / 1e6, rel=1e-5)
    page = (tmp_path / "r.html").read_text()
    assert re.search(r"with all writes for 1.h in place of 5.min would save", page)
    assert "What the service read and wrote, by time since the turn before" in page


def test_a_longer_lifetime_of_fast_loops_is_a_loss(tmp_path: Path) -> None:
    """Turns 12 s apart are read anyway: an hour costs three fifths more on all that is written, and that is said."""
    calls = [
        _call(
            _START + timedelta(seconds=12 * n),
            read=0 if n % 2 else 20_000,
            short=20_000 if n % 2 else 500,
            session="s",
        )
        for n in range(10)
    ]
    (worth,) = _twin(tmp_path, calls)["longer_lives"]
    assert worth["saved"] == pytest.approx(-102_500 * 0.75 * 3 / 1e6)
    assert "would cost" in (tmp_path / "r.html").read_text()


def test_calls_that_never_came_are_told(tmp_path: Path) -> None:
    """A client is said to touch its prefixes every 5 minutes; in a gap of 15 three were due and none is in the log."""
    keep = '[[pool]]\n[pool.cache]\nprofile = "anthropic"\nkeep_alive = "5m"\n'
    (tmp_path / "keep.toml").write_text(keep)
    calls = [_call(_START + timedelta(seconds=at), read=0, short=30_000, session="s") for at in (0, 900)]
    twin = _twin(tmp_path, calls, scenario=[tmp_path / "keep.toml"])
    (row,) = twin["keep_alive"]
    assert (row["expected_calls"], row["seen_calls"], row["missed_tokens"]) == (3, 0, 30_000)
    (finding,) = [one for one in twin["findings"] if one["kind"] == "keep_alive_missing"]
    assert "3 expected, 0 seen" in finding["title"]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (None, "a longer time to live"),
        (1.0, "a longer time to live"),
        (0.0, "no lifetime that can be had would have kept them"),
        (0.5, "of them; no lifetime that can be had would have kept the others"),
    ],
)
def test_a_longer_life_is_advised_as_far_as_one_is_on_sale(kept: float | None, said: str) -> None:
    """What came back after a day is not helped by the hour that Claude sells."""
    view = report_data.week()
    expired = view.result.headline.misses["expired"]
    result = replace(view.result, longer_ttl_tokens=None if kept is None else round(kept * expired))
    (found,) = [
        each for each in derive(replace(view, results=(result, *view.results[1:]))) if each.kind == "expired"
    ]
    assert said in found.action
    assert found.action.startswith("a longer time to live") == (kept != 0.0)
