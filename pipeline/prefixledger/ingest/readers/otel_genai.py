"""OpenTelemetry spans and log events by the GenAI conventions, old and new: OTLP JSON, Jaeger exports, one span a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.llm_spans import FIELDS, read_spans
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.spans import is_export, is_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_MARKS: Final = (b"gen_ai.", b"langfuse.observation.")


class OTelGenAIReader:
    """Every span is a record; of spans inside each other only the innermost call to a model is a request."""

    info = FormatInfo(
        name="otel-genai",
        title="OpenTelemetry GenAI spans and log events (OTLP JSON, Jaeger, one span a line)",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        answers=(
            "observed hits",
            "latency",
            "sessions",
            "hits and misses from text, where messages are recorded",
        ),
        lacks=(
            "keys where the opt-in content attributes are off",
            "replicas behind a hosted address",
            "content of a span that is only in a log record of another file, or behind the span in this one",
        ),
        fields=FIELDS,
        sample="otel_genai.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take exports of spans, and spans with an attribute of the conventions."""
        exports = sum(1 for value in head.values if is_export(value))
        if 2 * exports > len(head.values):
            return f"{exports} of the first {head.lines} records are OTLP exports"
        if not head.values and b'"resourceSpans"' in head.text:
            return "it begins as an OTLP export"
        held = sum(1 for value in head.values if is_span(value) or _is_jaeger(value))
        if 2 * held > len(head.values) and any(mark in head.text for mark in _MARKS):
            return f"{held} of the first {head.lines} records are spans, with attributes gen_ai.…"
        return None

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn each span into a row, or skip it."""
        return read_spans(value)


def _is_jaeger(value: Any) -> bool:
    traces = value.get("data") if isinstance(value, dict) else None
    return isinstance(traces, list) and any(isinstance(trace, dict) and "spans" in trace for trace in traces)
