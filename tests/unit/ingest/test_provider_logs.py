"""Logs that hosted services write themselves: Bedrock, Vertex, Azure, batch files, usage pages."""

from __future__ import annotations

import contextlib
import copy
import functools
import gzip
import json
import operator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, Result, closes, ingest, tree, write_lines
from prefixledger.ingest.batch import Batch
from prefixledger.ingest.formats import reader_named
from prefixledger.ingest.reader import Context
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
BEDROCK = {"schemaType": "ModelInvocationLog", "schemaVersion": "1.0", "timestamp": "2026-11-29T12:00:00Z", "region": "us-east-1",
           "operation": "Converse", "modelId": "us.anthropic.claude-v1:0"}  # fmt: skip
COUNTS = {"inputTokenCount": 433, "cacheReadInputTokenCount": 2_752, "cacheWriteInputTokenCount": 0}


def _read(tmp_path: Path, rows: list[Any], **options: Any) -> Result:
    return ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", rows), **options)


# Bedrock


def test_bedrock_counts_are_parts_and_its_region_is_the_cache(tmp_path: Path) -> None:
    """The log's own counts where no body is there; the region that inference went to holds the cache; ARNs name models."""
    arn = "arn:aws:bedrock:us-east-1:111111111111:inference-profile/us.anthropic.claude-v1:0"
    rows = [
        {**BEDROCK, "requestId": "a", "input": {"inputBodyS3Path": "s3://b/data/a_input.json.gz", **COUNTS}, "output": {"outputTokenCount": 16}},
        {**BEDROCK, "requestId": "b", "modelId": arn, "inferenceRegion": "us-east-2", "input": COUNTS,
         "output": {"outputTokenCount": 16, "outputBodyJson": {"metrics": {"latencyMs": 812}}},
         "requestMetadata": {"tenant": "team-7", "session_id": "s"}},
        {**BEDROCK, "requestId": "c", "errorCode": "ThrottlingException", "input": {}, "output": {}},
        {**BEDROCK, "requestId": "d", "modelId": "amazon.titan-embed-text-v2:0", "input": {"inputTokenCount": 8}, "output": {}},
    ]  # fmt: skip
    result = _read(tmp_path, rows)
    first, second, third = result.requests
    assert (first["prompt_tokens"], first["cached_tokens_observed"], first["output_tokens"]) == (
        3_185,
        2_752,
        16,
    )
    assert (first["prompt_complete"], first["replica"], second["replica"]) == (
        False,
        "us-east-1",
        "us-east-2",
    )
    assert first["model"] == second["model"]
    assert (second["tenant"], second["session_id"]) == ("team-7", "s")
    assert (second["finished_at"] - second["started_at"]).total_seconds() == 0.812
    assert (third["status"], third["prompt_tokens"]) == ("failed", 0)
    assert result.account.reasons == {"embedding, which has no prefix cache": 1}


def test_bedrock_streams_and_wrappers_of_cloudwatch(tmp_path: Path) -> None:
    """Events in a list are one answer; records in messages, pages and subscriptions are the records; repeats count once."""
    rows = [json.loads(line) for line in (FIXTURES / "bedrock.jsonl").read_text().splitlines()]
    bare = ingest(tmp_path / "bare", FIXTURES / "bedrock.jsonl")
    streamed = bare.requests[1]
    assert (streamed["prompt_tokens"], streamed["cached_tokens_observed"], streamed["output_tokens"]) == (
        137,
        110,
        8,
    )
    assert (bare.requests[0]["cache_write_5m_tokens_observed"], bare.requests[0]["tenant"]) == (110, "ferry")
    events = [{"id": str(n), "timestamp": 1, "message": json.dumps(row)} for n, row in enumerate(rows[:3])]
    page = {"messageType": "DATA_MESSAGE", "logGroup": "g", "logStream": "s", "logEvents": events}
    wrapped = _read(tmp_path, [page, *rows])
    assert [r["request_id"] for r in wrapped.requests] == [f"bedrock-{n}" for n in range(4)]
    assert (wrapped.account.records, wrapped.account.duplicates) == (7, 3)
    assert closes(wrapped.summary)


# Vertex


def test_vertex_rows_of_any_export(tmp_path: Path) -> None:
    """JSON columns as objects or text, pieces of an answer, Claude as a partner model; regions are caches."""
    result = ingest(tmp_path / "ws", FIXTURES / "vertex.jsonl")
    assert [r["prompt_tokens"] for r in result.requests] == [118, 141, 118, 114]
    assert [r["cached_tokens_observed"] for r in result.requests] == [0, 96, 0, 110]
    assert {(r["provider"], r["replica"]) for r in result.requests} == {("vertex", "europe-west1")}
    rows = [json.loads(line) for line in (FIXTURES / "vertex.jsonl").read_text().splitlines()]
    for row in rows[:3]:
        row["full_request"], row["full_response"] = (
            json.dumps(row["full_request"]),
            json.dumps([row["full_response"]]),
        )
        row["request_id"] = str(row["request_id"])
    again = _read(tmp_path, rows)
    drop = ("source", "source_file")
    assert [{k: v for k, v in r.items() if k not in drop} for r in again.requests] == [
        {k: v for k, v in r.items() if k not in drop} for r in result.requests
    ]


# Azure


def test_azure_rows_without_tokens_are_said_and_those_with_bodies_read(tmp_path: Path) -> None:
    """Resource logs have no tokens; gateway logs have bodies; a long call of the LLM log is one request."""
    result = ingest(tmp_path / "ws", FIXTURES / "azure_openai.jsonl")
    gateway, short, long = result.requests
    assert (gateway["cached_tokens_observed"], gateway["tenant"], gateway["usage_state"]) == (
        128,
        "ferry",
        "present",
    )
    assert [(r["request_id"], r["prompt_tokens"], r["usage_state"]) for r in (short, long)] == [
        ("c-2", 118, "absent"), ("c-3", 118, "absent"),
    ]  # fmt: skip
    account = result.account
    assert (account.kept, account.joined, account.skipped) == (3, 1, 1)
    assert account.reasons == {"resource log without tokens or text": 1}


def test_azure_failures_and_lists_of_records(tmp_path: Path) -> None:
    """A refused call never reached a model; a negative duration is none; ``records`` of an event hub are records."""
    where = {
        "category": "GatewayLogs",
        "time": "2026-11-29T12:00:00.0000000Z",
        "resourceId": "/X",
        "durationMs": -3,
    }
    body = json.dumps({"model": "m", "messages": []})
    refused = {
        "responseCode": 429,
        "backendRequestBody": body,
        "backendResponseBody": '{"error":{"message":"x"}}',
    }
    records = [
        {**where, "correlationId": "a", "properties": refused},
        {**where, "correlationId": "b", "properties": {"responseCode": 200}},
        {**where, "category": "Audit", "correlationId": "c"},
        {**where, "time": "noon", "correlationId": "d", "properties": refused},
    ]
    result = _read(tmp_path, [{"records": records}])
    (row,) = result.requests
    assert (row["request_id"], row["status"], row["finished_at"], row["started_at"]) == (
        "a",
        "failed",
        None,
        NOON,
    )
    assert (result.account.records, result.account.skipped, result.account.rejected) == (4, 2, 1)
    assert "unreadable time" in result.rejects[0]["reason"]


# Batch files


def _openai_batch() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [json.loads(line) for line in (FIXTURES / "api_batch.jsonl").read_text().splitlines()]
    return rows[:3], rows[3:]


def test_batch_answers_are_joined_to_requests_in_another_file(tmp_path: Path) -> None:
    """In either order, packed or not, in any chunks; custom ids of other batches mean nothing to a later call."""
    asked, answered = _openai_batch()
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in asked)))
    out = write_lines(tmp_path / "out.jsonl", answered)
    both = ingest(tmp_path / "both", packed, out)
    other = ingest(tmp_path / "other", out, packed, chunk_bytes=100)
    one = ingest(tmp_path / "one", FIXTURES / "api_batch.jsonl")
    shown = (
        "request_id",
        "prompt_tokens",
        "cached_tokens_observed",
        "output_tokens",
        "status",
        "keyed",
        "n_blocks",
        "tenant",
        "service_tier",
    )
    told = [{name: row[name] for name in shown} for row in both.requests]
    assert told == [{name: row[name] for name in shown} for row in other.requests]
    assert told == [{name: row[name] for name in shown} for row in one.requests]
    assert [row["request_id"] for row in told] == ["chatcmpl-21", "chatcmpl-20", "rq-2"]
    assert all(
        row["keyed"] and row["tenant"] == "ferry-web" and row["service_tier"] == "batch" for row in told
    )
    accounts = {account.path: account for account in both.summary.inputs}
    assert (accounts["in.jsonl.gz"].skipped, accounts["out.jsonl"].kept) == (3, 3)
    alone = ingest(tmp_path / "alone", out)
    assert [row["keyed"] for row in alone.requests] == [False] * 3
    assert not any(str(tmp_path).encode() in content for content in tree(tmp_path / "both").values())


def test_anthropic_batches_have_no_time(tmp_path: Path) -> None:
    """Results are ok or failed, or were never run; the log is relative, and says so."""
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 90,
        "output_tokens": 3,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "usage": usage,
    }
    rows = [
        {"custom_id": "b", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}}},
        {"custom_id": "a", "result": {"type": "succeeded", "message": message}},
        {"custom_id": "c", "result": {"type": "expired"}},
        {"custom_id": "a", "params": {"model": "claude-x", "messages": [{"role": "user", "content": "Hi"}]}},
    ]  # fmt: skip
    result = _read(tmp_path, rows)
    assert [(r["prompt_tokens"], r["status"], r["provider"]) for r in result.requests] == [
        (0, "failed", "anthropic"),
        (99, "ok", "anthropic"),
    ]
    assert result.requests[1]["keyed"]
    account = result.account
    assert (account.format, account.clock, account.skipped) == ("api-batch", "relative", 2)
    assert any("no row carries a time" in note for note in account.notes)


# Usage pages


def test_usage_pages_hold_no_request(tmp_path: Path) -> None:
    """Pages of either service are recognised, counted bucket by bucket, and give no rows."""
    page = ingest(tmp_path / "ws", FIXTURES / "usage_totals.json")
    assert (page.account.records, page.account.kept, page.account.skipped) == (2, 0, 2)
    bucket = {
        "starting_at": "2026-11-28T00:00:00Z",
        "ending_at": "2026-11-29T00:00:00Z",
        "results": [{"uncached_input_tokens": 1_500}],
    }
    lines = _read(tmp_path / "lines", [bucket, bucket])
    assert lines.account.reasons == {"total over many calls, which holds no request": 2}


# Whatever a field holds

ODD: tuple[Any, ...] = (
    None,
    -1,
    0.5,
    "x",
    "",
    [],
    {},
    [None],
    [[]],
    {"a": 1},
    True,
    "{",
    "[1]",
    'data: {"type":"x"}',
    [{"type": 5}],
)
FORMATS = {"api-exchange": "api_exchange.jsonl", "api-batch": "api_batch.jsonl", "bedrock": "bedrock.jsonl",
           "vertex": "vertex.jsonl", "azure-openai": "azure_openai.jsonl", "usage-totals": "usage_totals.json"}  # fmt: skip


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*place, name)
        yield from _places(inner, (*place, name))


@pytest.mark.parametrize("name", FORMATS)
def test_no_value_of_a_field_breaks_a_reader(name: str) -> None:
    """Every field of every fixture in turn holds something odd: the record is read or rejected, and nothing else happens."""
    text = (FIXTURES / FORMATS[name]).read_text()
    records = (
        [json.loads(text)] if name == "usage-totals" else [json.loads(line) for line in text.splitlines()]
    )
    reader, context, outcomes = reader_named(name), Context(name, "x", "json"), 0
    for record in records:
        opened = {
            key: json.loads(held) if isinstance(held, str) and held[:1] == "{" else held
            for key, held in record.items()
        }
        for number, place in enumerate(_places(opened)):
            for odd in ODD[number % 3 :: 3]:
                changed = copy.deepcopy(opened)
                functools.reduce(operator.getitem, place[:-1], changed)[place[-1]] = odd
                with contextlib.suppress(BadRecordError):
                    made = reader.read(changed, context)
                    for outcome in [made] if isinstance(made, (Row, Reject, Skip)) else made:
                        if isinstance(outcome, Row):
                            Batch().add_row(outcome, 0, context)
                        outcomes += 1
    assert outcomes > len(records)
