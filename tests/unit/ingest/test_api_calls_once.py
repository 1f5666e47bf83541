"""Each API call is counted once, and every record is accounted for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exchange_support import NOON, REQUEST, USAGE, answer, read
from ingest_support import FIXTURES, closes, ingest, tree, write_lines

if TYPE_CHECKING:
    from pathlib import Path


def test_a_response_logged_again_counts_once_and_fullest(tmp_path: Path) -> None:
    """Lines of one id: the one with the most output counts, whatever its place; equal ones are no sum."""
    rows = [{"ts": NOON + n, "request": REQUEST, "response": answer(usage={**USAGE, "completion_tokens": out, "total_tokens": 40 + out})}
            for n, out in enumerate((7, 210, 7))]  # fmt: skip
    result = read(tmp_path, rows)
    (row,) = result.requests
    assert (row["output_tokens"], row["started_at"]) == (210, datetime.fromtimestamp(NOON, UTC))
    assert (result.account.kept, result.account.duplicates) == (1, 2)
    same = read(tmp_path / "same", [rows[1]] * 3)
    assert (same.account.kept, same.account.duplicates, same.requests[0]["output_tokens"]) == (1, 2, 210)


def test_doubling_a_log_changes_nothing(tmp_path: Path) -> None:
    """Every line twice: the same requests; the same file again, under another name: all duplicates."""
    lines = (FIXTURES / "api_exchange.jsonl").read_bytes().split(b"\n")[:-1]
    once = read(tmp_path, lines)
    twice = read(tmp_path / "twice", [line for line in lines for _ in range(2)])
    drop = ("source", "source_line", "source_node")
    assert [{k: v for k, v in r.items() if k not in drop} for r in twice.requests] == [
        {k: v for k, v in r.items() if k not in drop} for r in once.requests
    ]
    n_requests = len(once.requests)
    copied = write_lines(
        tmp_path / "copy.jsonl", [*lines, {"ts": NOON, "request": REQUEST, "response": answer(99)}]
    )
    again = ingest(tmp_path / "ws", copied)
    assert (again.account.kept, len(again.requests)) == (1, n_requests + 1)
    assert closes(again.summary)


def test_an_attempt_that_was_refused_is_no_second_request(tmp_path: Path) -> None:
    """Attempts share the request id; two answers under one request id are two calls of the model."""
    limit = {"error": {"type": "rate_limit_error", "message": "slow down"}}
    rows = [
        {"ts": NOON, "request_id": "a", "status": 429, "request": REQUEST, "response": limit},
        {"ts": NOON + 1, "request_id": "a", "status": 200, "request": REQUEST, "response": answer(1)},
        {"ts": NOON + 2, "request_id": "b", "status": 200, "request": REQUEST, "response": answer(2)},
        {"ts": NOON + 3, "request_id": "b", "status": 200, "request": REQUEST, "response": answer(3)},
        {"ts": NOON + 4, "request_id": "c", "status": 529, "request": REQUEST, "response": limit},
    ]
    result = read(tmp_path, rows)
    assert [(r["request_id"], r["status"], r["prompt_tokens"]) for r in result.requests] == [
        ("chatcmpl-1", "ok", 40), ("chatcmpl-2", "ok", 40), ("chatcmpl-3", "ok", 40), ("c", "failed", 0),
    ]  # fmt: skip
    assert result.account.duplicates == 1


def test_a_background_answer_joins_its_request(tmp_path: Path) -> None:
    """The request, polls in between and the fetched answer are one call that began with the request."""
    url = "https://api.openai.com/v1/responses"
    body = {"model": "gpt-x", "input": "Hi", "background": True}
    usage = {
        "input_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 9,
        "total_tokens": 24,
    }
    held = {"id": "resp_1a", "object": "response", "created_at": NOON, "model": "gpt-x-1", "output": []}
    rows = [
        {"ts": NOON, "method": "POST", "url": url, "request": body, "response": {**held, "status": "queued", "usage": None}},
        {"ts": NOON + 5, "method": "GET", "url": url + "/resp_1a", "response": {**held, "status": "in_progress"}},
        {"ts": NOON + 9, "method": "GET", "url": url + "/resp_1a", "response": {**held, "status": "completed", "usage": usage}},
        {"ts": NOON + 12, "method": "GET", "url": url + "/resp_1a", "response": {**held, "status": "completed", "usage": usage}},
    ]  # fmt: skip
    result = read(tmp_path, rows, format="api-exchange")
    (row,) = result.requests
    assert (row["request_id"], row["prompt_tokens"], row["output_tokens"]) == ("resp_1a", 15, 9)
    assert row["started_at"] == datetime.fromtimestamp(NOON, UTC)
    account = result.account
    assert (account.kept, account.joined, account.skipped, account.duplicates) == (1, 1, 1, 1)


def test_calls_that_ask_no_cache_are_skipped_with_a_reason(tmp_path: Path) -> None:
    """Embeddings, token counts, files, models, cached contents and health checks."""
    paths = (
        "/v1/embeddings",
        "/v1/messages/count_tokens",
        "/v1/files",
        "/v1/models?x=1",
        "/v1beta/cachedContents",
        "/health",
    )
    rows = [{"ts": NOON, "url": f"https://h{path}", "usage": USAGE} for path in paths]
    result = read(
        tmp_path,
        [*rows, {"ts": NOON, "url": "https://h/v1beta/models/gemini:generateContent", "usage": USAGE}],
    )
    assert (result.account.kept, result.account.skipped, result.account.rejected) == (1, len(paths), 0)
    assert result.account.reasons["embedding, which has no prefix cache"] == 1


def test_one_bad_record_is_kept_aside_with_its_reason(tmp_path: Path) -> None:
    """Nothing vanishes: a record of 3 MB is read, one that is no call is in the rejects without its text."""
    long = {**REQUEST, "messages": [{"role": "user", "content": "x" * 3_000_000}]}
    rows = [{"ts": NOON, "request": long, "response": answer()}, {"secret text": "of somebody"}, b"{broken"]
    result = read(tmp_path, rows)
    assert (result.account.kept, result.account.rejected) == (1, 2)
    assert [r["reason"].partition(":")[0] for r in result.rejects] == ["no exchange", "broken JSON"]
    assert not any(b"somebody" in content for content in tree(tmp_path / "ws").values())


def test_a_wrapper_and_a_callback_log_one_call(tmp_path: Path) -> None:
    """Equal counts within 50 ms from another integration; two services that ask the same at once are two requests."""

    def logged(source: str, number: int, ms: int) -> dict[str, object]:
        usage = {"prompt_tokens": 1_000 + number, "completion_tokens": 9, "total_tokens": 1_009 + number}
        return {
            "source": source,
            "timestamp": f"2026-11-29T10:00:{number:02}.{ms:03}Z",
            "model": "m",
            "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 512}},
        }

    told = [logged(source, n, 100 + 20 * k) for n in range(9) for k, source in enumerate(("sdk", "callback"))]
    result = read(
        tmp_path / "told", [*told, logged("sdk", 20, 0), logged("sdk", 20, 10), logged("callback", 30, 900)]
    )
    assert len(result.requests) == 9 + 2 + 1
    assert result.account.duplicates == 9
    apart = [logged(source, n, 100) for n in range(9) for source in ("billing", "search")]
    assert len(read(tmp_path / "apart", apart).requests) == 18
