"""A lifetime shows as a step between gaps, and one that was shortened as a finding, from logs with usage alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api

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


def _twin(tmp_path: Path, calls: list[str]) -> dict[str, Any]:
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(calls))
    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")
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
    by_gap = {row["from_s"]: row["mean_written_tokens"] for row in _twin(tmp_path, calls)["gaps"]}

    assert by_gap == {0: 9_000, 60: 10_000, 240: 9_000, 300: 150_000, 360: 155_000}
