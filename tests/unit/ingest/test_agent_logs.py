"""Logs that agents write themselves: LMCache traces, Claude Code transcripts, Codex rollouts."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, Result, closes, ingest, tree, write_lines
from support import shared

if TYPE_CHECKING:
    from pathlib import Path

TEN = "2026-11-29T10:00:"


def _one(tmp_path: Path, rows: list[Any], name: str = "log.jsonl", **options: Any) -> Result:
    return ingest(tmp_path / "ws", write_lines(tmp_path / name, rows), **options)


# LMCache


def _agent(at: float, text: Any = "user: Hi", **more: Any) -> dict[str, Any]:
    return {"timestamp": at, "input": text, "output": "Hi.", "session_id": "1aa87db6", **more}


@pytest.mark.parametrize("start", [1_760_995_776_640_783, 1_760_995_776.640783])
def test_lmcache_units_are_told_by_the_file(tmp_path: Path, start: float) -> None:
    """Integer microseconds and float seconds give the same time."""
    (row,) = _one(tmp_path, [_agent(start)]).requests
    assert row["started_at"].isoformat() == "2025-10-20T21:29:36.640783+00:00"
    assert (row["session_id"], row["keyed"]) == ("1aa87db6", True)


def test_lmcache_one_odd_unit_is_a_fault(tmp_path: Path) -> None:
    """The median of the file decides: a row in another unit is no date in this one, and no other file's clock."""
    result = _one(tmp_path, [*(_agent(1_760_995_776.5 + n) for n in range(5)), _agent(1_760_995_776_640_783)])
    assert (result.account.kept, result.account.rejected) == (5, 1)
    assert result.rejects[0]["reason"].startswith("time out of range")


def test_lmcache_bad_rows(tmp_path: Path) -> None:
    """Hostile rows are rejected, a prompt that was not logged is skipped, a line separator splits nothing."""
    bad = [_agent(1.0, timestamp="x"), _agent(1.7e9, 5), _agent(1.7e9, None), _agent(float(10**30))]
    rows = [_agent(1_760_995_776.5, "user: a\u2028b\u2029c\u0085d"), *bad, _agent(1_760_995_777.5, "")]
    result = ingest(
        tmp_path / "ws",
        write_lines(tmp_path / "log.jsonl", [json.dumps(r, ensure_ascii=False) for r in rows]),
    )
    assert result.account.records == 6
    assert (result.account.kept, result.account.rejected, result.account.skipped) == (1, 4, 1)
    assert [r["reason"].partition(":")[0] for r in result.rejects] == [
        "wrong type", "wrong type", "null field", "time out of range",
    ]  # fmt: skip
    assert "user" not in " ".join(r["excerpt"] for r in result.rejects)


@pytest.mark.slow
def test_shared_lmcache_traces(tmp_path: Path) -> None:
    """Every folder: each line is kept, or skipped because its prompt is empty; times lie where the files say."""
    folder = shared("traces/lmcache_agent")
    result = ingest(tmp_path / "ws", folder)
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text().split("\n"):
            if line:
                expected[path.relative_to(folder).as_posix()][not json.loads(line)["input"]] += 1
    found = {account.path: [account.kept, account.skipped] for account in result.summary.inputs}
    assert found == dict(expected)
    assert sum(account.records for account in result.summary.inputs) == 1_805
    assert {account.format for account in result.summary.inputs} == {"lmcache"}
    assert closes(result.summary)
    assert {row["started_at"].year for row in result.requests} == {2025}


# Claude Code


def _line(kind: str, own: str, above: str | None, second: float, **more: Any) -> dict[str, Any]:
    stamp = f"{TEN}{second:06.3f}Z"
    common = {"sessionId": "s1", "version": "2.1.83", "isSidechain": False}
    return {"parentUuid": above, **common, "type": kind, "uuid": own, "timestamp": stamp, **more}


def _asks(own: str, second: float, above: str | None = None, **more: Any) -> dict[str, Any]:
    return _line("user", own, above, second, message={"role": "user", "content": "Hi"}, **more)


def _says(
    own: str, above: str, second: float, message: str, output: int, request: str | None = None, **more: Any
) -> Any:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 555,
        "cache_read_input_tokens": 12_691,
        "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 55},
        "output_tokens": output,
        **more.pop("usage", {}),
    }
    held = {
        "id": message,
        "role": "assistant",
        "model": more.pop("model", "claude-haiku-4-5"),
        "usage": usage,
    }
    return _line("assistant", own, above, second, requestId=request or f"req_{message}", message=held, **more)


def test_lines_of_one_answer_are_one_request(tmp_path: Path) -> None:
    """The last and largest counts stand (7, 7, 210), the start is the question's time, once."""
    rows = [
        {"type": "summary", "summary": "x", "leafUuid": "l"},
        _asks("u1", 1),
        _says("a1", "u1", 2, "m1", 7),
        _says("a2", "a1", 3, "m1", 7),
        _says("a3", "a2", 4, "m1", 210),
        _asks("u2", 9, "a3"),
        _says("a4", "u2", 10.5, "m2", 5),
    ]
    result = _one(tmp_path, rows)
    account = result.account
    assert (account.records, account.kept, account.joined, account.skipped) == (7, 2, 2, 3)
    first, second = result.requests
    assert (first["output_tokens"], first["prompt_tokens"], first["cached_tokens_observed"]) == (
        210,
        13_249,
        12_691,
    )
    assert (first["cache_write_5m_tokens_observed"], first["cache_write_1h_tokens_observed"]) == (500, 55)
    assert (first["started_at"].second, first["finished_at"].second, first["source_line"]) == (1, 4, 3)
    assert (second["started_at"].second, second["request_id"]) == (9, "req_m2")
    assert (first["provider"], first["client"], first["session_id"]) == (
        "anthropic",
        "claude-code/2.1.83",
        "s1",
    )


def test_the_largest_count_stands_in_any_order(tmp_path: Path) -> None:
    """A placeholder after the true count changes nothing."""
    rows = [_asks("u1", 1), _says("a1", "u1", 2, "m1", 210), _says("a2", "a1", 3, "m1", 7)]
    assert [row["output_tokens"] for row in _one(tmp_path, rows).requests] == [210]


def test_synthetic_answers_are_no_calls(tmp_path: Path) -> None:
    """What the client made itself is skipped; so is what carries no usage."""
    rows = [
        _asks("u1", 1),
        _says("a1", "u1", 2, "m1", 1, model="<synthetic>"),
        _says("a2", "u1", 3, "m2", 1, isApiErrorMessage=True),
        _line("assistant", "a3", "u1", 4, message={"id": "m3", "model": "c"}),
        _says("a4", "u1", 5, "m4", 1),
    ]
    result = _one(tmp_path, rows)
    assert [row["request_id"] for row in result.requests] == ["req_m4"]
    assert result.account.reasons == {
        "line that is no answer of a model": 1, "answer that the client made itself": 2, "answer without usage": 1,
    }  # fmt: skip


def test_a_forked_session_counts_once(tmp_path: Path) -> None:
    """A child file repeats its parent's lines and adds three of its own; the order of the files is free."""
    parent = [_asks("u0", 0)]
    for number in range(1, 25):
        parent += [
            _says(f"a{number}", parent[-1]["uuid"], 1 + number, f"m{number}", 9),
            _asks(f"u{number}", 1.5 + number),
        ]
    own = [_asks("v1", 40), _says("b1", "v1", 41, "n1", 9), _says("b2", "b1", 42, "n2", 9)]
    child = [{**line, "sessionId": "s2"} for line in [*parent, *own]]
    for first, second in (("a", "b"), ("b", "a")):
        folder = tmp_path / first
        write_lines(folder / f"{first}.jsonl", parent)
        write_lines(folder / f"{second}.jsonl", child)
        result = ingest(folder / "ws", folder)
        assert len(result.requests) == 24 + 2
        assert sum(row["output_tokens"] for row in result.requests) == 26 * 9
        assert sum(account.duplicates for account in result.summary.inputs) == 24
        assert closes(result.summary)


def test_doubling_a_transcript_changes_no_request(tmp_path: Path) -> None:
    """The same lines twice in one file."""
    lines = (FIXTURES / "claude_code.jsonl").read_bytes()
    path = tmp_path / "twice.jsonl"
    path.write_bytes(lines + lines)
    drop = {"source", "source_file"}
    once, twice = ingest(tmp_path / "one", FIXTURES / "claude_code.jsonl"), ingest(tmp_path / "two", path)
    kept = [
        [{k: v for k, v in row.items() if k not in drop} for row in result.requests]
        for result in (once, twice)
    ]
    assert kept[0] == kept[1]
    assert closes(twice.summary)


def test_sub_agents_are_sessions_of_their_own(tmp_path: Path) -> None:
    """An agent's id, or the mark of a side chain, is part of the session; Bedrock is told by its message ids."""
    rows = [
        _asks("u1", 1),
        _says("a1", "u1", 2, "m1", 1, isSidechain=True, agentId="ag7"),
        _says("a2", "u1", 3, "m2", 1, isSidechain=True),
        _says("a3", "u1", 4, "msg_bdrk_01", 1),
    ]
    result = _one(tmp_path, rows)
    assert [row["session_id"] for row in result.requests] == ["s1/ag7", "s1/sidechain", "s1"]
    assert result.requests[2]["provider"] == "bedrock"


def test_hostile_transcript_lines(tmp_path: Path) -> None:
    """Negative and absurd counts, a missing time, a split that does not sum up."""
    rows = [
        _asks("u1", 1),
        _says("a1", "u1", 2, "m1", -1),
        _says("a2", "u1", 2, "m2", 10**30),
        {**_says("a3", "u1", 2, "m3", 1), "timestamp": None},
        _says("a4", "u1", 2, "m4", 1, usage={"cache_creation_input_tokens": 9}),
        {**_asks("u2", 3), "type": 5},
        _says("a5", "u1", 2, "m5", 1),
    ]
    result = _one(tmp_path, rows)
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "negative number", "absurd number", "null field", "impossible usage", "unknown line",
    ]  # fmt: skip
    assert result.account.kept == 1


# Codex


def _event(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"{TEN}{second:06.3f}Z", "type": kind, "payload": payload}


def _count(second: float, total: int, last: tuple[int, int, int] | None) -> dict[str, Any]:
    if last is None:
        return _event(second, "event_msg", type="token_count", info=None)
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "total_tokens")
    own = dict(zip(names, (*last, last[0] + last[2]), strict=True))
    totals = dict.fromkeys(names, total)
    info = {"total_token_usage": totals, "last_token_usage": own, "model_context_window": 258_400}
    return _event(second, "event_msg", type="token_count", info=info)


def _rollout(session: str = "s1", shift: float = 0) -> list[dict[str, Any]]:
    return [
        _event(shift, "session_meta", id=session, cli_version="0.98.0", model_provider="openai"),
        _event(shift + 0.5, "turn_context", model="gpt-5.6"),
        _event(shift + 1, "response_item", type="message", role="user", content=[]),
        _event(shift + 2, "event_msg", type="token_count", info=None),
        _event(shift + 3, "response_item", type="function_call", call_id="c1", name="shell"),
        _count(shift + 3.5, 14_691, (14_475, 2_432, 216)),
        _event(shift + 5, "response_item", type="function_call_output", call_id="c1", output="ok"),
        _count(shift + 5.5, 14_691, (14_475, 2_432, 216)),
        _event(shift + 8, "response_item", type="reasoning", encrypted_content="gAAA"),
        _count(shift + 8.5, 29_700, (15_000, 14_464, 9)),
        _count(shift + 9, 44_800, (15_100, 14_976, 1)),
    ]


def test_codex_counts_are_calls_once(tmp_path: Path) -> None:
    """A total that is told again is the same call; model, session and start come from the events before it."""
    result = _one(tmp_path, _rollout())
    assert (result.account.kept, result.account.joined, result.account.skipped) == (3, 1, 7)
    one, two, three = result.requests
    assert [row["prompt_tokens"] for row in (one, two, three)] == [14_475, 15_000, 15_100]
    assert [row["cached_tokens_observed"] for row in (one, two, three)] == [2_432, 14_464, 14_976]
    assert {
        (row["model"], row["session_id"], row["provider"], row["client"]) for row in (one, two, three)
    } == {("gpt-5.6", "s1", "openai", "codex/0.98.0")}
    assert [row["started_at"].second + row["started_at"].microsecond / 1e6 for row in (one, two, three)] == [
        1,
        5,
        8.5,
    ]
    assert '"model":"gpt-5.6"' in one["namespace"]


def test_codex_copies_in_a_forked_rollout_count_once(tmp_path: Path) -> None:
    """The copies have other times and stand in another session; ids of calls and sealed reasoning stay."""
    fork = _event(
        30, "session_meta", id="s2", forked_from_id="s1", cli_version="0.98.0", model_provider="openai"
    )
    later = [
        _event(40, "response_item", type="function_call", call_id="c9"),
        _count(41, 60_000, (16_000, 0, 5)),
    ]
    write_lines(tmp_path / "logs" / "a.jsonl", _rollout())
    write_lines(tmp_path / "logs" / "b.jsonl", [fork, *_rollout(shift=31), *later])
    result = ingest(tmp_path / "ws", tmp_path / "logs")
    assert [account.kept for account in result.summary.inputs] == [3, 1]
    assert result.summary.inputs[1].duplicates == 4
    assert closes(result.summary)


def test_codex_sessions_that_look_alike_are_two(tmp_path: Path) -> None:
    """Equal counts in two sessions without a common event are two calls."""
    rows = [
        _event(0, "session_meta", id="s1"),
        _event(0.5, "turn_context", model="m"),
        _count(1, 5, (4, 0, 1)),
    ]
    other = [_event(0, "session_meta", id="s2"), *rows[1:]]
    result = ingest(
        tmp_path / "ws", write_lines(tmp_path / "a.jsonl", rows), write_lines(tmp_path / "b.jsonl", other)
    )
    assert len(result.requests) == 2


def test_hostile_codex_events(tmp_path: Path) -> None:
    """More cached than there is, an unknown event, no time; a count of nothing is skipped."""
    rows = [
        *_rollout(),
        _count(20, 50_000, (100, 200, 1)),
        {"timestamp": f"{TEN}21Z", "type": "other", "payload": {}},
        {
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 1}}},
        },
        _count(22, 0, (0, 0, 0)),
    ]
    result = _one(tmp_path, rows)
    assert result.account.kept == 3
    assert [row["reason"].partition(":")[0] for row in sorted(result.rejects, key=lambda r: r["record"])] == [
        "absurd number", "unknown event", "missing field",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["claude_code.jsonl", "codex.jsonl", "vllm_text.log", "langfuse.jsonl", "sglang_text.log"]
)
def test_chunks_and_jobs_change_no_byte(tmp_path: Path, name: str) -> None:
    """What records say of each other does not depend on where the input was cut, nor on who parsed it."""
    trees = []
    for number, (chunk_bytes, jobs) in enumerate(
        [(1 << 24, 1), (1, 1), (700, 1), *([(900, 2)] if name[0] == "c" else [])]
    ):
        ingest(tmp_path / str(number), FIXTURES / name, chunk_bytes=chunk_bytes, jobs=jobs)
        trees.append(tree(tmp_path / str(number)))
    assert trees[0]
    assert all(other == trees[0] for other in trees[1:])
