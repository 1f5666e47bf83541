"""Text logs of vLLM and SGLang, SGLang's metrics exporter, and years that no line writes."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_support import FIXTURES, Result, closes, ingest, write_lines
from prefixledger.errors import UsageError
from prefixledger.ingest.pyrepr import balanced_end, keywords, literal, string_span, unquoted
from prefixledger.ingest.years import NOMINAL_YEAR, year_shifts

if TYPE_CHECKING:
    from pathlib import Path

IDS = list(range(100, 140))


def _log(
    tmp_path: Path,
    lines: list[str],
    name: str = "server.log",
    at: str = "2026-11-30T00:00:00",
    **options: Any,
) -> Result:
    path = write_lines(tmp_path / name, lines)
    seconds = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
    os.utime(path, (seconds, seconds))
    return ingest(tmp_path / "ws", path, **options)


def _vllm(
    text: str, at: str = "11-29 10:00:00", level: str = "INFO", before: str = "(APIServer pid=77) "
) -> str:
    return f"{before}{level} {at} [logger.py:39] {text}"


def _received(own: str, ids: list[int] | None = None, prompt: str = "Hi", lora: str = "None") -> str:
    listed = IDS if ids is None else ids
    return (
        f"Received request {own}: prompt: {prompt!r}, params: SamplingParams(n=1, stop=[]), prompt_token_ids: {listed}, "
        f"prompt_embeds shape: None, lora_request: {lora}, prompt_adapter_request: None."
    )


# vLLM


@pytest.mark.parametrize(
    "line",
    [
        _vllm(_received("cmpl-1-0")),
        _vllm(_received("cmpl-1-0"), before="").replace("[logger.py:39]", "logger.py:39]"),
        _vllm(_received("cmpl-1-0", prompt='it\'s "so"\n, prompt_token_ids: [1, 2], lora_request: x')),
        _vllm(_received("cmpl-1-0").replace("prompt_token_ids", "prompt token ids")),
        "\x1b[32mINFO\x1b[0m 11-29 10:00:00 [logger.py:39] " + _received("cmpl-1-0"),
        "pod-7 " + _vllm(_received("cmpl-1-0")),
        "2026-11-29T10:00:01.5Z stdout F " + _vllm(_received("cmpl-1-0")),
        json.dumps(
            {"log": _vllm(_received("cmpl-1-0")) + "\n", "stream": "stderr", "time": "2026-11-29T10:00:01.5Z"}
        ),
    ],
)
def test_vllm_lines_of_every_age_and_wrapper(tmp_path: Path, line: str) -> None:
    """Old and new prefixes, colours, runtimes, and a prompt that holds what looks like ids."""
    result = _log(
        tmp_path, [line, _vllm("Engine 000: Avg prompt throughput: 3 tokens/s")], format="vllm-text"
    )
    (row,) = result.requests
    assert (row["request_id"], row["prompt_tokens"], row["n_blocks"], row["provider"]) == (
        "cmpl-1-0",
        40,
        2,
        "vllm",
    )
    assert row["started_at"].isoformat() == "2026-11-29T10:00:00+00:00"
    assert (result.account.skipped, row["usage_state"]) == (1, "absent")


def test_vllm_lines_of_one_request_are_one_row(tmp_path: Path) -> None:
    """Received, details and answer: start of the first, ids of the second, end of the last, adapter and model."""
    lines = [
        _vllm("vLLM API server version 0.11.0", "11-29 09:58:00"),
        _vllm(
            "non-default args: {'model': 'Qwen/Qwen3-8B', 'served_model_name': ['qwen']}", "11-29 09:58:00"
        ),
        _vllm("GPU KV cache size: 433,248 tokens", "11-29 09:59:00", before="(EngineCore_DP0 pid=9) "),
        _vllm("# GPU blocks: 27078, # CPU blocks: 2048", "11-29 09:59:01"),
        _vllm(
            "Received request a: params: SamplingParams(n=1), lora_request: LoRARequest(lora_name='sql', lora_int_id=1)."
        ),
        _vllm(
            f"Request a details: prompt: 'Hi', prompt_token_ids: {IDS}, prompt_embeds shape: None.",
            level="DEBUG",
        ),
        _vllm("Generated response a (streaming delta): output: 'x', finish_reason: None", "11-29 10:00:03"),
        _vllm(
            "Generated response a (streaming complete): output: 'finish_reason: abort', finish_reason: stop",
            "11-29 10:00:04",
        ),
        _vllm("Generated response a details: output_token_ids: [5, 6, 7]", "11-29 10:00:04", level="DEBUG"),
        _vllm("Received request b: params: SamplingParams(n=1), lora_request: None."),
    ]
    result = _log(tmp_path, lines)
    (row,) = result.requests
    assert (row["prompt_tokens"], row["output_tokens"], row["n_blocks"], row["status"]) == (40, 3, 2, "ok")
    assert (row["adapter"], row["model"]) == ("sql", "qwen")
    assert (row["finished_at"] - row["started_at"]).total_seconds() == 4
    assert (result.account.joined, result.account.rejected, result.account.skipped) == (3, 1, 5)
    assert result.rejects[0]["reason"] == "missing field: prompt tokens"
    facts = [
        (fact["kind"], fact.get("tokens", fact.get("blocks", fact.get("version"))))
        for fact in result.account.facts
    ]
    assert facts == [("start", "0.11.0"), ("capacity", 433_248), ("capacity", 27_078)]
    nine = datetime(2026, 11, 29, 9, 58, tzinfo=UTC).timestamp()
    assert [fact["at_us"] for fact in result.account.facts[:2]] == [nine * 1e6, (nine + 60) * 1e6]
    assert result.account.facts[1]["process"] == "EngineCore_DP0"
    assert result.manifest["sources"][0]["facts"][1]["line"] == 3


def test_vllm_cut_prompts_are_told_by_their_length(tmp_path: Path) -> None:
    """``--max-log-len 32`` cuts text and ids alike: as many characters as ids is no coincidence."""
    cut = _received("a", list(range(32)), "x" * 32)
    result = _log(
        tmp_path,
        [
            _vllm(cut),
            _vllm(_received("b", list(range(32)), "x" * 100)),
            _vllm(_received("c", [1] * 8, "x" * 8)),
        ],
    )
    assert [row["prompt_complete"] for row in result.requests] == [False, True, True]


def test_vllm_years_roll_over(tmp_path: Path) -> None:
    """December, then January: the last line is not after the file; ``year`` and ``zone`` are stronger."""
    lines = [
        _vllm(_received(own), at)
        for own, at in (("a", "12-31 23:59:59"), ("b", "01-01 00:00:00"), ("c", "02-29 08:00:00"))
    ]
    result = _log(tmp_path, lines, at="2027-06-01T00:00:00")
    starts = [row["started_at"].isoformat() for row in result.requests]
    assert starts == ["2023-12-31T23:59:59+00:00", "2024-01-01T00:00:00+00:00", "2024-02-29T08:00:00+00:00"]
    assert any(
        "years" not in note and "2023 to 2024, by the time of the file" in note
        for note in result.account.notes
    )
    told = ingest(tmp_path / "told", tmp_path / "server.log", year=2027, zone="America/New_York")
    assert told.requests[0]["started_at"].isoformat() == "2028-01-01T04:59:59+00:00"


def test_vllm_hostile_lines(tmp_path: Path) -> None:
    """Broken ids, a prompt without an end, a date that does not exist, a line that a runtime cut; other lines are skipped."""
    lines = [
        _vllm(_received("a").replace("[100, 101,", "[100, x,")),
        _vllm(_received("b"))[:84],
        _vllm(_received("c"), "13-29 10:00:00"),
        "2026-11-29T10:00:01.5Z stdout P " + _vllm(_received("d"))[:100],
        _vllm(_received("e", [-1, 2])),
        'INFO:     127.0.0.1:5014 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        _vllm(_received("f")),
    ]
    result = _log(tmp_path, lines)
    assert [row["request_id"] for row in result.requests] == ["f"]
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "wrong type", "cut line", "unreadable time", "cut line", "u64 out of range",
    ]  # fmt: skip
    assert closes(result.summary)


def test_no_year_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes through a pipe has no time of its own: the year must be said."""
    import io
    import sys

    for year, raises in ((None, True), (2026, False)):
        text = (FIXTURES / "vllm_text.log").read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        if raises:
            with pytest.raises(UsageError, match="no year"):
                ingest(tmp_path / "a", "-", year=year)
        else:
            assert ingest(tmp_path / "b", "-", year=year).account.kept == 12


DAY_US = 86_400_000_000
START_US = int(datetime(NOMINAL_YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


@given(st.lists(st.integers(0, 170 * DAY_US), min_size=1, max_size=30), st.integers(2005, 2090))
def test_years_are_found_from_steps(steps: list[int], first_year: int) -> None:
    """Times that never step ahead by half a year keep their order and their dates, whatever year they begin in."""
    true_us = int(datetime(first_year, 3, 1, tzinfo=UTC).timestamp()) * 1_000_000 + np.cumsum([0, *steps])
    moments = [datetime.fromtimestamp(us // 1_000_000, UTC) for us in true_us.tolist()]
    nominal = [
        int(m.replace(year=NOMINAL_YEAR).timestamp()) * 1_000_000 + us % 1_000_000
        for m, us in zip(moments, true_us, strict=True)
    ]
    logged = np.array(nominal, np.int64)
    assert np.array_equal(logged + year_shifts(logged, file_us=None, first_year=first_year), true_us)
    assert np.array_equal(
        logged + year_shifts(logged, file_us=int(true_us[-1]) + 60_000_000, first_year=None), true_us
    )


@given(st.text(max_size=40), st.text(max_size=40))
def test_python_strings_are_read_as_python_does(text: str, other: str) -> None:
    """A repr ends where its string does, whatever is in it, and brackets inside strings close nothing."""
    line = f"prompt: {text!r}, x=[{other!r}, (1, '{{')], y={{'a': {text!r}}}) rest"
    span = string_span(line, 8)
    assert span is not None
    assert unquoted(line[slice(*span)]) == text
    found, end = keywords("Req(" + f"rid={text!r}, ids=[1, 2], meta={{'k': {other!r}}})", 3)
    assert literal(found["meta"]) == {"k": other}
    assert (unquoted(found["rid"]), found["ids"], end) == (
        text,
        "[1, 2]",
        len("Req(" + f"rid={text!r}, ids=[1, 2], meta={{'k': {other!r}}})"),
    )
    assert balanced_end(f"[{text!r}]", 0) == len(f"[{text!r}]")


# SGLang


def _object(rid: str, ids: str | None = None, **fields: str) -> str:
    held = {"rid": repr(rid), "text": "None", "input_ids": str(IDS) if ids is None else ids, **fields}
    return "GenerateReqInput(" + ", ".join(f"{name}={value}" for name, value in held.items()) + ")"


def _finish(rid: str, ids: str | None = None, meta: dict[str, Any] | None = None, **fields: str) -> str:
    held = {
        "id": rid,
        "prompt_tokens": 40,
        "completion_tokens": 2,
        "cached_tokens": 16,
        "finish_reason": {"type": "stop"},
        **(meta or {}),
    }
    return f"Finish: obj={_object(rid, ids, **fields)}, out={{'text': 'a, out={{', 'meta_info': {held}}}"


AT = "[2026-11-29 10:00:0{}] "


def test_sglang_text_halves_are_one_request(tmp_path: Path) -> None:
    """Received and finished make one row with the ids and counts of both; other lines are skipped."""
    lines = [
        AT.format(0) + "Receive: obj=" + _object("9f", lora_path="'sql'", extra_key="'k'"),
        AT.format(0) + "Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 1024",
        AT.format(2)
        + _finish("9f", lora_path="'sql'", extra_key="'k'", sampling_params="SamplingParams(stop=['),'])"),
        AT.format(3) + "Receive: obj=" + _object("HEALTH_CHECK_1"),
    ]
    result = _log(tmp_path, lines)
    (row,) = result.requests
    assert result.account.format == "sglang-text"
    assert (row["prompt_tokens"], row["cached_tokens_observed"], row["output_tokens"], row["n_blocks"]) == (
        40,
        16,
        2,
        2,
    )
    assert (row["adapter"], row["cache_salt"]) == ("sql", "k")
    assert (row["finished_at"] - row["started_at"]).total_seconds() == 2
    assert result.account.reasons == {"line that is no request": 1, "health check": 1}


def test_sglang_text_takes_what_times_there_are(tmp_path: Path) -> None:
    """Unix times of the engine, the runtime's time, or none at all, which is a reject."""
    unix = {"request_received_ts": 1_795_946_400.5, "e2e_latency": 0.25}
    lines = [
        _finish("a", meta=unix),
        "2026-11-29T10:00:05Z stdout F " + _finish("b", meta={"e2e_latency": 1.0}),
        _finish("c"),
    ]
    result = _log(tmp_path, lines)
    assert [row["started_at"].timestamp() for row in result.requests] == [1_795_946_400.5, 1_795_946_404.0]
    assert result.rejects[0]["reason"].startswith("missing field: a time")


def test_sglang_text_hostile_lines(tmp_path: Path) -> None:
    """More cached than there is, a shortened list, meta without an end, no id, ids that are none."""
    lines = [
        AT.format(0) + _finish("a", str(list(range(87))), {"prompt_tokens": 87, "cached_tokens": 128}),
        AT.format(1) + _finish("b", f"{list(range(1024))} ... {list(range(1024))}", {"prompt_tokens": 5_000}),
        (AT.format(2) + _finish("c"))[:-20],
        AT.format(3) + "Receive: obj=" + _object("").replace("''", "None"),
        AT.format(4) + _finish("d", "[1, x]"),
    ]
    result = _log(tmp_path, lines)
    (row,) = result.requests
    assert (row["prompt_tokens"], row["n_blocks"], row["prompt_complete"]) == (5_000, 64, False)
    assert [r["reason"].partition(":")[0] for r in result.rejects] == [
        "absurd number",
        "cut line",
        "missing field",
        "wrong type",
    ]
    assert "64-token blocks" in result.rejects[0]["reason"]


def test_sglang_exporter(tmp_path: Path) -> None:
    """Parameters inside, unix times, three states of cached tokens, impossible rows, health checks."""

    def line(rid: str, ids: Any = IDS, **meta: Any) -> dict[str, Any]:
        sent = json.dumps({"rid": rid, "input_ids": ids, "lora_path": "sql"})
        times = {"request_received_ts": 1_795_946_400.5, "request_finished_ts": 1_795_946_401.5}
        return {
            "request_parameters": sent,
            "id": rid,
            "prompt_tokens": 40,
            "completion_tokens": 2,
            **times,
            **meta,
        }

    rows = [
        line("a", cached_tokens=0), line("b", cached_tokens=None), line("c", dp_rank=1), line("d", cached_tokens=41),
        line("e", ids="x"), line("f", request_received_ts=None, e2e_latency=0.25), line("HEALTH_CHECK"), line("a", cached_tokens=0),
        line("g", request_finished_ts=1.0),
    ]  # fmt: skip
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "sglang-request-metrics-20261129_10.log", rows))
    a, b, c, f = result.requests
    assert [row["usage_state"] for row in (a, b, c)] == ["present", "null", "absent"]
    assert (a["n_blocks"], a["adapter"], c["replica"]) == (2, "sql", "dp1")
    assert f["started_at"].timestamp() == 1_795_946_401.25
    assert (result.account.duplicates, result.account.skipped, result.account.rejected) == (1, 1, 3)
    assert closes(result.summary)


def test_lines_that_kubernetes_split_are_whole_again(tmp_path: Path) -> None:
    """A long prompt in pieces of 16 KiB is one request, in text and in JSON, wherever the chunks end."""
    ids = list(range(9_000))
    text = _vllm(_received("a", ids))
    body = json.dumps(
        {
            "timestamp": "2026-11-29T10:00:00",
            "event": "request.received",
            "rid": "a",
            "obj": {"input_ids": ids},
        }
    )
    for name, line in (("vllm-text", text), ("sglang", body)):
        at = "2026-11-29T10:00:01.5Z stdout"
        pieces = [line[start : start + 16_384] for start in range(0, len(line), 16_384)]
        rows = [f"{at} {'F' if part is pieces[-1] else 'P'} {part}" for part in pieces]
        assert len(rows) > 2
        for chunk_bytes in (1 << 20, 20_000):
            result = _log(tmp_path / f"{name}{chunk_bytes}", rows, chunk_bytes=chunk_bytes)
            assert result.account.format == name
            assert [(row["prompt_tokens"], row["source_line"]) for row in result.requests] == [(9_000, 1)]
