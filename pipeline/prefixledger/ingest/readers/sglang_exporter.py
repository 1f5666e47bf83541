"""SGLang's metrics exporter: one line a finished request, its parameters as JSON inside JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.bypass import is_bypassed
from prefixledger.ingest.fields import (
    extras,
    mapping,
    maybe_count,
    maybe_number,
    maybe_text,
    wrong_type,
)
from prefixledger.ingest.nested import inner_mapping
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.times import check_order, clock_us, span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_META: Final = frozenset(
    {"request_parameters", "id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens",
     "cached_tokens_details", "reasoning_tokens", "e2e_latency", "dp_rank", "request_received_ts", "request_finished_ts",
     "response_sent_to_client_ts", "api_server_dispatch_finish_ts", "total_retractions", "num_retractions"}
)  # fmt: skip
_PARAMETERS: Final = frozenset(
    {"rid", "text", "input_ids", "sampling_params", "lora_path", "extra_key", "routed_dp_rank", "routing_key",
     "conversation_id", "received_time", "image_data"}
)  # fmt: skip


class SGLangExporterReader:
    """One finished request a line, with unix times and cached tokens."""

    info = FormatInfo(
        name="sglang-exporter",
        title="SGLang metrics exporter",
        shape="json",
        keys="token ids",
        clock="absolute",
        id_scope="global",
        provider="sglang",
        answers=("observed hits", "residence", "hits and misses where parameters hold input_ids or text"),
        lacks=("requests that never finished", "the page size of the engine", "models"),
        fields=_META | _PARAMETERS,
        sample="sglang_exporter.log",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with parameters inside."""
        return head.having("request_parameters", "prompt_tokens", "id")

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn one line into one row."""
        meta = mapping(value)
        sent = inner_mapping(meta, "request_parameters")
        rid = maybe_text(meta, "id") or maybe_text(sent, "rid")
        if rid is not None and "HEALTH_CHECK" in rid:
            return Skip("health check")
        return _row(meta, sent, rid)


def _row(meta: Mapping[str, Any], sent: Mapping[str, Any], rid: str | None) -> Row:
    rank = maybe_count(meta, "dp_rank")
    row = Row(
        started_us=0,
        prompt_tokens=None,
        request_id=rid,
        provider="sglang",
        session_id=maybe_text(sent, "conversation_id") or maybe_text(sent, "routing_key"),
        replica=None if rank is None else f"dp{rank}",
        adapter=maybe_text(sent, "lora_path"),
        cache_salt=maybe_text(sent, "extra_key"),
        bypassed=is_bypassed(sent),
        extras={**extras(sent, _PARAMETERS), **extras(meta, _META)},
    )
    apply_usage(row, meta, "sglang")
    set_engine_times(row, meta)
    reason = meta.get("finish_reason")
    row.status = status_of(
        reason.get("type") if isinstance(reason, dict) else reason, produced=bool(row.output_tokens)
    )
    ids, text = sent.get("input_ids"), sent.get("text")
    if isinstance(ids, list) and not sent.get("image_data"):
        row.token_ids = ids
    elif ids is not None and not isinstance(ids, list):
        raise wrong_type("input_ids", ids, "a list of numbers")
    elif isinstance(text, str) and text:
        row.text_parts = text_parts({"prompt": text})
    return row


def set_engine_times(row: Row, meta: Mapping[str, Any]) -> None:
    """Set start and end by the engine's unix times and its latency.

    Raises:
        BadRecordError: Neither a start, nor an end with a latency, is there.
    """
    received, finished, took = (
        maybe_number(meta, name) for name in ("request_received_ts", "request_finished_ts", "e2e_latency")
    )
    span = None if took is None else span_us(took, "s", "e2e_latency")
    end = None if finished is None else clock_us(finished, "s", "request_finished_ts")
    if received is not None:
        row.started_us = clock_us(received, "s", "request_received_ts")
    elif end is not None and span is not None:
        row.started_us = end - span
    else:
        raise BadRecordError("missing field: request_received_ts")
    row.finished_us = row.started_us + span if end is None and span is not None else end
    check_order(row.started_us, row.finished_us, "request_finished_ts")
