"""What the two halves of a request in the log of SGLang become."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from log_support import NOON_MS, ingest_rows, micros

if TYPE_CHECKING:
    from pathlib import Path


def _received(
    rid: str, ids: list[Any] | None, at: str = "2026-11-29T12:00:00.250000", **obj: Any
) -> dict[str, Any]:
    return {
        "timestamp": at,
        "event": "request.received",
        "rid": rid,
        "obj": {"rid": rid, "input_ids": ids, **obj},
    }


def _finished(
    rid: str, ids: list[Any] | None, at: str = "2026-11-29T12:00:01", **meta: Any
) -> dict[str, Any]:
    told = {"id": rid, "prompt_tokens": len(ids or []), "completion_tokens": 2, "cached_tokens": 16, **meta}
    row = _received(rid, ids, at)
    return {**row, "event": "request.finished", "out": {"text": None, "meta_info": told}}


IDS = list(range(40))


def test_sglang_halves_are_one_request(tmp_path: Path) -> None:
    """Received and finished lines make one row, in either order; the second half is counted as joined."""
    rows = [
        _received("a", IDS),
        _received("b", IDS),
        _finished("a", IDS),
        _finished("c", IDS),
        _received("c", IDS),
    ]
    result = ingest_rows(tmp_path, rows)
    account = result.account
    assert (account.records, account.kept, account.joined) == (5, 3, 2)
    a, b, c = result.requests
    assert [row["request_id"] for row in (a, b, c)] == ["a", "b", "c"]
    assert micros(a["started_at"]) % 1_000_000 == 250_000
    assert (a["cached_tokens_observed"], a["usage_state"], a["output_tokens"]) == (16, "present", 2)
    assert (b["cached_tokens_observed"], b["usage_state"], b["finished_at"]) == (None, "absent", None)
    assert c["source_line"] == 5
    assert result.labels(a) == result.labels(b) == result.labels(c)
    assert len(result.labels(a)) == 2
    assert a["provider"] == "sglang"


def test_sglang_halves_complete_each_other(tmp_path: Path) -> None:
    """What the finished line does not repeat is taken from the received one: prompt, session, salt, rank."""
    told = _received("a", IDS, conversation_id="c7", extra_key="salt", routed_dp_rank=3)
    ended = {**_finished("a", None, prompt_tokens=40), "obj": {"rid": "a"}}
    for name, rows in (("in order", [told, ended]), ("reversed", [ended, told])):
        result = ingest_rows(tmp_path / name, rows)
        (row,) = result.requests
        assert (row["session_id"], row["cache_salt"], row["replica"]) == ("c7", "salt", "dp3")
        assert (row["keyed"], row["n_blocks"], len(result.labels(row))) == (True, 2, 2)
        assert '"cache_salt":"salt"' in row["namespace"]
        assert (row["prompt_tokens"], row["cached_tokens_observed"], row["output_tokens"]) == (40, 16, 2)


def test_sglang_lines_may_have_a_prefix(tmp_path: Path) -> None:
    """``[date time]`` before the object changes nothing but the bytes."""
    bare = ingest_rows(tmp_path / "bare", [_finished("a", IDS)])
    text = "[2026-11-29 12:00:01] " + json.dumps(_finished("a", IDS))
    prefixed = ingest_rows(tmp_path / "prefixed", [text])
    cri = ingest_rows(
        tmp_path / "cri", ["2026-11-29T12:00:01.5Z stdout F " + json.dumps(_finished("a", IDS))]
    )
    drop = {"source", "source_node"}
    kept = [{k: v for k, v in r.requests[0].items() if k not in drop} for r in (bare, prefixed, cri)]
    assert kept[0] == kept[1] == kept[2]


def test_sglang_takes_unix_times_where_they_are_logged(tmp_path: Path) -> None:
    """Unix times win over local ones, and tell the zone of rows that have local times alone."""
    noon = NOON_MS / 1_000
    known = _finished(
        "a",
        IDS,
        "2026-11-29T14:00:01.100000",
        request_received_ts=noon,
        request_finished_ts=noon + 1,
        e2e_latency=1.0,
    )
    result = ingest_rows(
        tmp_path,
        [_received("a", IDS, "2026-11-29T14:00:00"), known, _received("b", IDS, "2026-11-29T14:00:02")],
    )
    a, b = result.requests
    assert micros(a["started_at"]) == NOON_MS * 1_000
    assert micros(a["finished_at"]) == NOON_MS * 1_000 + 1_000_000
    assert micros(b["started_at"]) == NOON_MS * 1_000 + 2_000_000
    assert any("UTC+02:00" in note for note in result.account.notes)


def test_sglang_start_without_received_line_is_end_less_latency(tmp_path: Path) -> None:
    """Where only the end was logged, the latency gives the start."""
    (row,) = ingest_rows(tmp_path, [_finished("a", IDS, e2e_latency=0.75)]).requests
    assert micros(row["finished_at"]) - micros(row["started_at"]) == 750_000


def test_sglang_shortened_lists_give_the_head_only(tmp_path: Path) -> None:
    """A level-2 list has keys up to its mark, and the recorded length stays."""
    short = [*range(1_024), "...", *range(1_024)]
    row_in = _finished("a", short, prompt_tokens=5_000)
    result = ingest_rows(tmp_path, [row_in, _received("b", short)])
    (row,) = result.requests
    assert (row["prompt_tokens"], row["prompt_complete"], row["n_blocks"]) == (5_000, False, 64)
    assert [r["reason"] for r in result.rejects] == ["missing field: prompt tokens"]


def test_sglang_health_checks_and_raw_bodies_are_skipped(tmp_path: Path) -> None:
    """Probes are no traffic."""
    raw = {"timestamp": "2026-11-29T12:00:00", "event": "request.received.openai", "obj": {"messages": []}}
    result = ingest_rows(
        tmp_path,
        [_received("HEALTH_CHECK_7", [0]), _finished("HEALTH_CHECK_7", [0]), raw, _finished("a", IDS)],
    )
    assert result.account.reasons == {"health check": 2, "raw body of a request": 1}
    assert result.account.kept == 1


def test_sglang_names_replica_adapter_and_salt(tmp_path: Path) -> None:
    """Host and rank of the file name, data-parallel rank, LoRA path and extra key; the last two part the keys."""
    rows = [
        _finished("a", IDS, dp_rank=1),
        {**_finished("b", IDS), "obj": {"rid": "b", "input_ids": IDS, "lora_path": "sql"}},
        {**_finished("c", IDS), "obj": {"rid": "c", "input_ids": IDS, "extra_key": "tenant-1"}},
    ]
    result = ingest_rows(tmp_path, rows, "gpu-node_3.log.2026-11-29_12")
    a, b, c = result.requests
    assert (a["replica"], b["replica"]) == ("gpu-node_3/dp1", "gpu-node_3")
    assert (b["adapter"], c["cache_salt"]) == ("sql", "tenant-1")
    assert len({row["namespace"] for row in (a, b, c)}) == 3
    assert ingest_rows(tmp_path / "plain", [_finished("a", IDS)]).requests[0]["replica"] is None


def test_sglang_batches_are_one_request_a_prompt(tmp_path: Path) -> None:
    """A line with lists of ids and prompts is as many records."""
    obj = {"rid": ["a", "b"], "input_ids": [IDS, IDS[:20]]}
    outs = [{"meta_info": {"prompt_tokens": n, "completion_tokens": 1, "cached_tokens": 0}} for n in (40, 20)]
    line = {
        "timestamp": "2026-11-29T12:00:00",
        "event": "request.finished",
        "rid": ["a", "b"],
        "obj": obj,
        "out": outs,
    }
    result = ingest_rows(tmp_path, [line, _finished("c", IDS)])
    assert result.account.records == 3
    assert [(r["request_id"], r["n_blocks"], r["source_line"]) for r in result.requests] == [
        ("a", 2, 1),
        ("b", 1, 2),
        ("c", 2, 3),
    ]


@pytest.mark.parametrize(
    ("reason", "output", "status"),
    [
        ({"type": "stop"}, 5, "ok"),
        ({"type": "length"}, 5, "ok"),
        ({"type": "abort", "message": "client left"}, 3, "cut"),
        ({"type": "abort", "status_code": 400}, 0, "failed"),
        ({"type": "abort", "status_code": 503}, 0, "failed"),
        (None, 5, "ok"),
    ],
)
def test_sglang_aborts_are_cut_or_failed(tmp_path: Path, reason: Any, output: int, status: str) -> None:
    """An abort after some output was in the cache; one with an error code and no output was not."""
    line = _finished("a", IDS, finish_reason=reason, completion_tokens=output)
    assert ingest_rows(tmp_path, [line]).requests[0]["status"] == status
