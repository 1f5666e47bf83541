"""NVIDIA Dynamo request traces: ends of requests with block hashes that mean the same in every file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import (
    count,
    extras,
    mapping,
    maybe_count,
    maybe_number,
    maybe_text,
    required,
    shown,
)
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.times import clock_us, span_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head

SCHEMA: Final = "dynamo.request.trace.v1"
_TOOLS: Final = frozenset({"tool_start", "tool_end", "tool_error"})
_USED: Final = frozenset(
    {"request_id", "x_request_id", "model", "input_tokens", "output_tokens", "cached_tokens", "request_received_ms",
     "kv_hit_rate", "queue_depth", "replay", "worker"}
)  # fmt: skip
_FIELDS: Final = frozenset(
    {"schema", "event_type", "event_time_unix_ms", "event_source", "agent_context", "session_id", "request", "tool",
     "payload", "prefill_wait_time_ms", "prefill_time_ms", "ttft_ms", "total_time_ms", "avg_itl_ms",
     "finish_reason_metadata", "trace_block_size", "input_length", "input_sequence_hashes", "prefill_worker_id",
     "prefill_dp_rank", "decode_worker_id", "decode_dp_rank"}
)  # fmt: skip
_MAX_ID: Final = (1 << 64) - 1


class DynamoReader:
    """One event a line; only ``request_end`` is a request."""

    info = FormatInfo(
        name="dynamo",
        title="NVIDIA Dynamo request trace",
        shape="json",
        keys="block ids",
        clock="absolute",
        id_scope="global",
        provider="dynamo",
        answers=(
            "hits and misses of any simulated cache",
            "observed hits",
            "replicas",
            "latency",
            "sessions",
        ),
        lacks=("tenants and adapters", "failed calls", "rows that the writer dropped or never wrote"),
        fields=_USED | _FIELDS,
        sizes_in_records=True,
        sample="dynamo.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records that name the schema."""
        named = sum(1 for v in head.values if isinstance(v, dict) and v.get("schema") == SCHEMA)
        if named == 0 or 2 * named < len(head.values):
            return None
        return f"{named} of the first {head.lines} records say schema {SCHEMA}"

    def read(self, value: Any, context: Context) -> Row | Skip:  # noqa: ARG002
        """Turn one event into a row, or skip it."""
        record = mapping(value)
        kind = required(record, "event_type")
        if isinstance(kind, str) and kind in _TOOLS:
            return Skip("tool event")
        if kind == "request_payload":
            return Skip("payload of a request")
        if kind != "request_end":
            raise BadRecordError(f"unknown event: event_type is {shown(kind)}")
        return _row(record, mapping(record, "request"))


def _row(record: Mapping[str, Any], request: Mapping[str, Any]) -> Row:
    start = _start(record, request)
    waited, first, total = (
        _span(request, name) for name in ("prefill_wait_time_ms", "ttft_ms", "total_time_ms")
    )
    context = record.get("agent_context")
    replay = request.get("replay")
    tokens = maybe_count(request, "input_tokens")
    row = Row(
        started_us=start,
        prompt_tokens=tokens,
        request_id=maybe_text(request, "request_id"),
        admitted_us=None if waited is None else start + waited,
        first_token_us=None if first is None else start + first,
        finished_us=_finish(record, start, total),
        provider="dynamo",
        model=maybe_text(request, "model"),
        session_id=maybe_text(context, "session_id") if isinstance(context, dict) else None,
        replica=_replica(request.get("worker")),
        output_tokens=maybe_count(request, "output_tokens"),
        cached_tokens=maybe_count(request, "cached_tokens"),
        usage_state=_state(request),
        extras=extras(request, _USED),
    )
    row.status = status_of(_finish_word(request), produced=bool(row.output_tokens))
    if replay is not None:
        _add_blocks(row, mapping(replay))
    if row.prompt_tokens is None:
        raise BadRecordError("missing field: input_tokens")
    row.router_expected_tokens = _expected(request.get("kv_hit_rate"), row.prompt_tokens)
    return row


def _expected(share: Any, prompt_tokens: int) -> int | None:
    """Return what the router expected; its share is of blocks that it took to be cached, in blocks of the prompt."""
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        return None
    return max(round(share * prompt_tokens), int(share > 0))


def _add_blocks(row: Row, replay: Mapping[str, Any]) -> None:
    length = count(replay, "input_length")
    if row.prompt_tokens is not None and row.prompt_tokens != length:
        raise BadRecordError(f"token count: input_tokens is {row.prompt_tokens}, input_length {length}")
    row.prompt_tokens = length
    row.block_ids = required(replay, "input_sequence_hashes")
    row.block_size = count(replay, "trace_block_size", limit=1_000_000)
    if row.block_size == 0:
        raise BadRecordError("absurd number: trace_block_size is 0")


def _span(request: Mapping[str, Any], name: str) -> int | None:
    value = maybe_number(request, name)
    return None if value is None else span_us(value, "ms", name)


def _start(record: Mapping[str, Any], request: Mapping[str, Any]) -> int:
    received = request.get("request_received_ms")
    if received is not None:
        return clock_us(received, "ms", "request_received_ms")
    total = _span(request, "total_time_ms")
    if total is None:
        raise BadRecordError("missing field: request_received_ms")
    return clock_us(required(record, "event_time_unix_ms"), "ms", "event_time_unix_ms") - total


def _finish(record: Mapping[str, Any], start: int, total: int | None) -> int | None:
    """Return start + total time, else the time of the event, which is written when the request ends."""
    if total is not None:
        return start + total
    ended = record.get("event_time_unix_ms")
    return None if ended is None else max(start, clock_us(ended, "ms", "event_time_unix_ms"))


def _state(request: Mapping[str, Any]) -> Any:
    if "cached_tokens" not in request:
        return "absent"
    return "null" if request["cached_tokens"] is None else "present"


def _replica(worker: Any) -> str | None:
    """Name the cache: the prefill worker where one is named, else the worker named alone; with its rank."""
    if worker is None:
        return None
    known = mapping(worker)
    for role in ("prefill", "decode"):
        name = maybe_count(known, f"{role}_worker_id", limit=_MAX_ID)
        if name is not None:
            rank = maybe_count(known, f"{role}_dp_rank")
            return str(name) if rank is None else f"{name}/dp{rank}"
    return None


def _finish_word(request: Mapping[str, Any]) -> Any:
    reasons = request.get("finish_reason_metadata")
    if not isinstance(reasons, dict):
        return None
    words = (reasons.get("backend_finish_reason"), reasons.get("finish_reason"))
    return next((word for word in words if isinstance(word, str)), None)
