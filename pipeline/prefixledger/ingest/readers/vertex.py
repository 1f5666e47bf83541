"""Vertex AI request-response logging: rows of its BigQuery table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.calls import call_outcomes
from prefixledger.ingest.exchange import Exchange, decoded, usage_of
from prefixledger.ingest.fields import mapping, maybe_text, required
from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_COLUMNS: Final = frozenset(
    {"endpoint", "deployed_model_id", "logging_time", "request_id", "request_payload", "response_payload", "model",
     "model_version", "api_method", "full_request", "full_response", "metadata", "otel_log"}
)  # fmt: skip
_LOCATION: Final = re.compile(r"locations/(?P<location>[\w-]+)/")


class VertexReader:
    """One call a row; Gemini bodies, and those of partner models such as Claude."""

    info = FormatInfo(
        name="vertex",
        title="Vertex AI request-response logging (BigQuery)",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        provider="vertex",
        repeats="fullest",
        answers=("observed hits", "arrivals and lengths", "models and regions"),
        lacks=("calls left out by a sampling rate below 1", "text of cached contents", "latency"),
        fields=_COLUMNS
        | {"usageMetadata", "contents", "candidates", "promptTokenCount", "cachedContentTokenCount"},
        sample="vertex.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take rows of the logging table."""
        return head.having("logging_time", "full_request", "full_response") or head.having(
            "logging_time", "request_payload", "response_payload"
        )

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn one row of the table into one outcome."""
        record = mapping(value)
        request = _body(record, "full_request", "request_payload")
        answer = _body(record, "full_response", "response_payload")
        exchange = Exchange(request=request, answer=answer, usage=usage_of(answer or {}))
        logged, known = moment_us(required(record, "logging_time"), "logging_time")
        for outcome in call_outcomes(exchange):
            if isinstance(outcome, Row):
                _complete(outcome, record, logged, known=known)
            yield outcome


def _complete(row: Row, record: Mapping[str, Any], logged_us: int, *, known: bool) -> None:
    """Add what the table says; its time is that of logging, so an earlier start of the answer is better."""
    row.provider = "vertex"
    row.request_id = row.request_id or maybe_text(record, "request_id")
    row.model = maybe_text(record, "model") or row.model
    if row.untimed or row.started_us > logged_us:
        row.started_us, row.untimed, row.rough_start, row.local_clock = logged_us, False, True, not known
    match = _LOCATION.search(maybe_text(record, "endpoint") or "")
    row.replica = row.replica or (match["location"] if match else None)
    method = maybe_text(record, "api_method")
    row.extras = {**row.extras, **({} if method is None else {"api_method": method})}


def _body(record: Mapping[str, Any], whole: str, pieces: str) -> dict[str, Any] | None:
    """Return a body from its JSON column, else from the pieces of its text."""
    for name in (whole, pieces):
        held = decoded(record.get(name))
        if isinstance(held, dict):
            return held
    return None
