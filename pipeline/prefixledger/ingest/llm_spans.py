"""From one span to one request, whichever of the conventions of OpenTelemetry, OpenInference or Langfuse it follows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import checked_number, extras
from prefixledger.ingest.log_events import event_in_log, log_records, span_in_log
from prefixledger.ingest.nested import decoded, short_text
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.span_prompts import set_prompt
from prefixledger.ingest.spans import groups_of, span_of
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import check_order, span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.records import Outcome
    from prefixledger.ingest.spans import Span

KIND: Final = "openinference.span.kind"
OPERATION: Final = "gen_ai.operation.name"
_CALLS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_LANGFUSE: Final = "langfuse.observation."
_CONTENT: Final = re.compile(
    r"gen_ai\.(usage|prompt|completion|input|output|system_instructions|tool)\b|llm\.(token_count|input_|output_|tools|prompts"
    r"|choices|invocation|cost)|(input|output)\.|openinference\.|langfuse\.|embedding\."
)
"""Attributes that are counts or content, never labels."""
_USED: Final = frozenset(
    {"gen_ai.response.id", "gen_ai.request.id", "gen_ai.provider.name", "gen_ai.system", "gen_ai.request.model",
     "gen_ai.response.model", "gen_ai.conversation.id", "session.id", "user.id", "enduser.id", "server.address",
     "server.port", "llm.provider", "llm.system", "llm.model_name", "llm.request.model_name", "llm.response.model_name",
     "error", "metadata"}
)  # fmt: skip
FIELDS: Final = frozenset(
    {"resourceSpans", "scopeSpans", "spans", "resource", "scope", "attributes", "traceId", "spanId", "parentSpanId",
     "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "status", "code", "key", "value", "stringValue", "intValue",
     "doubleValue", "boolValue", "resourceLogs", "scopeLogs", "logRecords", "timeUnixNano", "eventName", "events", "tags", "startTime", "duration", "start_time", "end_time", "flags"}
)  # fmt: skip
"""Fields of spans that may be shown in the excerpt of a reject."""


def read_spans(value: Any) -> Iterator[Outcome]:
    """Yield one outcome for each span in one JSON value.

    Raises:
        BadRecordError: It holds no spans.
    """
    if isinstance(value, dict) and "resourceLogs" in value:
        yield from _read_logs(value)
        return
    if isinstance(value, dict) and "resourceMetrics" in value:
        yield Skip("metrics, no spans")
        return
    any_span = False
    for group in groups_of(value):
        for written in group.spans:
            any_span = True
            try:
                yield outcome_of(span_of(written, group))
            except BadRecordError as bad:
                yield Reject(str(bad), written)
    if not any_span:
        yield Skip("export without a span")


def _read_logs(value: Mapping[str, Any]) -> Iterator[Outcome]:
    """Yield one outcome for each log record in one export."""
    any_record = False
    for record, scope, resource in log_records(value):
        any_record = True
        try:
            span = span_in_log(record, scope, resource)
            yield event_in_log(record, resource) if span is None else outcome_of(span)
        except BadRecordError as bad:
            yield Reject(str(bad), record)
    if not any_record:
        yield Skip("export without a log record")


def outcome_of(span: Span) -> Outcome:
    """Turn one span into a row, or skip it.

    Raises:
        BadRecordError: It is a call to a model, and something in it cannot be.
    """
    if not is_call(span):
        return Skip("non-LLM span", span=span.key, parent_span=span.parent)
    sent, answered = (_body(span, name) for name in ("input", "output"))
    row = Row(started_us=0, prompt_tokens=None)
    _set_usage(row, span, answered)
    if row.prompt_tokens is None and not span.failed and not _may_have_tokens(sent, answered):
        return Skip("call without tokens: audio or images", span=span.key, parent_span=span.parent)
    _set_names(row, span, answered)
    _set_status(row, span)
    _set_times(row, span, answered)
    set_prompt(row, span, sent)
    return row


def is_call(span: Span) -> bool:
    """Return whether a span is one call to a model, not a step around calls, which repeats their sums."""
    attributes = span.attributes
    kind = attributes.get(KIND) or attributes.get("span_kind")
    if kind is not None:
        return str(kind).upper() == "LLM"
    operation = attributes.get(OPERATION)
    if operation is not None:
        return str(operation) in _CALLS
    observed = attributes.get(f"{_LANGFUSE}type")
    if observed is not None:
        return str(observed).lower() == "generation"
    return any(
        name.startswith(("gen_ai.usage.", "llm.token_count.prompt")) or name == f"{_LANGFUSE}usage_details"
        for name in attributes
    )


def _body(span: Span, which: str) -> dict[str, Any]:
    """Return the request or the response that OpenInference keeps whole, an empty object where there is none."""
    body = decoded(span.attributes.get(f"{which}.value"))
    return body if isinstance(body, dict) else {}


def _set_usage(row: Row, span: Span, answered: Mapping[str, Any]) -> None:
    details = decoded(span.attributes.get(f"{_LANGFUSE}usage_details"))
    if isinstance(details, dict):
        apply_usage(row, details, "langfuse")
    elif any(name.startswith("llm.token_count.") for name in span.attributes):
        apply_usage(row, span.attributes, "openinference")
    elif any(name.startswith("gen_ai.usage.") for name in span.attributes):
        apply_usage(row, span.attributes, "otel")
    else:
        body = answered.get("usage", answered.get("usageMetadata"))
        if isinstance(body, dict):
            apply_usage(row, body)


def _may_have_tokens(sent: Mapping[str, Any], answered: Mapping[str, Any]) -> bool:
    """Return whether a call whose usage is missing works on text: what is known to be audio or an image does not."""
    if not sent and not answered:
        return True
    asks = any(name in sent for name in ("messages", "input", "contents")) or (
        "prompt" in sent and "choices" in answered
    )
    return asks or any(name in answered for name in ("choices", "candidates", "content"))


def _set_names(row: Row, span: Span, answered: Mapping[str, Any]) -> None:
    is_engine = _is_engine(span)
    own = answered.get("id")
    row.request_id = span.texts("gen_ai.response.id") or (own if isinstance(own, str) and own else None)
    row.request_id = row.request_id or span.texts("gen_ai.request.id") or span.key
    scope = (span.scope or "").lower()
    engine = next((name for name in ("vllm", "sglang") if name in scope), "vllm" if is_engine else None)
    row.provider = provider_name(
        span.texts("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system") or engine
    )
    row.model = span.texts(
        "gen_ai.response.model", "llm.response.model_name", "llm.model_name", f"{_LANGFUSE}model.name",
        "gen_ai.request.model", "llm.request.model_name",
    )  # fmt: skip
    user = span.texts("user.id", "enduser.id", "langfuse.user.id")
    row.tenant = span.texts("tenant.id", "tenant") or (None if user is None else user_key(user))
    row.session_id = span.texts("session.id", "gen_ai.conversation.id", "langfuse.session.id")
    row.service_tier = span.texts("gen_ai.openai.response.service_tier", "gen_ai.response.service_tier")
    row.release = span.texts("langfuse.release") or short_text(span.resource, "service.version")
    row.client = short_text(span.resource, "service.name")
    row.replica = _host(span.resource) if is_engine else _server(span)
    row.span, row.parent_span, row.recorder = span.key, span.parent, span.scope
    labels = {name: value for name, value in span.attributes.items() if not _CONTENT.match(name)}
    row.extras = extras(labels, _USED)


def _is_engine(span: Span) -> bool:
    """Return whether the engine itself wrote the span, so that the process is the cache."""
    return any(name.startswith("gen_ai.latency.") or name == "gen_ai.request.id" for name in span.attributes)


def _host(resource: Mapping[str, Any]) -> str | None:
    return short_text(resource, "k8s.pod.name", "host.name", "service.instance.id")


def _server(span: Span) -> str | None:
    address, port = span.texts("server.address"), span.texts("server.port")
    return address if address is None or port is None else f"{address}:{port}"


def _set_status(row: Row, span: Span) -> None:
    if not span.failed:
        return
    row.status = "cut" if row.output_tokens else "failed"
    if row.status == "failed" and row.prompt_tokens is None:
        row.prompt_tokens = 0  # it never reached a cache: nobody counted


def _set_times(row: Row, span: Span, answered: Mapping[str, Any]) -> None:
    created = answered.get("created", answered.get("created_at"))
    if span.start_us is not None:
        row.started_us, row.finished_us = span.start_us, span.end_us
    elif created is not None:
        row.started_us, row.rough_start = stamp_us(created, "created")[0], True
    elif span.end_us is not None:
        row.started_us = row.finished_us = span.end_us
        row.rough_start = True
    else:
        raise BadRecordError("missing field: startTimeUnixNano")
    check_order(row.started_us, row.finished_us, "the end of the span")
    for names, field in (
        (("gen_ai.latency.time_in_queue",), "admitted_us"),
        (("gen_ai.response.time_to_first_chunk", "gen_ai.latency.time_to_first_token"), "first_token_us"),
    ):
        took = next((span.attributes[name] for name in names if span.attributes.get(name) is not None), None)
        if took is not None:
            setattr(row, field, row.started_us + span_us(checked_number(took, names[0]), "s", names[0]))
    if row.first_token_us is None:
        first = next(
            (at for name, _, at in span.events if name.startswith("First Token") and at is not None), None
        )
        row.first_token_us = first if first is not None and first >= row.started_us else None
