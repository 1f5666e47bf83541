"""Calls that fail are counted and in no rate; one that is sent again and again is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prefixledger import api

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = [{"type": "text", "text": "word " * 2_000, "cache_control": {"type": "ephemeral"}}]
_REFUSED = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "at most 4 cache marks, 5 found"},
}


def _call(at: int, text: str, *, read: int = 0, status: int = 200) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 2_500 - read,
        "output_tokens": 5,
    }
    answer = {"id": f"m{at}", "type": "message", "model": "claude-sonnet-4-5", "usage": usage}
    return {
        "ts": 1_795_953_600 + at,
        "provider": "anthropic",
        "status": status,
        "request": {
            "model": "claude-sonnet-4-5",
            "system": _HEAD,
            "messages": [{"role": "user", "content": text}],
        },
        "response": answer if status == 200 else _REFUSED,
    }


def test_a_prompt_that_is_refused_again_and_again(tmp_path: Path) -> None:
    """Six equal calls are refused: out of every rate, and one line says so; two that were refused once each are not named."""
    calls = [_call(0, "hello"), *(_call(10 + n, "five marks", status=400) for n in range(6))]
    calls += [_call(20 + n, f"other {n}", status=400) for n in range(2)]
    calls += [_call(60, "hello", read=2_500)]
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(map(json.dumps, calls)))
    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")
    twin = json.loads((tmp_path / "r.json").read_text())
    assert (twin["totals"]["requests"], twin["totals"]["failed_requests"]) == (2, 8)
    assert twin["observed"]["cached_tokens"] == 2_500
    (row,) = twin["failures"]
    assert (row["requests"], row["answered"], row["model"]) == (6, 0, "claude-sonnet-4-5")
    assert "failed 6 times" in (tmp_path / "r.html").read_text()
