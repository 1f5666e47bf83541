"""OpenTelemetry GenAI and OpenInference spans as requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import Result, closes, ingest, write_lines
from support import shared

if TYPE_CHECKING:
    from pathlib import Path

START = 1_795_946_400_100_000_000


def _otlp(*spans: dict[str, Any], scope: str = "x", **resource: str) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]
    scoped = {"scope": {"name": scope}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scoped]}]}


def _span(
    own: str, above: str = "", at: int = START, *, failed: bool = False, **values: Any
) -> dict[str, Any]:
    names = {name.replace("__", "."): value for name, value in values.items()}
    kinds = {int: "intValue", str: "stringValue", float: "doubleValue"}
    pairs = [
        {"key": name, "value": {kinds[type(v)]: str(v) if isinstance(v, int) else v}}
        for name, v in names.items()
    ]
    times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 800_000_000)}
    ids = {"traceId": "t", "spanId": own, "parentSpanId": above}
    return {**ids, "name": "chat", **times, "attributes": pairs, "status": {"code": 2} if failed else {}}


def _chat(own: str, above: str = "", tokens: int = 2048, **more: Any) -> dict[str, Any]:
    usage = {"gen_ai__usage__input_tokens": tokens, "gen_ai__usage__output_tokens": 3}
    return _span(own, above, gen_ai__operation__name="chat", gen_ai__provider__name="openai", **usage, **more)


def _one(tmp_path: Path, rows: list[Any], **options: Any) -> Result:
    return ingest(tmp_path / "ws", write_lines(tmp_path / "spans.jsonl", rows), **options)


def test_a_span_becomes_a_row(tmp_path: Path) -> None:
    """Ids, model, times in nanoseconds written as text, counts written as text, who asked and who served."""
    more = {
        "gen_ai__usage__cache_read__input_tokens": 1920,
        "gen_ai__response__id": "chatcmpl-1",
        "gen_ai__request__model": "gpt-4.1",
        "gen_ai__conversation__id": "c7",
        "server__address": "api.openai.com",
        "server__port": 443,
        "gen_ai__response__time_to_first_chunk": 0.25,
    }
    result = _one(tmp_path, [_otlp(_chat("a", **more), **{"service.name": "shop", "service.version": "2"})])
    (row,) = result.requests
    assert result.account.format == "otel-genai"
    assert (row["request_id"], row["provider"], row["model"]) == ("chatcmpl-1", "openai", "gpt-4.1")
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["output_tokens"]) == (2048, 1920, 3)
    assert (row["session_id"], row["replica"], row["client"], row["release"]) == (
        "c7",
        "api.openai.com:443",
        "shop",
        "2",
    )
    assert row["started_at"].isoformat() == "2026-11-29T10:00:00.100000+00:00"
    assert (row["finished_at"] - row["started_at"]).total_seconds() == 0.8
    assert (row["first_token_at"] - row["started_at"]).total_seconds() == 0.25


def test_absent_null_and_zero_stay_three_things(tmp_path: Path) -> None:
    """A count that is not there is no count of zero."""
    name = "gen_ai__usage__cache_read__input_tokens"
    with_null = _chat("b")
    with_null["attributes"].append({"key": name.replace("__", "."), "value": None})
    result = _one(tmp_path, [_otlp(_chat("a"), with_null, _chat("c", **{name: 0}))])
    states = [(row["usage_state"], row["cached_tokens_observed"]) for row in result.requests]
    assert states == [("absent", None), ("null", None), ("present", 0)]


def test_only_the_innermost_call_counts(tmp_path: Path) -> None:
    """An agent's span is skipped, and of two calls inside each other the outer one is, whatever stands between."""
    agent = _span("a", gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=4096)
    spans = [_chat("d", "c"), agent, _chat("b", "a"), _span("c", "b", http__method="POST")]
    result = _one(tmp_path, [_otlp(spans[0]), _otlp(*spans[1:])])
    assert [row["request_id"] for row in result.requests] == ["t:d"]
    assert result.account.reasons == {"non-LLM span": 2, "wrapper of a call that was logged too": 1}
    assert closes(result.summary)


def test_a_step_without_counts_does_not_replace_its_call(tmp_path: Path) -> None:
    """Where only the outer of two calls knows its tokens, it is the request, and the inner one a step of it."""
    result = _one(tmp_path, [_otlp(_chat("a"), _span("b", "a", gen_ai__operation__name="chat"))])
    assert [row["request_id"] for row in result.requests] == ["t:a"]
    assert result.account.reasons == {"step inside a logged call": 1}


def test_two_integrations_tell_of_one_call(tmp_path: Path) -> None:
    """Same model and counts, 50 ms apart at most, from another instrumentation: a duplicate."""
    late, later = START + 50_000_000, START + 50_001_000
    rows = [
        _otlp(_chat("a"), scope="sdk"),
        _otlp(_chat("b", at=late), scope="callback"),
        _otlp(_chat("c", at=later), scope="sdk"),
    ]
    result = _one(tmp_path, rows)
    assert [row["request_id"] for row in result.requests] == ["t:a", "t:c"]
    assert result.account.duplicates == 1
    alone = ingest(
        tmp_path / "alone", write_lines(tmp_path / "b.jsonl", [_otlp(_chat("a"), _chat("b"), scope="sdk")])
    )
    assert alone.account.kept == 2


def test_failed_calls_are_kept_and_ask_no_cache(tmp_path: Path) -> None:
    """An error without output is failed, whatever its counts; one after some output is cut."""
    early = _span("a", failed=True, gen_ai__operation__name="chat")
    result = _one(tmp_path, [_otlp(early, _chat("b", failed=True))])
    assert [(row["status"], row["prompt_tokens"]) for row in result.requests] == [
        ("failed", 0),
        ("cut", 2048),
    ]


def test_bad_spans_are_rejects_of_their_own(tmp_path: Path) -> None:
    """One bad span in an export costs that span."""
    late = {**_chat("d"), "endTimeUnixNano": str(START - 1_000_000)}
    timeless = {k: v for k, v in _chat("e").items() if not k.endswith("UnixNano")}
    more = _chat("g", tokens=10, gen_ai__usage__cache_read__input_tokens=-1)
    result = _one(
        tmp_path, [_otlp(_chat("a"), _chat("b", tokens=-5), late, timeless, more), {"resourceSpans": 5}]
    )
    assert result.account.kept == 1
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "negative number", "negative duration", "missing field", "negative number", "wrong type",
    ]  # fmt: skip


def test_jaeger_and_flat_spans_say_the_same(tmp_path: Path) -> None:
    """Tags, dotted columns and nested objects are attributes; microseconds and ISO times are times."""
    tags = [{"key": "gen_ai.usage.input_tokens", "type": "int64", "value": 2048}]
    jaeger = {
        "traceID": "t",
        "spanID": "a",
        "operationName": "chat",
        "startTime": START // 1_000,
        "duration": 800_000,
    }
    parent = [{"refType": "CHILD_OF", "traceID": "t", "spanID": "z"}]
    export = {"data": [{"spans": [{**jaeger, "tags": tags, "references": parent, "processID": "p1"}],
                        "processes": {"p1": {"serviceName": "shop"}}}]}  # fmt: skip
    flat = {"name": "chat", "context": {"trace_id": "t", "span_id": "a"}, "start_time": "2026-11-29T10:00:00.1Z",
            "end_time": "2026-11-29T10:00:00.9Z", "attributes": {"gen_ai": {"usage": {"input_tokens": 2048}}},
            "resource": {"attributes": {"service.name": "shop"}}}  # fmt: skip
    rows = []
    for number, value in enumerate((export, flat)):
        result = ingest(
            tmp_path / str(number), write_lines(tmp_path / f"{number}.jsonl", [value]), format="otel-genai"
        )
        rows += [
            {k: v for k, v in row.items() if k not in ("source", "source_file")} for row in result.requests
        ]
    assert rows[0] == rows[1]
    assert (rows[0]["prompt_tokens"], rows[0]["client"], rows[0]["request_id"]) == (2048, "shop", "t:a")


def test_equal_text_has_equal_keys_in_every_spelling(tmp_path: Path) -> None:
    """Structured messages, messages by index and a whole body give the same blocks; the tenth comes after the ninth."""
    words = [f"word {number} " * 12 for number in range(12)]
    parts = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]} for text in words])
    indexed = {}
    for number, text in enumerate(words):
        indexed |= {
            f"llm.input_messages.{number}.message.role": "user",
            f"llm.input_messages.{number}.message.content": text,
        }
    body = json.dumps({"messages": [{"role": "user", "content": text} for text in words]})
    spans = [
        _chat("a", gen_ai__input__messages=parts),
        _chat("b", **dict(reversed(indexed.items()))),
        _chat("c", **{"input.value": body}),
    ]
    result = _one(tmp_path, [_otlp(span) for span in spans], format="otel-genai")
    paths = [result.labels(row) for row in result.requests]
    assert len(paths[0]) > 10
    assert paths[0] == paths[1] == paths[2]


def test_shared_openinference_spans(tmp_path: Path) -> None:
    """43 files: calls, failures without a time, embeddings, audio and images; totals as counted by hand."""
    folder = shared("traces/openinference")
    result = ingest(tmp_path / "ws", folder)
    accounts = result.summary.inputs
    assert len(accounts) == sum(account.records for account in accounts) == 43
    assert {account.format for account in accounts} == {"openinference"}
    assert closes(result.summary)
    expected = {
        "llm.token_count.prompt": 0,
        "llm.token_count.completion": 0,
        "llm.token_count.prompt_details.cache_read": 0,
    }
    failed = 0
    for path in folder.glob("*.json"):
        span = json.loads(path.read_text())
        held = {pair["key"]: pair["value"] for pair in span["attributes"]}
        if held["openinference.span.kind"]["stringValue"] == "LLM":
            failed += span["status"]["code"] == "STATUS_CODE_ERROR"
            for name in expected:
                expected[name] += int(held.get(name, {}).get("intValue", 0))
    rows = [row for row in result.requests if row["output_tokens"] is not None]
    sums = [
        sum(row[name] or 0 for row in rows)
        for name in ("prompt_tokens", "output_tokens", "cached_tokens_observed")
    ]
    assert sums == list(expected.values())
    assert sum(account.rejected for account in accounts) == failed == 5
    assert all(reject["reason"] == "missing field: startTimeUnixNano" for reject in result.rejects)
    exact = next(row for row in result.requests if row["source_file"] == "completion-token.json")
    assert (exact["prompt_tokens"], exact["n_blocks"]) == (31, 1)


@pytest.mark.parametrize("shape", ["document", "jsonl", "otlp"])
def test_one_openinference_span_in_every_container(tmp_path: Path, shape: str) -> None:
    """A pretty-printed file, a line, and an export give the same row."""
    values = {
        "openinference__span__kind": "LLM",
        "llm__token_count__prompt": 50,
        "llm__token_count__completion": 2,
    }
    span = _span("a", **values)
    text = {
        "document": json.dumps(span, indent=2),
        "jsonl": json.dumps(span) + "\n",
        "otlp": json.dumps(_otlp(span)) + "\n",
    }
    path = tmp_path / "span.json"
    path.write_text(text[shape])
    result = ingest(tmp_path / "ws", path)
    (row,) = result.requests
    assert (row["prompt_tokens"], row["output_tokens"], row["request_id"]) == (50, 2, "t:a")
    assert result.account.format == "openinference"
