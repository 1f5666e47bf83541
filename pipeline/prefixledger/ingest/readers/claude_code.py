"""Claude Code transcripts: sessions as trees of lines, several lines an answer, old lines copied into new files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import extras, mapping, maybe_text, required, shown
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_LINE: Final = frozenset({"sessionId", "uuid", "type", "timestamp"})
_USED: Final = frozenset(
    {"uuid", "parentUuid", "sessionId", "timestamp", "requestId", "message", "cwd", "version", "agentId", "type",
     "logicalParentUuid", "slug", "toolUseResult", "sourceToolAssistantUUID", "costUSD", "durationMs"}
)  # fmt: skip
_SYNTHETIC: Final = "<synthetic>"
_PLATFORMS: Final = (("msg_bdrk_", "bedrock"), ("msg_vrtx_", "vertex"))
"""How message ids begin that Bedrock and Vertex give; the rest are Anthropic's own."""


class ClaudeCodeReader:
    """Lines of one answer share the id of its message; the last and largest of their counts are the answer's."""

    info = FormatInfo(
        name="claude-code",
        title="Claude Code transcript",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        provider="anthropic",
        answers=("observed hits and writes by TTL", "sessions and sub-agents", "the clients and their versions"),
        lacks=(
            "keys: system prompt and tools are not in a transcript",
            "replicas",
            "exact output counts: some versions write placeholders, a lower bound",
        ),
        fields=_USED | {"isSidechain", "gitBranch", "userType", "id", "model", "usage", "input_tokens", "output_tokens",
                        "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation", "stop_reason"},
        sample="claude_code.jsonl",
    )  # fmt: skip

    def recognise(self, head: Head) -> str | None:
        """Take files in which some lines are links of a session; files often begin with summaries that are none."""
        fit = sum(1 for v in head.values if isinstance(v, dict) and v.keys() >= _LINE and "parentUuid" in v)
        if fit == 0:
            return None
        return f"{fit} of the first {head.lines} records have sessionId, uuid, parentUuid"

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn a line of an answer into a piece of a row; every other line says when the next answer was asked for."""
        line = mapping(value)
        kind = line.get("type")
        if not isinstance(kind, str):
            raise BadRecordError(f"unknown line: type is {shown(kind)}")
        message = line.get("message")
        if kind != "assistant" or not isinstance(message, dict):
            return _skip(line, "line that is no answer of a model")
        if message.get("model") == _SYNTHETIC or line.get("isApiErrorMessage"):
            return _skip(line, "answer that the client made itself")
        usage = message.get("usage")
        if not isinstance(usage, dict):
            return _skip(line, "answer without usage")
        return _row(line, message, usage)


def _skip(line: Mapping[str, Any], reason: str) -> Skip:
    uuid, at = line.get("uuid"), line.get("timestamp")
    if isinstance(uuid, str) and isinstance(at, str):
        try:
            return Skip(reason, mark=uuid, at_us=stamp_us(at, "timestamp")[0])
        except BadRecordError:
            pass  # the line is no request, and its time only helps
    return Skip(reason)


def _row(line: Mapping[str, Any], message: Mapping[str, Any], usage: Mapping[str, Any]) -> Row:
    ended_us = stamp_us(required(line, "timestamp"), "timestamp")[0]
    own, asked = maybe_text(message, "id"), maybe_text(line, "requestId")
    row = Row(
        started_us=ended_us,
        finished_us=ended_us,
        prompt_tokens=None,
        request_id=asked or own,
        provider=next(
            (name for mark, name in _PLATFORMS if own is not None and own.startswith(mark)), "anthropic"
        ),
        model=maybe_text(message, "model"),
        client=_client(line),
        session_id=_session(line),
        service_tier="fast" if usage.get("speed") == "fast" else maybe_text(usage, "service_tier"),
        inference_geo=maybe_text(usage, "inference_geo"),
        join=None if own is None else f"{own}/{asked or ''}",
        part="whole" if own is None else "piece",
        rough_start=True,
        after=maybe_text(line, "parentUuid"),
        mark=maybe_text(line, "uuid"),
        extras=extras(line, _USED),
    )
    apply_usage(row, usage, "anthropic")
    return row


def _client(line: Mapping[str, Any]) -> str:
    version = maybe_text(line, "version")
    return "claude-code" if version is None else f"claude-code/{version}"


def _session(line: Mapping[str, Any]) -> str | None:
    """Name the conversation; a sub-agent is one of its own inside that of its caller."""
    session, agent = maybe_text(line, "sessionId"), maybe_text(line, "agentId")
    if session is None or not (agent or line.get("isSidechain")):
        return session
    return f"{session}/{agent or 'sidechain'}"
