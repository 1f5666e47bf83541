"""What each format's fields become in the columns of ``requests``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, mooncake, write_lines
from log_support import NOON_MS, ingest_rows, micros

if TYPE_CHECKING:
    from pathlib import Path


# Mooncake and Bailian


def test_mooncake_drops_the_partial_block(tmp_path: Path) -> None:
    """An id that may stand for one token is no block; full blocks keep their ids, and 0 is an id like any other."""
    result = ingest_rows(
        tmp_path, [mooncake(0.5, [0, 5, 6], 40), mooncake(27, [0, 5, 9, 10], 64)], "t_blksz_16.jsonl"
    )
    first, second = result.requests
    assert result.ids(first) == [0, 5]
    assert result.ids(second) == [0, 5, 9, 10]
    assert (first["n_blocks"], first["prompt_tokens"], first["output_tokens"]) == (2, 40, 5)
    assert micros(first["started_at"]) == 500
    assert result.account.block_ids == "ceil"
    assert first["usage_state"] == "absent"
    assert first["cached_tokens_observed"] is None


def test_mooncake_below_one_block_has_no_node(tmp_path: Path) -> None:
    """A prompt shorter than a block is kept, keyed, and has no last block."""
    result = ingest_rows(tmp_path, [mooncake(0, [1], 7), mooncake(1, [1], 16)], "t_blksz_16.jsonl")
    short = result.requests[0]
    assert (short["keyed"], short["n_blocks"], short["source_node"]) == (True, 0, None)


def test_mooncake_keeps_sessions_and_labels(tmp_path: Path) -> None:
    """Extensions of the format are columns or labels."""
    rows = [mooncake(at, [1], session_id=f"s{at % 3}", policy_class="ab"[at % 2]) for at in range(9)]
    result = ingest_rows(tmp_path, rows, "t_blksz_16.jsonl")
    assert [row["session_id"] for row in result.requests[:3]] == ["s0", "s1", "s2"]
    assert result.requests[1]["labels"] == [("policy_class", "b")]


def test_bailian_sessions_are_chains(tmp_path: Path) -> None:
    """A chain of parents is a session named by its root; a missing parent makes a root; order does not matter."""

    def row(chat: int, parent: int, at: float) -> dict[str, Any]:
        kinds = {"type": "text", "turn": 1}
        lengths = {"input_length": 16, "output_length": 3, "hash_ids": [chat]}
        return {"chat_id": chat, "parent_chat_id": parent, "timestamp": at, **lengths, **kinds}

    rows = [row(3, 2, 0.3), row(1, -1, 0.1), row(2, 1, 0.2), row(9, 8, 0.4), row(7, 6, 0.5), row(6, 7, 0.6)]
    result = ingest_rows(tmp_path, rows)
    assert result.account.format == "bailian"
    assert result.account.block_size == 16
    sessions = {row["request_id"]: row["session_id"] for row in result.requests}
    assert (sessions["1"], sessions["2"], sessions["3"], sessions["9"]) == ("1", "1", "1", "9")
    assert sessions["6"] == sessions["7"]
    assert micros(result.requests[0]["started_at"]) == 300_000


# WEKA


def _weka(requests: list[Any], **more: Any) -> dict[str, Any]:
    sizes = {"block_size": 16, "hash_id_scope": "local", "tool_tokens": 0, "system_tokens": 0}
    return {"id": "conv", "models": ["m"], **sizes, "requests": requests, **more}


def _call(t: float, ids: list[int], **more: Any) -> dict[str, Any]:
    return {
        "t": t,
        "type": "n",
        "model": "m",
        "in": 16 * len(ids) + 3,
        "out": 2,
        "hash_ids": ids,
        "stop": "",
        **more,
    }


def _agent(t: float, requests: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "t": t,
        "type": "subagent",
        "agent_id": "a1",
        "subagent_type": "Explore",
        "requests": requests,
        **more,
    }


def test_weka_counts_every_request_nested_ones_too(tmp_path: Path) -> None:
    """Subagents are no records, their requests are, with times from the start of the subagent."""
    inner = _agent(19.0, [_call(0.0, [1, 9]), _agent(2.0, [_call(0.5, [1])], agent_id="a2")])
    path = tmp_path / "conv.json"
    path.write_text(
        json.dumps(
            _weka([_call(0.0, [1, 2], api_time=2.1, ttft=0.4), inner, _call(60.0, [1, 2, 3])]), indent=1
        )
    )
    result = ingest(tmp_path / "ws", path)
    assert result.account.records == result.account.kept == 4
    rows = result.requests
    assert [micros(row["started_at"]) for row in rows] == [0, 19_000_000, 21_500_000, 60_000_000]
    assert [row["session_id"] for row in rows] == ["conv", "conv/a1", "conv/a1/a2", "conv"]
    assert [row["source_line"] for row in rows] == [1, 2, 3, 4]
    assert result.ids(rows[1]) == [1, 9]
    assert micros(rows[0]["finished_at"]) == 2_100_000
    assert micros(rows[0]["first_token_at"]) == 400_000
    assert {row["namespace"] for row in rows} == {rows[0]["namespace"]}


def test_weka_nested_times_may_count_from_the_conversation(tmp_path: Path) -> None:
    """Where a subagent's first time lies behind its own start, the conversation's clock was used."""
    result = ingest_rows(
        tmp_path, [_weka([_call(0.0, [1]), _agent(19.0, [_call(20.0, [1]), _call(24.0, [1])])])]
    )
    assert [micros(row["started_at"]) for row in result.requests] == [0, 20_000_000, 24_000_000]


def test_weka_conversations_without_requests_are_counted(tmp_path: Path) -> None:
    """One that holds nothing is a skipped record, not a line that vanished."""
    result = ingest_rows(tmp_path, [_weka([_call(0.0, [1])]), _weka([], id="empty")])
    assert (result.account.records, result.account.kept, result.account.skipped) == (2, 1, 1)


def test_weka_conversations_start_30_s_apart_in_order_of_name(tmp_path: Path) -> None:
    """Files and lines alike; ids of one conversation are never those of another, unless their scope is global."""
    folder = tmp_path / "logs"
    write_lines(folder / "b.json", [_weka([_call(1.0, [1])], id="b")])
    write_lines(folder / "a.json", [_weka([_call(1.0, [1])], id="a")])
    write_lines(
        folder / "c.jsonl",
        [_weka([_call(1.0, [1])], id="e"), _weka([_call(1.0, [1]), _call(2.0, [2])], id="d")],
    )
    result = ingest(tmp_path / "ws", folder / "c.jsonl", folder / "b.json", folder / "a.json")
    starts = {(row["source_file"], row["session_id"]): micros(row["started_at"]) for row in result.requests}
    assert starts[("a.json", "a")] == 1_000_000
    assert starts[("b.json", "b")] == 31_000_000
    assert (starts[("c.jsonl", "d")], starts[("c.jsonl", "e")]) == (62_000_000, 91_000_000)
    assert len({row["namespace"] for row in result.requests}) == 4
    assert any("30 s apart" in message for message in result.summary.messages)
    later = ingest(tmp_path / "ws", write_lines(tmp_path / "f.json", [_weka([_call(0.0, [1])], id="f")]))
    assert micros(later.requests[-1]["started_at"]) == 120_000_000


def test_weka_bad_requests_are_rejects_of_their_own(tmp_path: Path) -> None:
    """One bad request in a document costs that request; a document that cannot be parsed is one record."""
    bad = [
        _call(1.0, [1, 2], out=-1),
        {"t": 2.0, "type": "subagent", "t2": 0},
        "text",
        _call(3.0, [1], **{"in": 500}),
    ]
    result = ingest_rows(tmp_path, [_weka([_call(0.0, [1]), *bad])])
    assert (result.account.records, result.account.kept) == (5, 1)
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [
        "negative number",
        "missing field",
        "wrong type",
        "block count",
    ]
    assert [row["record"] for row in result.rejects] == [2, 3, 4, 5]


# Dynamo


def _dynamo(number: int = 1, **change: Any) -> dict[str, Any]:
    replay = {
        "trace_block_size": 16,
        "input_length": 40,
        "input_sequence_hashes": [1 << 63, (1 << 64) - 1, 7],
    }
    request = {"request_id": f"r{number}", "request_received_ms": NOON_MS, "replay": replay, **change}
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": NOON_MS + 900,
        "request": {name: value for name, value in request.items() if value is not None},
    }


def test_dynamo_hashes_stay_whole(tmp_path: Path) -> None:
    """Hashes above 2**53 keep every bit, and mean the same in every file."""
    result = ingest_rows(tmp_path, [_dynamo()])
    (row,) = result.requests
    assert result.ids(row) == [1 << 63, (1 << 64) - 1]
    assert '"scope":"ids:global"' in row["namespace"]
    assert (row["prompt_tokens"], row["block_size"], row["model"]) == (40, 16, None)
    assert result.account.clock == "absolute"


@pytest.mark.parametrize(
    ("worker", "replica"),
    [
        (None, None),
        ({"prefill_worker_id": 7, "prefill_dp_rank": 1, "decode_worker_id": 9, "decode_dp_rank": 0}, "7/dp1"),
        ({"decode_worker_id": 9, "decode_dp_rank": 0}, "9/dp0"),
        ({"decode_worker_id": (1 << 64) - 1}, str((1 << 64) - 1)),
        ({"prefill_worker_id": 7}, "7"),
    ],
)
def test_dynamo_replica_is_the_prefill_worker_or_the_only_one(
    tmp_path: Path, worker: Any, replica: str | None
) -> None:
    """Where prefill and decode are split the prefill worker holds the cache; alone, whatever it is called."""
    result = ingest_rows(tmp_path, [_dynamo(worker=worker)])
    assert result.requests[0]["replica"] == replica


def test_dynamo_times_and_usage(tmp_path: Path) -> None:
    """Start, wait, first token and end; absent, null and 0 cached tokens are three things."""
    timed = {"prefill_wait_time_ms": 1.5, "ttft_ms": 20.25, "total_time_ms": 700.0, "input_tokens": 40}
    rows = [_dynamo(1, **timed, cached_tokens=16), _dynamo(2, cached_tokens=0), _dynamo(3), _dynamo(4)]
    rows[3]["request"]["cached_tokens"] = None
    one, two, three, four = ingest_rows(tmp_path, rows).requests
    assert micros(one["started_at"]) == NOON_MS * 1_000
    assert micros(one["admitted_at"]) == NOON_MS * 1_000 + 1_500
    assert micros(one["first_token_at"]) == NOON_MS * 1_000 + 20_250
    assert micros(one["finished_at"]) == (NOON_MS + 700) * 1_000
    assert micros(two["finished_at"]) == (NOON_MS + 900) * 1_000
    states = [(row["usage_state"], row["cached_tokens_observed"]) for row in (one, two, three, four)]
    assert states == [("present", 16), ("present", 0), ("absent", None), ("null", None)]


def test_dynamo_skips_events_that_are_no_requests(tmp_path: Path) -> None:
    """Tools and payloads are counted by name; an event of an unknown type is a reject."""
    tool = {**_dynamo(), "event_type": "tool_start"}
    payload = {**_dynamo(), "event_type": "request_payload"}
    result = ingest_rows(
        tmp_path, [_dynamo(), tool, tool, payload, {**_dynamo(), "event_type": "request_begin"}]
    )
    assert result.account.skipped == 3
    assert result.account.reasons == {"unknown event": 1, "tool event": 2, "payload of a request": 1}


def test_dynamo_without_replay_has_usage_and_no_keys(tmp_path: Path) -> None:
    """A row without hashes stays, for the observed book; one that contradicts itself does not."""
    plain = _dynamo(1, replay=None, input_tokens=100, cached_tokens=64)
    wrong = _dynamo(2, input_tokens=41)
    more = _dynamo(3, cached_tokens=41)
    result = ingest_rows(tmp_path, [plain, wrong, more])
    (row,) = result.requests
    assert (row["keyed"], row["prompt_tokens"], row["cached_tokens_observed"]) == (False, 100, 64)
    assert [r["reason"].partition(":")[0] for r in result.rejects] == ["token count", "absurd number"]


def test_dynamo_cancelled_is_cut(tmp_path: Path) -> None:
    """A call that was cancelled has asked the cache; one that failed without output has not."""
    cut = _dynamo(1, output_tokens=3, finish_reason_metadata={"backend_finish_reason": "cancelled"})
    failed = _dynamo(2, output_tokens=0, finish_reason_metadata={"backend_finish_reason": "error"})
    done = _dynamo(3, output_tokens=3, finish_reason_metadata={"finish_reason": "stop"})
    assert [row["status"] for row in ingest_rows(tmp_path, [cut, failed, done]).requests] == [
        "cut",
        "failed",
        "ok",
    ]


# Azure


def test_lengths_without_reuse_are_kept_without_keys(tmp_path: Path) -> None:
    """Lengths and times are rows, keyed is false, and the account says that they cannot be replayed."""
    result = ingest(tmp_path / "ws", FIXTURES / "azure_lengths.csv")
    assert not any(row["keyed"] for row in result.requests)
    assert all(row["block_size"] == 0 and row["n_blocks"] == 0 for row in result.requests)
    assert any("cannot be replayed" in note for note in result.account.notes)
    assert result.account.block_size is None


def test_a_repeated_header_is_skipped(tmp_path: Path) -> None:
    """Two CSV files joined by ``cat`` have a header in the middle; it is no request and no fault."""
    text = (FIXTURES / "azure_lengths.csv").read_bytes()
    path = tmp_path / "two.csv"
    path.write_bytes(text + text.replace(b"2026-11-24", b"2026-11-25"))
    account = ingest(tmp_path / "ws", path).account
    assert (account.kept, account.skipped, account.reasons) == (64, 1, {"repeated header": 1})
