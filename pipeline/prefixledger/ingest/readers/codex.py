"""Codex CLI rollouts: events of a session, of which the token counts are the calls."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import mapping, maybe_text, required, shown
from prefixledger.ingest.nested import inner_mapping
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_TYPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_COUNTS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
_ASKED: Final = frozenset({"user_message", "task_started", "function_call_output", "custom_tool_call_output"})
"""Payloads behind which the next call to the model begins."""
_FILE_SESSION = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


class CodexReader:
    """A count that is told again with the same total is the same call; copies in forked files are, too."""

    info = FormatInfo(
        name="codex",
        title="Codex CLI rollout",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=("observed hits", "sessions", "the clients and their versions"),
        lacks=("keys: tools are not in a rollout", "replicas", "what was written to the cache"),
        fields=frozenset({"timestamp", "type", "payload", "info", "last_token_usage", "total_token_usage", "id", "model",
                          "model_context_window", "call_id", "role", *_COUNTS}),
        sample="codex.jsonl",
    )  # fmt: skip

    def recognise(self, head: Head) -> str | None:
        """Take records of the four types with a payload."""
        fit = sum(1 for v in head.values if isinstance(v, dict) and _kind(v) in _TYPES and "payload" in v)
        if fit == 0 or 2 * fit < len(head.values):
            return None
        return f"{fit} of the first {head.lines} records have a payload and a type such as event_msg"

    def read(self, value: Any, context: Context) -> Outcome:
        """Turn a token count into a row; other events say whose it is, and when the call began."""
        line = mapping(value)
        kind = _kind(line)
        if kind not in _TYPES:
            raise BadRecordError(f"unknown event: type is {shown(line.get('type'))}")
        payload = mapping(line, "payload")
        at_us = stamp_us(required(line, "timestamp"), "timestamp")[0]
        if kind == "event_msg" and payload.get("type") == "token_count":
            return _count(payload, at_us, context)
        if kind == "session_meta":
            return Skip("start of a session", carry=_session(payload))
        if kind == "turn_context":
            told = {
                "model": maybe_text(payload, "model"),
                "anchor": maybe_text(payload, "turn_id"),
                "started_us": at_us,
            }
            return Skip("start of a turn", carry=told)
        asked = _kind(payload) in _ASKED or payload.get("role") == "user"
        return Skip(
            "event that is no call",
            carry={"anchor": _anchor(payload), "started_us": at_us if asked else None},
        )


def _kind(event: Mapping[str, Any]) -> str | None:
    """Return the type of an event where it is a name, which may then be looked up."""
    kind = event.get("type")
    return kind if isinstance(kind, str) else None


def _session(meta: Mapping[str, Any]) -> dict[str, Any]:
    version = maybe_text(meta, "cli_version")
    own = maybe_text(meta, "id")
    return {
        "session_id": own,
        "anchor": own,
        "client": "codex" if version is None else f"codex/{version}",
        "provider": provider_name(maybe_text(meta, "model_provider")) or "openai",
    }


def _anchor(payload: Mapping[str, Any]) -> str | None:
    """Return an id that a copy of the event in another file has, too, and no other event has."""
    sealed = payload.get("encrypted_content")
    if isinstance(sealed, str) and sealed:
        return blake2b(sealed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return maybe_text(payload, "call_id") or maybe_text(payload, "id")


def _count(payload: Mapping[str, Any], at_us: int, context: Context) -> Outcome:
    usage = inner_mapping(payload, "info", "last_token_usage")
    if not usage:
        return Skip("token count without numbers")
    total = inner_mapping(payload, "info", "total_token_usage")
    if not any(usage.get(name) for name in _COUNTS):
        return Skip("token count of nothing")
    name = "-".join(str(total.get(count, "")) for count in _COUNTS) if total else None
    match = _FILE_SESSION.search(context.file_name)
    row = Row(
        started_us=at_us,
        finished_us=at_us,
        prompt_tokens=None,
        request_id=name,
        session_id=match[1] if match else None,
        join=name,
        part="whole" if name is None else "piece",
        rough_start=True,
    )
    apply_usage(row, usage, "openai-responses")
    return row
