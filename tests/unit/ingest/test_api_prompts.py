"""What is read of an API call beside its usage: ids, times, people, and the prompt as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from exchange_support import NOON, REQUEST, answer, read
from ingest_support import FIXTURES, ingest, tree
from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.prompts import cache_ttls, text_parts
from prefixledger.ingest.records import BadRecordError

if TYPE_CHECKING:
    from pathlib import Path


def test_token_ids_make_keys(tmp_path: Path) -> None:
    """Completions of ids, several prompts in one call, and ids that vLLM gives back; images hide theirs."""
    body = {"object": "text_completion", "created": NOON, "model": "m", "choices": []}
    usage = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}
    picture = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
    }
    rows = [
        {"ts": NOON, "request": {"model": "m", "prompt": list(range(40))}, "response": {**body, "id": "a", "usage": usage}},
        {"ts": NOON, "request": {"model": "m", "prompt": [list(range(40)), list(range(20))]},
         "response": {**body, "id": "b", "usage": {**usage, "prompt_tokens": 60}}},
        {"ts": NOON, "request": REQUEST, "response": {**answer(), "id": "c", "prompt_token_ids": list(range(40))}},
        {"ts": NOON, "request": picture, "response": {**answer(), "id": "d", "prompt_token_ids": list(range(40))}},
    ]  # fmt: skip
    result = read(tmp_path, rows)
    got = {row["request_id"]: row for row in result.requests}
    assert {name: got[name]["n_blocks"] for name in ("a", "b-0", "b-1", "c")} == {
        "a": 2,
        "b-0": 2,
        "b-1": 1,
        "c": 2,
    }
    assert result.labels(got["a"]) == result.labels(got["b-0"])
    assert result.labels(got["b-1"]) == result.labels(got["a"])[:1]
    assert (got["b-1"]["usage_state"], got["b-1"]["prompt_tokens"]) == ("absent", 20)
    assert result.labels(got["d"]) != result.labels(got["c"])


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (NOON, NOON * 1_000_000), (NOON * 1_000, NOON * 1_000_000), (NOON * 1_000_000, NOON * 1_000_000),
        (NOON * 10**9, NOON * 1_000_000), (NOON + 0.25, NOON * 1_000_000 + 250_000), (str(NOON), NOON * 1_000_000),
        ("2026-11-29T12:00:00.1234567Z", NOON * 1_000_000 + 123_456), ("2026-11-29 12:00:00 UTC", NOON * 1_000_000),
        ("Sun, 29 Nov 2026 12:00:00 GMT", NOON * 1_000_000), (638_515_262_815_394_150, 1_715_929_481_539_415),
    ],
)  # fmt: skip
def test_a_time_is_told_by_its_magnitude(value: Any, us: int) -> None:
    """Seconds to nanoseconds, .NET ticks, ISO 8601 and HTTP dates."""
    assert moment_us(value, "ts") == (us, True)
    assert moment_us("2026-11-29 12:00:00", "ts") == (NOON * 1_000_000, False)
    with pytest.raises(BadRecordError, match="time out of range"):
        moment_us(12.5, "ts")


def test_a_call_without_a_time_keeps_its_place(tmp_path: Path) -> None:
    """It stands where the timed row before it does, whatever the chunks; a log without any time is relative."""
    body = {key: value for key, value in answer().items() if key != "created"}
    untimed = [{"request": REQUEST, "response": {**body, "id": f"u{n}"}, "latency_ms": 50} for n in range(3)]
    timed = {"ts": NOON, "request": REQUEST, "response": {**body, "id": "t"}}
    rows = [untimed[0], timed, untimed[1], untimed[2]]
    result = read(tmp_path, rows)
    assert {r["started_at"] for r in result.requests} == {datetime.fromtimestamp(NOON, UTC)}
    assert result.requests[0]["finished_at"] == datetime.fromtimestamp(NOON + 0.05, UTC)
    assert any(note.startswith("3 rows carry no time") for note in result.account.notes)
    small = ingest(tmp_path / "small", tmp_path / "log.jsonl", chunk_bytes=200)
    assert small.requests == result.requests
    none = read(tmp_path / "none", untimed)
    assert (none.account.clock, none.account.kept) == ("relative", 3)


def test_who_asked_and_who_served(tmp_path: Path) -> None:
    """Address and body name the service; routing keys are tenants, users are hashed; a transcript id is a session."""
    user = {
        "model": "claude-x",
        "messages": [],
        "metadata": {"user_id": "user_9_account_8_session_0f3c9a12-aaaa"},
    }
    message = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    rows = [
        {"ts": NOON, "url": "https://api.openai.com/v1/chat/completions", "pod": "gw-3", "release": "v7", "route": "a",
         "request": {**REQUEST, "prompt_cache_key": "acme"}, "response": answer(1, service_tier="flex")},
        {"ts": NOON, "request": user, "response": {**message, "id": "m1"}, "route": "b"},
        {"ts": NOON, "url": "http://10.0.0.1:8000/v1/chat/completions", "tenant": "inner", "request": REQUEST, "response": answer(2)},
    ]  # fmt: skip
    first, second, third = read(tmp_path, rows).requests
    assert (first["provider"], first["tenant"], first["replica"], first["release"]) == (
        "openai",
        "acme",
        "gw-3",
        "v7",
    )
    assert (first["service_tier"], first["labels"]) == ("flex", [("route", "a")])
    assert (second["provider"], second["session_id"]) == ("anthropic", "0f3c9a12-aaaa")
    assert second["tenant"] is not None
    assert "user_9" not in second["tenant"]
    assert (third["provider"], third["tenant"]) == (None, "inner")


def test_answers_that_continue_each_other_are_a_session(tmp_path: Path) -> None:
    """Previous response ids make chains, and the first answer names them; a call by itself has no session."""
    usage = {"input_tokens": 15, "output_tokens": 9, "total_tokens": 24}
    rows = []
    for n, previous in ((1, None), (2, "resp_1"), (3, None), (4, "resp_2")):
        body = {"model": "m", "input": "Hi", **({"previous_response_id": previous} if previous else {})}
        body_of_answer = {
            "id": f"resp_{n}",
            "object": "response",
            "created_at": NOON + n,
            "output": [],
            "usage": usage,
        }
        rows.append({"request": body, "response": body_of_answer})
    result = read(tmp_path, rows)
    assert [r["session_id"] for r in result.requests] == ["resp_1", "resp_1", None, "resp_1"]
    assert [r["prompt_complete"] for r in result.requests] == [True, False, True, False]


def test_line_separators_of_unicode_split_no_record(tmp_path: Path) -> None:
    """Only a line feed ends a line, in an array or pretty-printed as well."""
    odd = {**REQUEST, "messages": [{"role": "user", "content": "a\u2028b\u2029c\x85d\x0be"}]}
    rows = [{"ts": NOON + n, "request": odd, "response": answer(n)} for n in range(3)]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    assert read(tmp_path, texts).account.kept == 3
    for name, document in (
        ("array", json.dumps(rows, ensure_ascii=False)),
        ("pretty", json.dumps(rows, ensure_ascii=False, indent=2)),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(document, encoding="utf-8")
        assert ingest(tmp_path / name, path).account.kept == 3


def test_parts_stand_in_prompt_order_without_what_is_no_content() -> None:
    """Tools, system, messages; marks, signatures and item ids are taken off, key order and arguments stay."""
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", **mark}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "abc"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"signature": "kept", "b": 1, "a": 2}}]},
        ],
        "system": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two.", **mark}],
        "tools": [{"name": "z", "input_schema": {"id": 1}, **mark}, {"name": "a"}],
    }  # fmt: skip
    parts = text_parts(body)
    assert [(p.kind, p.role, p.breakpoint) for p in parts] == [
        ("tools", None, "ephemeral/1h"), ("tools", None, None),
        ("system", "system", None), ("system", "system", "ephemeral/1h"),
        ("message", "user", "ephemeral/1h"), ("message", "assistant", None), ("message", "assistant", None),
    ]  # fmt: skip
    assert [p.text for p in parts[2:5]] == [b"One.", b"Two.", b"Hi"]
    assert [part.text for part in parts[:2]] == [b'{"name":"z","input_schema":{"id":1}}', b'{"name":"a"}']
    assert [part.canonical for part in parts[:2]] == [b'{"input_schema":{"id":1},"name":"z"}', None]
    assert b'"input":{"signature":"kept","b":1,"a":2}' in parts[6].text
    assert b"abc" not in parts[5].text
    assert cache_ttls(parts) == {"1h"}


def test_a_mark_that_moves_changes_no_text() -> None:
    """The same message as text, as one block, with and without a mark, is the same part but for its mark."""
    spelt = [
        "Hi",
        [{"type": "text", "text": "Hi"}],
        [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
    ]
    texts = {text_parts({"messages": [{"role": "user", "content": content}]})[0].text for content in spelt}
    texts |= {
        text_parts({"input": "Hi"})[0].text,
        text_parts({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})[0].text,
    }
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "Hi"}],
    }
    texts |= {text_parts({"input": [item]})[0].text}
    texts |= {
        text_parts(
            {"messages": [{"role": "user", "content": [{"text": "Hi"}, {"cachePoint": {"type": "default"}}]}]}
        )[0].text
    }
    assert texts == {b"Hi"}


def test_marks_that_a_service_sets_itself() -> None:
    """Claude marks results of its own tools for 5 minutes, where there is a mark at all; those of the caller it does not."""
    search = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result"}],
    }
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

    def marks(system: dict[str, Any]) -> list[str | None]:
        messages = [
            {"role": "user", "content": "look it up"},
            {"role": "assistant", "content": [{"type": "text", "text": "so"}, search]},
            {"role": "user", "content": [result]},
        ]
        return [part.breakpoint for part in text_parts({"system": [system], "messages": messages})]

    assert marks({"type": "text", "text": "s"}) == [None, None, None, None, None]
    assert marks({"type": "text", "text": "s", **hour}) == [
        "ephemeral/1h",
        None,
        None,
        "server_tool/5m",
        None,
    ]


def test_a_mark_stands_behind_its_block_and_moves_without_a_change() -> None:
    """A document that is marked before its question ends at the mark; the prompt has the same parts wherever marks stand."""
    mark = {"cache_control": {"type": "ephemeral"}}
    document, question = {"type": "text", "text": "long"}, {"type": "text", "text": "short"}

    def parts(*blocks: dict[str, Any]) -> list[tuple[str, str | None, bool]]:
        body = {"messages": [{"role": "user", "content": list(blocks)}]}
        return [(part.text.decode(), part.breakpoint, part.goes_on) for part in text_parts(body)]

    assert parts({**document, **mark}, question) == [("long", "ephemeral", False), ("short", None, True)]
    assert parts(document, {**question, **mark}) == [("long", None, False), ("short", "ephemeral", True)]
    converse = parts(document, {"cachePoint": {"type": "default"}}, question)
    assert converse == [("long", "default", False), ("short", None, True)]


def test_a_mark_of_its_own_stands_behind_what_is_before_it() -> None:
    """Converse puts a point between tools, in front of a system prompt, or first in a message: it ends what stands before."""
    point, hour = ({"cachePoint": {"type": "default", **ttl}} for ttl in ({}, {"ttl": "1h"}))
    body = {
        "toolConfig": {"tools": [point, {"toolSpec": {"name": "a"}}, point, {"toolSpec": {"name": "b"}}]},
        "system": [hour, {"text": "s"}],
        "messages": [
            {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
            {"role": "assistant", "content": [point, {"text": "three"}]},
            {"role": "user", "content": [hour]},
        ],
    }
    marks = ["default", "default/1h", None, None, "default", "default/1h", None]
    assert [part.breakpoint for part in text_parts(body)] == marks
    several = {"role": "tool", "tool_call_id": "t", "content": [point, {"text": "four"}]}
    assert [part.breakpoint for part in text_parts({"messages": [*body["messages"][:1], several]})] == [
        None,
        "default",
        None,
    ]
    body = {
        "tools": [{"type": "function", "function": {"name": "f", "cache_control": {"type": "ephemeral"}}}]
    }
    (tool,) = text_parts(body)
    assert (tool.text, tool.breakpoint) == (b'{"type":"function","function":{"name":"f"}}', "ephemeral")


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        ({"ttl": "12h"}, "implicit/12h"),
        ({"mode": "explicit"}, "off"),
        ({"mode": "explicit", "ttl": "30m"}, "off"),
        ({}, None),
    ],
)
def test_options_say_how_the_end_of_a_prompt_is_marked(options: dict[str, str], mark: str | None) -> None:
    """GPT marks the end of a prompt unless it is told to keep to what is marked; an own mark there counts more."""
    body = {"prompt_cache_options": options, "input": [{"role": "user", "content": "hi"}]}
    assert text_parts(body)[-1].breakpoint == mark
    marked = {"type": "input_text", "text": "hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    body = {"prompt_cache_options": options, "input": [{"role": "user", "content": [marked]}]}
    assert text_parts(body)[-1].breakpoint == "explicit"


def test_content_blocks_are_counted() -> None:
    """What the look-back of a cache counts: tools, blocks of a message, no marks that stand alone."""
    body = {
        "tools": [{"name": "a"}, {"name": "b"}],
        "system": "s",
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "user", "content": [{"text": "x"}, {"image": {}}, {"cachePoint": {"type": "default"}}]},
        ],
    }
    assert [part.content_blocks for part in text_parts(body)] == [1, 1, 1, 1, 1, 1]


def test_what_the_service_keeps_is_not_taken_for_the_beginning() -> None:
    """Behind a previous response only tools and system are known to stand first; behind a cached content nothing is."""
    body = {"model": "m", "instructions": "Be.", "input": "Hi", "previous_response_id": "resp_1"}
    assert [part.kind for part in text_parts(body)] == ["system"]
    assert text_parts({"contents": [{"parts": [{"text": "Hi"}]}], "cachedContent": "cachedContents/1"}) == ()


def test_results_do_not_depend_on_chunks(tmp_path: Path) -> None:
    """The fixture, which has every kind of row, gives the same files in one chunk or in many."""
    path = FIXTURES / "api_exchange.jsonl"
    ingest(tmp_path / "one", path)
    ingest(tmp_path / "many", path, chunk_bytes=300)
    assert tree(tmp_path / "one") == tree(tmp_path / "many")
