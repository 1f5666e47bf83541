"""Usage that the text of a prompt contradicts is no request: the books could not close over it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ingest_support import FIXTURES, closes, ingest, write_lines

if TYPE_CHECKING:
    from pathlib import Path


def test_more_cached_than_the_text_is_long_is_a_reject(tmp_path: Path) -> None:
    """No record says the length, so it comes from the text, which is too short for what was cached."""
    lines = [
        json.loads(line) for line in (FIXTURES / "langfuse.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    call: dict[str, Any] = next(one for one in lines if one["id"] == "o9")

    def with_usage(**usage: int) -> dict[str, Any]:
        return {**call, "usage_details": usage}

    good = [with_usage(input=41, input_cached_tokens=176, output=28, total=245)]
    bad = [with_usage(input_cached_tokens=176, output=28, total=245)]
    for name, records, kept in (("good", good, 1), ("bad", bad, 0)):
        result = ingest(tmp_path / name, write_lines(tmp_path / f"{name}.jsonl", records), format="langfuse")
        assert closes(result.summary)
        assert [row["request_id"] for row in result.requests] == ["o9"] * kept
        assert all((row["cached_tokens_observed"] or 0) <= row["prompt_tokens"] for row in result.requests)
        if not kept:
            assert any("impossible usage" in row["reason"] for row in result.rejects)
