"""SGLang JSON request logs: what was received and what finished, with the token ids that the engine saw."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.bypass import is_bypassed
from prefixledger.ingest.fields import (
    extras,
    mapping,
    maybe_count,
    maybe_number,
    maybe_text,
    required,
    shown,
    wrong_type,
)
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.times import check_order, clock_us, iso_us, span_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_EVENTS: Final = ("request.received", "request.finished", "request.received.openai")
_CUT_MARK: Final = "..."
_LOG_FILE = re.compile(r"(?P<host>.+_\d+)\.log(?:\.\d{4}-\d\d-\d\d_\d\d)?")
_PER_PROMPT: Final = frozenset(
    {"rid", "text", "input_ids", "image_data", "lora_path", "sampling_params", "extra_key"}
)
_META: Final = frozenset(
    {"id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "cached_tokens_details",
     "reasoning_tokens", "e2e_latency", "dp_rank", "request_received_ts", "request_finished_ts"}
)  # fmt: skip
_OBJECT: Final = frozenset(
    {"rid", "text", "input_ids", "sampling_params", "lora_path", "extra_key", "routed_dp_rank", "data_parallel_rank",
     "routing_key", "conversation_id", "session_params", "received_time", "bootstrap_host", "bootstrap_port",
     "bootstrap_room", "image_data"}
)  # fmt: skip


class SGLangReader:
    """Two lines a request, bare JSON or behind ``[date time]``; either line alone is a request too."""

    info = FormatInfo(
        name="sglang",
        title="SGLang JSON request log, level 3",
        shape="json",
        keys="token ids",
        clock="absolute",
        id_scope="global",
        provider="sglang",
        answers=(
            "hits and misses of any simulated cache",
            "observed hits",
            "replicas",
            "residence",
            "adapters",
        ),
        lacks=(
            "the page size of the engine",
            "the zone of local times",
            "prompts of level 2 past 1,024 tokens",
        ),
        fields=_META | _OBJECT | {"timestamp", "event", "obj", "out", "meta_info", "headers", "type"},
        sample="sglang.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records whose event is one of the three that SGLang writes."""
        named = sum(1 for value in head.values if isinstance(value, dict) and value.get("event") in _EVENTS)
        if named == 0 or 2 * named < len(head.values):
            return None
        return f"{named} of the first {head.lines} records have an event such as request.finished"

    def read(self, value: Any, context: Context) -> Outcome | Iterator[Outcome]:
        """Turn one event into one row, or one for each prompt of a batch."""
        record = mapping(value)
        event = record.get("event")
        if event not in _EVENTS:
            raise BadRecordError(f"unknown event: event is {shown(event)}")
        obj = record.get("obj")
        rid = record.get("rid") or (obj.get("rid") if isinstance(obj, dict) else None)
        if event == "request.received.openai":
            return Skip("raw body of a request")
        if not isinstance(rid, list):
            return _outcome(record, rid, mapping(record, "obj"), record.get("out"), context)
        return _batch(record, rid, mapping(record, "obj"), context)


def _batch(
    record: Mapping[str, Any], rids: list[Any], obj: Mapping[str, Any], context: Context
) -> Iterator[Outcome]:
    size = len(rids)
    outs = record.get("out")
    for number, rid in enumerate(rids):
        own = {
            name: value[number]
            if name in _PER_PROMPT and isinstance(value, list) and len(value) == size
            else value
            for name, value in obj.items()
        }
        out = outs[number] if isinstance(outs, list) and len(outs) == size else outs
        try:
            yield _outcome(record, rid, own, out, context)
        except BadRecordError as bad:
            yield Reject(str(bad), {"rid": None, "event": record["event"]})


def _outcome(
    record: Mapping[str, Any], rid: Any, obj: Mapping[str, Any], out: Any, context: Context
) -> Outcome:
    if not isinstance(rid, str) or not rid:
        raise wrong_type("rid", rid, "text")
    if "HEALTH_CHECK" in rid:
        return Skip("health check")
    row = _received(record, rid, obj, context)
    if record["event"] == "request.finished":
        _add_answer(row, mapping(mapping({"out": out}, "out"), "meta_info"))
    return row


def _received(record: Mapping[str, Any], rid: str, obj: Mapping[str, Any], context: Context) -> Row:
    logged_us, zone_known = iso_us(required(record, "timestamp"), "timestamp")
    tokens, complete = _token_ids(obj.get("input_ids"))
    if obj.get("image_data"):
        tokens = None  # the ids of its placeholders do not tell images apart
    return Row(
        started_us=logged_us,
        prompt_tokens=len(tokens) if tokens is not None and complete else None,
        request_id=rid,
        provider="sglang",
        session_id=maybe_text(obj, "conversation_id") or maybe_text(obj, "routing_key"),
        replica=_replica(context.file_name, obj),
        adapter=maybe_text(obj, "lora_path"),
        cache_salt=maybe_text(obj, "extra_key"),
        token_ids=tokens,
        prompt_complete=complete,
        bypassed=is_bypassed(obj),
        join=rid,
        part="request",
        local_clock=not zone_known,
        extras=extras(obj, _OBJECT),
    )


def _add_answer(row: Row, meta: Mapping[str, Any]) -> None:
    """Complete a row with what only the finished event knows."""
    row.part = "answer"
    tokens = maybe_count(meta, "prompt_tokens")
    row.prompt_tokens = row.prompt_tokens if tokens is None else tokens
    row.output_tokens = maybe_count(meta, "completion_tokens")
    row.cached_tokens = maybe_count(meta, "cached_tokens")
    if "cached_tokens" in meta:
        row.usage_state = "null" if meta["cached_tokens"] is None else "present"
    reason = meta.get("finish_reason")
    word = reason.get("type") if isinstance(reason, dict) else reason
    row.status = status_of(word, produced=bool(row.output_tokens))
    if row.status == "cut" and isinstance(reason, dict) and not row.output_tokens:
        row.status = "failed" if status_of(reason.get("status_code")) == "failed" else "cut"
    rank = maybe_count(meta, "dp_rank")
    if rank is not None and not (row.replica or "").endswith(f"dp{rank}"):
        row.replica = f"dp{rank}" if row.replica is None else f"{row.replica}/dp{rank}"
    _add_times(row, meta)
    row.extras = {**row.extras, **extras(meta, _META)}


def _add_times(row: Row, meta: Mapping[str, Any]) -> None:
    """Set start and end: unix times where the engine logged them, else the line's time and the latency."""
    logged_us, latency = row.started_us, maybe_number(meta, "e2e_latency")
    span = None if latency is None else span_us(latency, "s", "e2e_latency")
    received, finished = (maybe_number(meta, name) for name in ("request_received_ts", "request_finished_ts"))
    finished_us = None if finished is None else clock_us(finished, "s", "request_finished_ts")
    if finished_us is not None and row.local_clock:
        row.zone_hint_us = logged_us - finished_us
    if received is not None:
        row.started_us, row.local_clock = clock_us(received, "s", "request_received_ts"), False
        row.finished_us = finished_us if span is None or finished_us is not None else row.started_us + span
    elif finished_us is not None and span is not None:
        row.started_us, row.finished_us, row.local_clock = finished_us - span, finished_us, False
    else:
        row.started_us, row.finished_us, row.rough_start = logged_us - (span or 0), logged_us, True
    check_order(row.started_us, row.finished_us, "request_finished_ts")


def _token_ids(value: Any) -> tuple[list[int] | None, bool]:
    """Return the ids before the mark that a shortened list carries, and whether the list is whole."""
    if value is None:
        return None, True
    if not isinstance(value, list):
        raise wrong_type("input_ids", value, "a list of numbers")
    if _CUT_MARK in value:
        return value[: value.index(_CUT_MARK)], False
    return value, True


def _replica(file_name: str, obj: Mapping[str, Any]) -> str | None:
    """Name the cache by ``{hostname}_{rank}.log`` and the data-parallel rank, as far as they are known."""
    match = _LOG_FILE.fullmatch(file_name.removesuffix(".gz").removesuffix(".zst"))
    rank = maybe_count(obj, "routed_dp_rank")
    rank = maybe_count(obj, "data_parallel_rank") if rank is None else rank
    parts = [match["host"]] if match else []
    return "/".join([*parts, *([] if rank is None else [f"dp{rank}"])]) or None
