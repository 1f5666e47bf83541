"""API calls for tests: a request, its answer as a body or as a stream, and a log of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ingest_support import Result, ingest, write_lines

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_795_953_600  # 2026-11-29T12:00:00Z
REQUEST = {
    "model": "gpt-x",
    "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}],
}
USAGE = {
    "prompt_tokens": 40,
    "completion_tokens": 3,
    "total_tokens": 43,
    "prompt_tokens_details": {"cached_tokens": 32},
}


def answer(number: int = 1, **more: Any) -> dict[str, Any]:
    """Return a whole answer of OpenAI's chat completions."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": NOON, "model": "gpt-x-1"}
    return {**head, "choices": [choice], "usage": USAGE, **more}


def read(tmp_path: Path, rows: list[Any], **options: Any) -> Result:
    """Ingest a log of these rows."""
    return ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", rows), **options)


def sse(events: list[dict[str, Any]], *, done: bool = False) -> str:
    """Return events as they come over the wire."""
    text = "".join(f"event: {e.get('type', 'x')}\ndata: {json.dumps(e)}\n\n" for e in events)
    return text + ("data: [DONE]\n\n" if done else "")


def anthropic_events(read_tokens: int = 800, *, whole: bool = True) -> list[dict[str, Any]]:
    """Return the events of an answer with 5 uncached tokens; cut in mid-stream unless it is whole."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": read_tokens, "cache_creation_input_tokens": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {**usage, "output_tokens": 210},
        },
        {"type": "message_stop"},
    ]
    return events if whole else events[:2]
