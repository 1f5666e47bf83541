"""Answers that several internal calls made, log records of calls, and replicas that a log stops speaking of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ingest_support import ingest, mooncake, write_lines

if TYPE_CHECKING:
    from pathlib import Path


def _counts(fresh: int, read: int, written: int, output: int) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }


def _answer(iterations: list[dict[str, Any]], totals: dict[str, Any]) -> str:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": []}
    body = {"model": "claude-opus-5", "messages": [{"role": "user", "content": "Find it"}], "max_tokens": 9}
    return json.dumps(
        {
            "ts": "2026-11-29T10:00:00Z",
            "request": body,
            "response": {**message, "usage": {**totals, "iterations": iterations}},
        }
    )


def test_an_answer_of_several_calls_says_so(tmp_path: Path) -> None:
    """Totals stay what is charged; only the first of its prompts is the one that was sent, so no text is scaled by them."""
    calls = [
        {"type": "message", **_counts(10, 0, 1_000, 5)},
        {"type": "message", **_counts(20, 1_000, 300, 7)},
        {"type": "compaction", **_counts(900, 0, 0, 50)},
    ]
    totals = _counts(30, 1_000, 1_300, 12)
    alone, two = (
        _answer([], totals).replace("msg_1", "msg_0"),
        _answer(calls[:1], totals).replace("msg_1", "msg_2"),
    )
    path = write_lines(
        tmp_path / "a.jsonl",
        [_answer(calls, totals), alone, two, _answer(calls[1:], totals).replace("msg_1", "msg_3")],
    )
    rows = ingest(tmp_path / "ws", path).requests
    assert [
        (r["request_id"], r["prompt_tokens"], r["prompt_complete"], dict(r["labels"]).get("iterations"))
        for r in rows
    ] == [
        ("msg_1", 2_330, False, "2 message+1 compaction"),
        ("msg_0", 2_330, True, None),
        ("msg_2", 2_330, True, None),
        ("msg_3", 2_330, True, "1 message+1 compaction"),
    ]


def test_a_prompt_of_which_a_part_was_logged_scales_no_text(tmp_path: Path) -> None:
    """Its length is that of more than its text: what comes before it is with the service."""

    def call(number: int, tokens: int, **more: Any) -> str:
        body = {"model": "m", "input": "word " * 1_000, **more}
        usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
        answer = {"id": f"resp_{number}", "object": "response", "model": "m", "output": [], "usage": usage}
        return json.dumps({"ts": f"2026-11-29T10:00:0{number}Z", "request": body, "response": answer})

    whole = [call(1, 1_250), call(2, 1_250)]
    scales = [
        ingest(tmp_path / name, write_lines(tmp_path / f"{name}.jsonl", lines)).account.text_scales
        for name, lines in (
            ("whole", whole),
            ("part", [*whole, call(3, 50_000, previous_response_id="resp_0")]),
        )
    ]
    assert scales[0] == scales[1]
    assert scales[0][0]["origin"] == "measured"


def _logs(*records: dict[str, Any]) -> str:
    scoped = {"scope": {"name": "x"}, "logRecords": list(records)}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "claude-code"}}]}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [scoped]}]})


def _record(name: str, at_s: int, **attributes: Any) -> dict[str, Any]:
    pairs = [
        {
            "key": key.replace("__", "."),
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in attributes.items()
    ]
    return {
        "timeUnixNano": str((1_795_946_400 + at_s) * 10**9),
        "body": {"stringValue": name},
        "attributes": pairs,
    }


def test_log_records_of_calls_are_requests(tmp_path: Path) -> None:
    """Claude Code reports each call with its usage and its end; the details of GenAI conventions hold the prompt."""
    called = {
        "model": "claude-opus-5",
        "input_tokens": 10,
        "cache_read_tokens": 900,
        "cache_creation_tokens": "90",
    }
    details = {
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "m",
        "gen_ai__usage__input_tokens": 40,
        "gen_ai__input__messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
        ),
    }
    line = _logs(
        _record("claude_code.api_request", 3, duration_ms=2_000, output_tokens=4, session__id="s", **called),
        _record("claude_code.user_prompt", 3, prompt="x"),
        _record("claude_code.api_error", 4, model="claude-opus-5", error="overloaded"),
        _record("gen_ai.client.inference.operation.details", 5, **details),
    )
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "a.jsonl", [line]))
    assert result.account.format == "otel-genai"
    assert result.account.reasons == {"log record that is no call to a model": 1}
    call, error, span = sorted(result.requests, key=lambda row: row["started_at"])
    assert (call["prompt_tokens"], call["cached_tokens_observed"], call["session_id"]) == (1_000, 900, "s")
    assert (call["finished_at"] - call["started_at"]).total_seconds() == 2
    assert (error["status"], error["prompt_tokens"]) == ("failed", 0)
    assert (span["model"], span["prompt_tokens"], span["keyed"]) == ("m", 40, True)


def test_a_log_that_stops_speaking_of_a_replica_says_so(tmp_path: Path) -> None:
    """Half of a pod's log is missing; a pod that is quiet as often as before is not."""
    rows = [
        {**mooncake(60_000 * minute, [1, 2]), "pod": pod}
        for minute in range(90)
        for pod in ("a", "b")
        if pod == "a" or minute < 50
    ]
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'format = "jsonl"\nblock_size = 16\n[columns]\nstarted_at = { from = "timestamp", unit = "ms" }\n'
        'prompt_tokens = "input_length"\nblock_ids = "hash_ids"\nreplica = "pod"\n'
    )
    path = write_lines(tmp_path / "a.jsonl", [json.dumps(row) for row in rows])
    result = ingest(tmp_path / "ws", path, map_file=mapping)
    (note,) = [note for note in result.account.notes if "stop in this log" in note]
    assert note.startswith("1 of 2 replicas (b)")
    assert note in result.manifest["sources"][0]["notes"]
    gap = [row for row in rows if row["pod"] == "a" or not 10 <= row["timestamp"] // 60_000 < 35]
    gap += [{**row, "timestamp": row["timestamp"] + 3_000_000} for row in rows[:70] if row["pod"] == "b"]
    path = write_lines(tmp_path / "c.jsonl", [json.dumps(row) for row in gap])
    told = ingest(tmp_path / "w3", path, map_file=mapping).account.notes
    (note,) = [note for note in told if "say nothing for a stretch" in note]
    assert "1 of 2 replicas (b from 1970-01-01 00:09 to 1970-01-01 00:35)" in note
    steady = write_lines(tmp_path / "b.jsonl", [json.dumps(row) for row in rows[:100]])
    assert not [n for n in ingest(tmp_path / "w2", steady, map_file=mapping).account.notes if "stop in" in n]
