"""Langfuse exports as requests: two spellings, four containers, leaves only, totals of the provider."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import Result, ingest, plain_rows, write_csv, write_lines
from prefixledger.ingest.envelope import user_key

if TYPE_CHECKING:
    from pathlib import Path


def _one(tmp_path: Path, rows: list[Any], name: str = "log.jsonl", **options: Any) -> Result:
    return ingest(tmp_path / "ws", write_lines(tmp_path / name, rows), **options)


def _observation(own: str, usage: Any = None, **change: Any) -> dict[str, Any]:
    return {
        "id": own,
        "trace_id": "t1",
        "type": "GENERATION",
        "parent_observation_id": "",
        "start_time": "2026-11-29 10:00:00.100000",
        "end_time": "2026-11-29 10:00:00.900000",
        "input": json.dumps([{"role": "user", "content": "Hi " * 60}]),
        "provided_model_name": "gpt-4.1",
        "usage_details": {"input": 128, "input_cached_tokens": 1920, "output": 3, "total": 2051}
        if usage is None
        else usage,
        "user_id": "u7",
        "session_id": "s1",
        **change,
    }


CAMEL = {
    "trace_id": "traceId", "parent_observation_id": "parentObservationId", "start_time": "startTime", "end_time": "endTime",
    "provided_model_name": "model", "usage_details": "usageDetails", "user_id": "userId", "session_id": "sessionId",
}  # fmt: skip


def test_langfuse_in_every_container(tmp_path: Path) -> None:
    """API pages, JSONL, CSV and Parquet with a map column give the same rows."""
    rows = [
        _observation("o1"),
        _observation("o2", parent_observation_id="s1", type="SPAN", usage={}),
        _observation("o3"),
    ]
    api = [{CAMEL.get(name, name): value for name, value in row.items()} for row in rows]
    for row in api:
        row["startTime"], row["endTime"] = (row[n].replace(" ", "T") + "Z" for n in ("startTime", "endTime"))
    (tmp_path / "page.json").write_text(json.dumps({"data": api, "meta": {"page": 1}}, indent=1))
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "usage_details"}
    usage = pa.array([list(row["usage_details"].items()) for row in rows], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({**columns, "usage_details": usage}), tmp_path / "rows.parquet")
    paths = [write_lines(tmp_path / "rows.jsonl", rows), tmp_path / "page.json", write_csv(tmp_path / "rows.csv", rows),
             tmp_path / "rows.parquet"]  # fmt: skip
    results = [ingest(tmp_path / path.suffix[1:], path) for path in paths]
    assert {result.account.format for result in results} == {"langfuse"}
    assert all(result.account.reasons == {"non-LLM span": 1} for result in results)
    assert all(plain_rows(result) == plain_rows(results[0]) for result in results)
    row = results[0].requests[0]
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["output_tokens"]) == (2048, 1920, 3)
    assert (row["tenant"], row["session_id"], row["keyed"]) == (user_key("u7"), "s1", True)
    assert row["started_at"].isoformat() == "2026-11-29T10:00:00.100000+00:00"


def test_langfuse_leaves_only(tmp_path: Path) -> None:
    """A framework's generation around the provider's is skipped, whichever comes first, spans between them or not."""
    rows = [
        _observation("inner", parent_observation_id="step"),
        _observation("agent"),
        _observation("step", parent_observation_id="agent", type="SPAN", usage={}),
        _observation("alone", trace_id="t2", parent_observation_id="agent"),
    ]
    result = _one(tmp_path, rows)
    assert [row["request_id"] for row in result.requests] == ["inner", "alone"]
    assert sum(row["prompt_tokens"] for row in result.requests) == 2 * 2048


@pytest.mark.parametrize(
    ("usage", "prompt", "cached"),
    [
        ({"input": 12_000, "input_cached_tokens": 11_500, "output": 5, "total": 12_005}, 12_000, 11_500),
        ({"input": 200, "cache_read_input_tokens": 9_000, "output": 5}, 9_200, 9_000),
        ({"input": 500, "cache_read_input_tokens": 400, "output": 5, "total": 905}, 900, 400),
        ({"prompt_tokens": 17_903, "completion_tokens": 4, "total_tokens": 17_907,
          "prompt_tokens_details": {"cached_tokens": 17_817}}, 17_903, 17_817),
        ({"input": 90, "output": 5}, 90, None),
    ],
)  # fmt: skip
def test_langfuse_totals_are_the_providers(
    tmp_path: Path, usage: dict[str, Any], prompt: int, cached: int | None
) -> None:
    """Whether cached tokens are inside the input is told by the total, or by more being read than there is."""
    (row,) = _one(tmp_path, [_observation("o1", usage)]).requests
    assert (row["prompt_tokens"], row["cached_tokens_observed"]) == (prompt, cached)


def test_langfuse_older_fields(tmp_path: Path) -> None:
    """``usage`` with a unit, and counts as columns; characters are no tokens."""
    plain = {"usage_details": {}, "input": ""}
    rows = [
        _observation("o1", **plain, usage={"input": 10, "output": 2, "total": 12, "unit": "TOKENS"}),
        _observation("o2", **plain, promptTokens=20, completionTokens=3),
        _observation("o3", **plain, level="ERROR"),
        _observation("o4", **plain, usage={"input": 10, "output": 2, "unit": "CHARACTERS"}),
    ]
    for row in rows:
        row["usage_details"] = {}
    rows[0]["usage"] = {"input": 10, "output": 2, "total": 12, "unit": "TOKENS"}
    rows[3]["usage"] = {"input": 10, "output": 2, "unit": "CHARACTERS"}
    result = _one(tmp_path, rows)
    assert [(row["prompt_tokens"], row["status"]) for row in result.requests] == [
        (10, "ok"),
        (20, "ok"),
        (0, "failed"),
    ]
    assert [row["reason"].partition(":")[0] for row in result.rejects] == ["missing field"]


def test_hostile_langfuse_rows(tmp_path: Path) -> None:
    """Bad counts, a missing start, an end before it, a type that is none; each costs itself."""
    rows = [
        _observation("o1", {"input": -1, "output": 1}),
        _observation("o2", start_time=None),
        _observation("o3", end_time="2026-11-29 09:00:00"),
        _observation("o4", type=7),
        _observation("o5"),
    ]
    result = _one(tmp_path, rows)
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "negative number", "null field", "negative duration", "unknown observation",
    ]  # fmt: skip
    assert result.account.kept == 1
