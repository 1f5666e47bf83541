"""Rows of gateways and exports: LiteLLM, Helicone, Envoy; and events that are no requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, Result, closes, ingest, plain_rows, write_csv, write_lines
from prefixledger.ingest.envelope import user_key

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_795_953_600.0  # 2026-11-29T12:00:00Z


def _one(tmp_path: Path, rows: list[Any], name: str = "log.jsonl", **options: Any) -> Result:
    return ingest(tmp_path / "ws", write_lines(tmp_path / name, rows), **options)


# LiteLLM


def _call(number: int = 1, usage: Any = None, **change: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": 2048, "completion_tokens": 3, "total_tokens": 2051}
    held = {**counts, "prompt_tokens_details": {"cached_tokens": 1920}} if usage is None else usage
    return {
        "id": f"chatcmpl-{number}",
        "litellm_call_id": f"c{number}",
        "call_type": "acompletion",
        "status": "success",
        **counts,
        "startTime": NOON + number + 0.1,
        "endTime": NOON + number + 0.9,
        "completionStartTime": NOON + number + 0.6,
        "model": "gpt-4.1",
        "model_id": "dep-1",
        "api_base": "https://user@a.example:8443/v1",
        "custom_llm_provider": "openai",
        "cache_hit": False,
        "metadata": {"user_api_key_team_id": "team-7", "usage_object": held},
        "messages": [{"role": "user", "content": "Hi " * 80}],
        "model_parameters": {},
        "hidden_params": {},
        **change,
    }


def test_litellm_row(tmp_path: Path) -> None:
    """Counts of the usage object, deployment as replica, team as tenant, unix seconds as times."""
    (row,) = _one(tmp_path, [_call()]).requests
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["output_tokens"]) == (2048, 1920, 3)
    assert (row["replica"], row["tenant"], row["provider"], row["request_id"]) == (
        "dep-1",
        "team-7",
        "openai",
        "chatcmpl-1",
    )
    assert row["started_at"].isoformat() == "2026-11-29T12:00:01.100000+00:00"
    assert (row["finished_at"] - row["started_at"]).total_seconds() == pytest.approx(0.8)
    assert (row["keyed"], row["status"]) == (True, "ok")


def test_litellm_anthropic_parts_are_not_added_again(tmp_path: Path) -> None:
    """Its prompt count has the cached parts in it: 10 + 5,000 stay 5,010."""
    usage = {"prompt_tokens": 5_010, "completion_tokens": 4, "total_tokens": 5_014, "cache_read_input_tokens": 5_000,
             "cache_creation_input_tokens": 0}  # fmt: skip
    (row,) = _one(tmp_path, [_call(usage=usage)]).requests
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["cache_write_5m_tokens_observed"]) == (
        5_010,
        5_000,
        0,
    )


def test_litellm_skips_and_failures(tmp_path: Path) -> None:
    """Its own response cache made no call; an embedding has no prompt; a failed call is kept and asked no cache."""
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    rows = [
        _call(1, cache_hit=True),
        _call(2, cache_hit="True"),
        _call(3, call_type="aembedding"),
        _call(4, status="failure", metadata={}, **zero),
        _call(5),
        _call(5),
        _call(6, metadata={"user_api_key_end_user_id": "ann@example.org"}, model_id=None),
    ]
    result = _one(tmp_path, rows)
    assert result.account.reasons == {
        "response-cache hit": 2, "call without a prompt: embedding, image, audio and the like": 1,
    }  # fmt: skip
    assert [(row["request_id"], row["status"], row["usage_state"]) for row in result.requests] == [
        ("chatcmpl-4", "failed", "absent"), ("chatcmpl-5", "ok", "present"), ("chatcmpl-6", "ok", "absent"),
    ]  # fmt: skip
    assert result.account.duplicates == 1
    assert (result.requests[2]["tenant"], result.requests[2]["replica"]) == (
        user_key("ann@example.org"),
        "a.example:8443",
    )


def test_litellm_redacted_and_cut_prompts(tmp_path: Path) -> None:
    """A redacted prompt has no keys, of a cut one only what stands before the mark has."""
    text = "word " * 200
    cut = [{"role": "user", "content": text + "... (litellm_truncated skipped 900 chars) ..." + text}]
    whole = [{"role": "user", "content": text + "x" * 2_000}]
    rows = [_call(1, messages="redacted-by-litellm"), _call(2, messages=cut), _call(3, messages=whole)]
    hidden, short, long = (result := _one(tmp_path, rows)).requests
    assert (hidden["keyed"], hidden["n_blocks"]) == (False, 0)
    assert (short["prompt_complete"], long["prompt_complete"]) == (False, True)
    assert 0 < short["n_blocks"] < long["n_blocks"]
    assert result.labels(short) == result.labels(long)[: short["n_blocks"]]


def test_hostile_litellm_rows(tmp_path: Path) -> None:
    """No start, ends before it starts, text for a count, more cached than there is in a total that says so."""
    wrong = {
        "prompt_tokens": 10,
        "completion_tokens": 1,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": "x"},
    }
    rows = [
        _call(1),
        _call(2, startTime=0),
        _call(3, endTime=NOON - 60),
        _call(4, usage=wrong),
        _call(5, startTime=1e30),
    ]
    result = _one(tmp_path, rows)
    assert result.account.kept == 1
    assert result.account.rejected == 4
    assert closes(result.summary)


def _spend(number: int = 1, **change: Any) -> dict[str, Any]:
    more = {"cache_read_input_tokens": 1920, "prompt_tokens_details": {"cached_tokens": 1920}}
    return {
        "request_id": f"chatcmpl-{number}",
        "call_type": "acompletion",
        "spend": 0.0031,
        "total_tokens": 2051,
        "prompt_tokens": 2048,
        "completion_tokens": 3,
        "startTime": f"2026-11-29T10:00:0{number}.100000",
        "endTime": f"2026-11-29T10:00:0{number}.900000",
        "model": "gpt-4.1",
        "api_base": "https://a.example",
        "custom_llm_provider": "openai",
        "metadata": {"additional_usage_values": more},
        "cache_hit": "False",
        "team_id": "team-7",
        "messages": {},
        "session_id": "s1",
        "status": "success",
        **change,
    }


def test_spend_logs_in_every_container(tmp_path: Path) -> None:
    """JSONL, one JSON list, CSV with JSON in cells and Parquet give the same rows; times without a zone are UTC."""
    rows = [
        _spend(1),
        _spend(2, cache_hit="True"),
        _spend(3, request_id="chatcmpl-3_cache_hit1"),
        _spend(4, status="failure"),
    ]
    table = pa.table(
        {
            name: [json.dumps(r[name]) if isinstance(r[name], dict) else r[name] for r in rows]
            for name in rows[0]
        }
    )
    pq.write_table(table, tmp_path / "spend.parquet")
    (tmp_path / "spend.json").write_text(json.dumps(rows, indent=1))
    paths = [
        write_lines(tmp_path / "spend.jsonl", rows),
        tmp_path / "spend.json",
        write_csv(tmp_path / "spend.csv", rows),
        tmp_path / "spend.parquet",
    ]
    results = [ingest(tmp_path / path.suffix[1:], path) for path in paths]
    assert {result.account.format for result in results} == {"litellm-spend"}
    assert all(result.account.reasons == {"response-cache hit": 2} for result in results)
    assert all(plain_rows(result) == plain_rows(results[0]) for result in results)
    row = results[0].requests[0]
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["tenant"], row["session_id"]) == (
        2048,
        1920,
        "team-7",
        "s1",
    )
    assert row["started_at"].isoformat() == "2026-11-29T10:00:01.100000+00:00"
    assert not any("zone" in note for note in results[0].account.notes)


def test_hostile_spend_rows(tmp_path: Path) -> None:
    """Text for a count, no start, a negative count; what the metadata do not say stays absent."""
    rows = [
        _spend(1, metadata={}),
        _spend(2, prompt_tokens="many"),
        _spend(3, startTime=""),
        _spend(4, completion_tokens=-3),
    ]
    result = _one(tmp_path, rows)
    assert [row["usage_state"] for row in result.requests] == ["absent"]
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "wrong type",
        "null field",
        "negative number",
    ]


# Helicone


def test_helicone(tmp_path: Path) -> None:
    """Times, waits, users and sessions; its own cache is no call; negative statuses failed; CSV says the same."""
    rows = [json.loads(line) for line in (FIXTURES / "helicone.jsonl").read_text().splitlines()]
    rows[5]["response_status"], rows[6]["prompt_cache_read_tokens"] = -3, 10**30
    result = _one(tmp_path, rows)
    assert result.account.reasons == {"absurd number": 1, "response-cache hit": 1}
    first, failed = result.requests[0], result.requests[4]
    assert (first["prompt_tokens"], first["cached_tokens_observed"]) == (
        rows[0]["prompt_tokens"],
        rows[0]["prompt_cache_read_tokens"],
    )
    assert (first["provider"], first["session_id"]) == ("openai", "c3")
    assert (failed["status"], failed["prompt_tokens"], failed["usage_state"]) == ("failed", 0, "null")
    assert result.requests[5]["status"] == "cut"
    assert (first["first_token_at"] - first["started_at"]).total_seconds() * 1_000 == rows[0][
        "time_to_first_token"
    ]
    flat = ingest(tmp_path / "csv", write_csv(tmp_path / "rows.csv", rows))
    assert flat.account.format == "helicone"
    assert [{**row, "namespace": ""} for row in plain_rows(flat)] == [
        {**row, "namespace": ""} for row in plain_rows(result)
    ]


# Envoy


def test_envoy(tmp_path: Path) -> None:
    """Replicas, dashes and nulls, refusals, clients that left; listings and tools are no calls."""
    rows = [json.loads(line) for line in (FIXTURES / "envoy.jsonl").read_text().splitlines()]
    rows[0]["duration"] = -5
    rows[1] = {**rows[1], "llm_cached_input_token": "-"}
    rows[2] = {k: v for k, v in rows[2].items() if k != "llm_cached_input_token"} | {
        "gen_ai.usage.input_tokens": "150.0"
    }
    rows[4]["gen_ai.usage.input_tokens"] = "-"
    result = _one(tmp_path, rows)
    assert result.account.reasons == {
        "missing field": 1, "negative duration": 1, "no call to a model": 1, "call of a tool": 1,
    }  # fmt: skip
    second, third = result.requests[:2]
    assert (second["usage_state"], third["usage_state"], third["prompt_tokens"]) == ("null", "absent", 150)
    assert {row["status"] for row in result.requests} == {"ok", "failed", "cut"}
    assert {row["replica"] for row in result.requests} == {"10.0.0.7:8000", "10.0.0.8:8000"}
    assert all(row["provider"] is None for row in result.requests)


# KV events


def test_kv_events_are_recognised_and_skipped(tmp_path: Path) -> None:
    """Objects, tagged arrays and Dynamo's events: counted, skipped, and said to be no requests."""
    rows = [
        [1_795_946_400.1, [["BlockStored", [1], None, [1, 2], 2, None, "GPU"]], 0],
        {"ts": 1.0, "events": [{"type": "AllBlocksCleared"}]},
        {
            "timestamp": 5,
            "event": {"worker_id": 1, "event": {"event_id": 1, "data": "cleared", "dp_rank": 0}},
        },
    ]
    result = _one(tmp_path, [rows[1], *rows])
    assert (result.account.format, result.account.kept, result.account.skipped) == ("kv-events", 0, 4)
    assert any("not what it was asked for" in message for message in result.summary.messages)
