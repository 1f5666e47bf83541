"""Rows of a hosted cache that no profile follows: a report comes out, on what the log reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prefixledger import api

if TYPE_CHECKING:
    from pathlib import Path

_SYSTEM = {"role": "system", "content": "You are terse. " * 200}


def _call(number: int, cached: int) -> str:
    usage = {
        "prompt_tokens": 700,
        "completion_tokens": 3,
        "total_tokens": 703,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return json.dumps(
        {
            "ts": f"2026-11-24T10:00:{number:02}Z",
            "provider": "cerebras",
            "request": {"model": "zai-x", "messages": [_SYSTEM, {"role": "user", "content": f"Hi {number}"}]},
            "response": {
                "id": f"c-{number}",
                "object": "chat.completion",
                "model": "zai-x",
                "choices": [],
                "usage": usage,
            },
        }
    )


def test_a_report_comes_out_without_a_profile(tmp_path: Path) -> None:
    """Hits are those that the service reports, the rest but the first call has no proven cause, and a model without a price stops nothing."""
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(_call(number, 512 if number else 0) for number in range(4)))

    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")

    twin = json.loads((tmp_path / "r.json").read_text())
    assert twin["totals"]["by_basis"]["observed"]["prompt_tokens"] == 4 * 700
    missed = twin["misses"]["by_cause"]
    assert (twin["totals"]["hit_tokens"], missed["cold"], missed["unexplained"]) == (3 * 512, 700, 3 * 188)
    assert "no profile follows the rules of that cache" in (tmp_path / "r.html").read_text()
