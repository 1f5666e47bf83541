"""OTLP log records that tell of a call to a model: the details of GenAI conventions, and Claude Code's own events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import extras, wrong_type
from prefixledger.ingest.nested import short_text
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.spans import Span, attributes_of, objects_of
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.records import Outcome

DETAILS: Final = "gen_ai.client.inference.operation.details"
_CALLED: Final = frozenset({"claude_code.api_request", "api_request"})
_FAILED: Final = frozenset({"claude_code.api_error", "api_error"})
_SPELT: Final = {
    "input_tokens": "input_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_creation_tokens": "cache_creation_input_tokens",
    "output_tokens": "output_tokens",
}
_USED: Final = frozenset(
    {*_SPELT, "model", "session.id", "user.id", "organization.id", "event.name", "event.timestamp", "event.sequence",
     "duration_ms", "cost_usd", "request_id", "app.version", "prompt.id", "error", "status_code", "attempt"}
)  # fmt: skip


def log_records(
    value: Mapping[str, Any],
) -> Iterator[tuple[Mapping[str, Any], str | None, Mapping[str, Any]]]:
    """Yield the log records of an OTLP export, each with its scope and the attributes of its resource.

    Raises:
        BadRecordError: It is laid out otherwise.
    """
    for part in objects_of(value, "resourceLogs"):
        resource = attributes_of(part.get("resource") or {})
        for scoped in objects_of(part, "scopeLogs"):
            scope = scoped.get("scope")
            for record in objects_of(scoped, "logRecords"):
                yield record, scope.get("name") if isinstance(scope, dict) else None, resource


def span_in_log(record: Mapping[str, Any], scope: str | None, resource: Mapping[str, Any]) -> Span | None:
    """Return the details of a call as the span that they complete; None where it is no such record."""
    attributes = attributes_of(record)
    if _event(record, attributes) != DETAILS and "gen_ai.input.messages" not in attributes:
        return None
    trace, span = (record.get(name) or "" for name in ("traceId", "spanId"))
    at = _at_us(record)
    return Span(
        attributes={"gen_ai.operation.name": "chat", **attributes},
        name=DETAILS,
        key=f"{trace}:{span}" if span else None,
        end_us=at,
        failed="error.type" in attributes,
        scope=scope,
        resource=resource,
    )


def event_in_log(record: Mapping[str, Any], resource: Mapping[str, Any]) -> Outcome:
    """Return the row of a call that Claude Code reports, a skip for any other record.

    Raises:
        BadRecordError: It is such a record, and something in it cannot be.
    """
    attributes = attributes_of(record)
    event = _event(record, attributes)
    failed = event in _FAILED
    if event not in _CALLED and not failed:
        return Skip("log record that is no call to a model")
    at = _at_us(record)
    if at is None:
        raise BadRecordError("missing field: timeUnixNano")
    took = attributes.get("duration_ms")
    took_us = 0 if took is None else span_us(_number(took), "ms", "duration_ms")
    user = short_text(attributes, "user.id")
    row = Row(
        started_us=at - took_us,
        prompt_tokens=0 if failed else None,
        finished_us=at,
        request_id=short_text(attributes, "request_id"),
        provider="anthropic",
        model=short_text(attributes, "model"),
        release=short_text(resource, "service.version"),
        client=short_text(resource, "service.name"),
        tenant=short_text(attributes, "organization.id") or (None if user is None else user_key(user)),
        session_id=short_text(attributes, "session.id"),
        status="failed" if failed else "ok",
        extras=extras(dict(attributes), _USED),
    )
    if not failed:
        usage = {theirs: attributes[ours] for ours, theirs in _SPELT.items() if ours in attributes}
        apply_usage(row, usage, "anthropic")
        if row.prompt_tokens is None:
            raise BadRecordError("missing field: input_tokens")
    return row


def _event(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    body = record.get("body")
    named = record.get("eventName") or attributes.get("event.name")
    text = body.get("stringValue") if isinstance(body, dict) else body
    return str(named or text or "")


def _at_us(record: Mapping[str, Any]) -> int | None:
    for name in ("timeUnixNano", "observedTimeUnixNano"):
        if record.get(name) not in (None, "", 0, "0"):
            return stamp_us(record[name], name)[0]
    return None


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong_type("duration_ms", value, "a number") from None
