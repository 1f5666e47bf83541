"""API calls in wrappers of every kind, answers as bodies and as streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchange_support import NOON, REQUEST, USAGE, answer, anthropic_events, read, sse
from ingest_support import ingest
from prefixledger.ingest.exchange import find_exchange
from prefixledger.ingest.streams import STREAM, joined_answer, sse_events

if TYPE_CHECKING:
    from pathlib import Path


WRAPPED = {
    "two objects": lambda ask, say: {"ts": NOON, "request": ask, "response": say},
    "text": lambda ask, say: {"ts": NOON, "req": json.dumps(ask), "res": json.dumps(say)},
    "http": lambda ask, say: {
        "time": NOON, "http": {"request": {"headers": {"X-Request-Id": "h-1"}, "body": json.dumps(ask)},
                               "response": {"status": 200, "headers": {}, "body": json.dumps(say)}}},
    "four deep": lambda ask, say: {"at": {"one": {"two": {"in": ask, "out": say}}}, "ts": NOON},
    "flat": lambda ask, say: {"ts": NOON, **ask, "response": say},
    "named input and output": lambda ask, say: {"ts": NOON, "input": ask, "output": say, "usage": say["usage"]},
    "answer alone": lambda ask, say: say,  # noqa: ARG005
    "in the message of a logger": lambda ask, say: {"ts": NOON, "level": "info", "message": json.dumps({"q": ask, "a": say})},
}  # fmt: skip


@pytest.mark.parametrize("layout", WRAPPED)
def test_bodies_are_found_in_any_wrapper(tmp_path: Path, layout: str) -> None:
    """At any of four depths, as objects or as JSON inside text, the call is the same."""
    result = read(tmp_path, [WRAPPED[layout](REQUEST, answer())])
    (row,) = result.requests
    assert result.account.format == "api-exchange"
    assert (row["request_id"], row["model"], row["prompt_tokens"]) == ("chatcmpl-1", "gpt-x-1", 40)
    assert (row["cached_tokens_observed"], row["output_tokens"], row["status"]) == (32, 3, "ok")
    assert row["started_at"] == datetime.fromtimestamp(NOON, UTC)


def test_bodies_below_the_fourth_object_are_not_searched() -> None:
    """The search is bounded, so that a record of any depth costs the same."""
    record: dict[str, Any] = {"request": REQUEST}
    for _ in range(5):
        record = {"x": record}
    assert find_exchange(record).request is None
    assert find_exchange({"x": {"y": {"z": {"request": REQUEST}}}}).request == REQUEST


def test_usage_without_bodies_is_a_row_without_keys(tmp_path: Path) -> None:
    """Redacted logs keep their numbers: prompt, observed hits, model and time."""
    (row,) = read(tmp_path, [{"ts": NOON, "model": "gpt-x", "usage": USAGE, "request_id": "r1"}]).requests
    assert (row["request_id"], row["keyed"], row["prompt_tokens"], row["cached_tokens_observed"]) == (
        "r1",
        False,
        40,
        32,
    )


def test_other_json_is_not_taken_for_calls(tmp_path: Path) -> None:
    """Logs with errors, usage of machines or texts, but no call, are of no known format."""
    for row in (
        {"usage": {"cpu": 3}},
        {"error": {"message": "disk full"}},
        {"input": "a", "output": "b"},
        {"total": 3},
    ):
        with pytest.raises(Exception, match="no known format fits"):
            read(tmp_path, [row] * 5)


def test_counts_of_a_stream_are_cumulative(tmp_path: Path) -> None:
    """Start and delta carry the same totals: the last counts, none is added."""
    row = {"ts": NOON, "request": {"model": "claude", "messages": [{"role": "user", "content": "Hi"}]}}
    answers = [
        sse(anthropic_events()),
        anthropic_events(),
        json.dumps(anthropic_events()),
        [*sse(anthropic_events())],
    ]
    for number, logged in enumerate(answers):
        (got,) = read(tmp_path / str(number), [{**row, "response": logged}]).requests
        assert (got["prompt_tokens"], got["cached_tokens_observed"], got["output_tokens"]) == (805, 800, 210)
        assert (got["request_id"], got["model"], got["status"]) == ("msg_1", "claude", "ok")


def test_a_stream_that_was_cut_is_a_lookup(tmp_path: Path) -> None:
    """Without its end it is cut, with what its start said; one that died before any output failed."""
    row = {"ts": NOON, "request": {"model": "claude", "messages": []}}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
    cut = sse(anthropic_events(whole=False))
    rows = [
        {**row, "response": cut},
        {**row, "response": cut[: cut.index("content_block") + 40]},
        {**row, "response": sse([error])},
    ]
    result = read(tmp_path, [{**r, "request_id": f"r{n}"} for n, r in enumerate(rows)])
    assert [r["status"] for r in result.requests] == [
        "cut",
        "failed",
    ]  # the second tells of the first's answer again
    assert [r["prompt_tokens"] for r in result.requests] == [805, 0]
    assert result.account.duplicates == 1


def test_chunks_of_chat_gemini_and_converse() -> None:
    """Usage comes with the last chunk, or with every one; ``[DONE]`` or a reason to finish ends the stream."""
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    delta = {**chunk, "choices": [{"delta": {"content": "H"}, "finish_reason": None}], "usage": None}
    last = {**chunk, "choices": [], "usage": USAGE}
    chat = joined_answer([*sse_events(sse([delta, last], done=True))])
    assert chat is not None
    assert (chat["usage"], chat["id"], chat[STREAM]) == (
        USAGE,
        "chatcmpl-1",
        {"ended": True, "produced": True, "error": False},
    )
    parts = [
        {
            "candidates": [{"content": {"parts": []}}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": n},
        }
        for n in (1, 4)
    ]
    gemini = joined_answer(parts)
    assert gemini is not None
    assert gemini["usageMetadata"]["candidatesTokenCount"] == 4
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    converse = joined_answer(
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {}},
            {"messageStop": {}},
            {"metadata": {"usage": usage}},
        ]
    )
    assert converse is not None
    assert (converse["usage"], converse[STREAM]["ended"]) == (usage, True)
    assert joined_answer([{"level": "info"}]) is None


def test_single_events_are_no_calls_until_they_carry_usage(tmp_path: Path) -> None:
    """A log of events, one a line, has one call for each stream."""
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": NOON, "model": "m"}
    delta = {**chunk, "choices": [{"delta": {"content": "H"}}]}
    result = read(tmp_path, [delta, delta, {**chunk, "choices": [], "usage": USAGE}], format="api-exchange")
    assert (result.account.kept, result.account.reasons) == (1, {"event of a stream": 2})
    assert result.requests[0]["status"] == "ok"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab\u2028\u2029\u0085\n\r \\"é'), max_size=30))
def test_only_line_feeds_end_an_event(text: str) -> None:
    """Unicode line separators inside a text split no event."""
    event = {"type": "content_block_delta", "delta": {"text": text}}
    assert list(sse_events(f"event: x\ndata: {json.dumps(event, ensure_ascii=False)}\n\n")) == [event]


def test_a_bare_capture_is_read_stream_by_stream(tmp_path: Path) -> None:
    """Events of several answers one after the other, without anything around them: each answer is a record."""
    chunk = {"object": "chat.completion.chunk", "created": NOON, "model": "m"}
    chat = [{**chunk, "id": f"chatcmpl-{n}", "choices": [{"delta": {"content": "H"}}]} for n in (1, 2)]
    ends = [{**chunk, "id": f"chatcmpl-{n}", "choices": [], "usage": USAGE} for n in (1, 2)]
    text = sse([chat[0], ends[0], chat[1]]) + sse([ends[1]], done=True) + sse(anthropic_events())
    path = tmp_path / "capture.sse"
    path.write_text(text)
    result = ingest(tmp_path / "ws", path)
    assert [(r["request_id"], r["prompt_tokens"], r["status"]) for r in result.requests] == [
        ("chatcmpl-1", 40, "cut"), ("chatcmpl-2", 40, "ok"), ("msg_1", 805, "ok"),
    ]  # fmt: skip
