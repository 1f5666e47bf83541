"""The recorded exchanges of a dozen services, against a count that knows nothing of the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest_support import Result, closes, ingest
from support import shared


def _number(usage: dict[str, Any], *path: str) -> int:
    held: Any = usage
    for step in path:
        held = held.get(step) if isinstance(held, dict) else None
    return held or 0


def _by_hand(row: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return prompt, read, written and output of a recorded row, service by service, as its documentation has it."""
    usage, address = row["usage"], row["uri"]
    if "generateContent" in address or "GenerateContent" in address:
        prompt = _number(usage, "promptTokenCount") + _number(usage, "toolUsePromptTokenCount")
        output = _number(usage, "candidatesTokenCount") + _number(usage, "thoughtsTokenCount")
        return prompt, _number(usage, "cachedContentTokenCount"), 0, output
    if address.partition("?")[0].endswith("converse"):
        read, written = _number(usage, "cacheReadInputTokens"), _number(usage, "cacheWriteInputTokens")
        return usage["totalTokens"] - usage["outputTokens"], read, written, usage["outputTokens"]
    if "/v1/messages" in address or address.endswith("/invoke"):
        read, written = (
            _number(usage, "cache_read_input_tokens"),
            _number(usage, "cache_creation_input_tokens"),
        )
        return usage["input_tokens"] + read + written, read, written, usage["output_tokens"]
    if "cohere" in address:
        return (
            _number(usage, "tokens", "input_tokens"),
            _number(usage, "cached_tokens"),
            0,
            _number(usage, "tokens", "output_tokens"),
        )
    if "input_tokens" in usage:
        details = usage.get("input_tokens_details") or {}
        return (
            usage["input_tokens"],
            _number(details, "cached_tokens"),
            _number(details, "cache_write_tokens"),
            usage["output_tokens"],
        )
    details = usage.get("prompt_tokens_details") or {}
    read = _number(details, "cached_tokens") or _number(usage, "num_cached_tokens")
    return usage["prompt_tokens"], read, _number(details, "cache_write_tokens"), usage["completion_tokens"]


def _answer_id(row: dict[str, Any], line: int) -> str:
    body = row["response"] if isinstance(row["response"], dict) else {}
    name = body.get("id") or body.get("responseId")
    if name is None and row["uri"].rpartition("/")[2].startswith("resp_"):
        name = row["uri"].rpartition("/")[2]
    return f"line {line}" if name is None else f"{row['host']} {name}"


def _expected(rows: dict[int, dict[str, Any]]) -> dict[str, tuple[int, int, int, int]]:
    """Return the counts of every answer, of one recorded several times those with the most output."""
    answers: dict[str, tuple[int, int, int, int]] = {}
    for line, row in rows.items():
        if row["uri"].endswith("/cachedContents"):
            continue
        blocked = "promptFeedback" in (row["response"] or {}) and "promptTokenCount" not in row["usage"]
        counts = (0, 0, 0, 0) if blocked else _by_hand(row)
        if counts[1] + counts[2] > counts[0]:
            continue  # read and written exceed the prompt
        held = answers.get(_answer_id(row, line))
        if held is None or counts[3] > held[3]:
            answers[_answer_id(row, line)] = counts
    return answers


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The log in a workspace, read in 22 chunks."""
    root = tmp_path_factory.mktemp("recorded")
    return ingest(root / "ws", shared("traces/api_exchanges/pydantic_ai.jsonl"), chunk_bytes=200_000)


def test_every_record_is_accounted_for_and_every_token_counted(recorded: Result) -> None:
    """1,156 rows: kept, repeated, skipped or rejected, and the sums of tokens are those of a count by hand."""
    path, result, account = shared("traces/api_exchanges/pydantic_ai.jsonl"), recorded, recorded.account
    assert (account.format, account.records) == ("api-exchange", 1_156)
    assert closes(result.summary)
    assert (account.kept, account.duplicates, account.skipped, account.rejected) == (1_126, 28, 1, 1)
    assert result.rejects[0]["reason"] == "impossible usage: 2161 read + 2161 written of 2168 prompt tokens"
    rows = {
        line: json.loads(raw)
        for line, raw in enumerate(path.read_bytes().split(b"\n"), start=1)
        if raw.strip()
    }
    expected = _expected(rows)
    assert len(expected) == account.kept
    writes = [f"cache_write_{ttl}_tokens_observed" for ttl in ("5m", "1h", "other")]
    got: dict[str, tuple[int, int, int, int]] = {}
    for row in result.requests:
        counts = (
            row["prompt_tokens"],
            row["cached_tokens_observed"] or 0,
            sum(row[name] or 0 for name in writes),
            row["output_tokens"] or 0,
        )
        got[_answer_id(rows[row["source_line"]], row["source_line"])] = counts
    assert got == expected
    assert [sum(column) for column in zip(*got.values(), strict=True)] == [
        sum(c) for c in zip(*expected.values(), strict=True)
    ]
    assert sum(counts[0] for counts in got.values()) > 1_000_000


def test_services_are_told_apart(recorded: Result) -> None:
    """Each service by its address, a gateway by the path behind it; an unknown server is nobody's."""
    result = recorded
    by_provider: dict[str | None, int] = {}
    for row in result.requests:
        by_provider[row["provider"]] = by_provider.get(row["provider"], 0) + 1
    assert by_provider["anthropic"] == 247
    assert by_provider["gemini"] == 161
    assert {
        "openai",
        "bedrock",
        "vertex",
        "groq",
        "mistral",
        "cohere",
        "deepseek",
        "openrouter",
        "azure",
        "cerebras",
    } <= by_provider.keys()
    nameless = [
        row["source_line"] for row in result.requests if row["model"] is None and row["status"] == "ok"
    ]
    assert nameless == [838]  # a stored answer, fetched as a stream that was not recorded
    assert {note.split(":")[0] for note in result.account.notes if note.startswith("usage as")} >= {
        "usage as anthropic", "usage as bedrock-converse", "usage as mistral", "usage as openai-responses",
    }  # fmt: skip
