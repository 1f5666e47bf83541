"""Helicone exports: requests with their answers, as JSON, JSONL or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.cells import cell_number
from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import extras, mapping, required
from prefixledger.ingest.gateway_rows import present, set_status, set_text
from prefixledger.ingest.nested import inner_mapping, short_text
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import check_order, span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_COLUMNS: Final = ("request_id", "request_created_at", "response_created_at", "prompt_tokens")
_COUNTS: Final = (
    "prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_read_tokens", "prompt_cache_write_tokens",
)  # fmt: skip
_NO_REFERENCE: Final = "00000000-0000-0000-0000-000000000000"
_SESSION: Final = "Helicone-Session-Id"
_USED: Final = frozenset(
    {*_COLUMNS, *_COUNTS, "response_id", "response_status", "request_path", "request_model", "response_model", "model",
     "model_override", "provider", "request_user_id", "request_properties", "properties", "delay_ms",
     "time_to_first_token", "reasoning_tokens", "cost", "costUSD", "cache_enabled", "cache_reference_id",
     "request_body", "response_body", "signed_body_url", "target_url", "request_ip", "prompt_audio_tokens",
     "completion_audio_tokens", "assets"}
)  # fmt: skip


class HeliconeReader:
    """One request a row; an answer from Helicone's own cache is no call to a model."""

    info = FormatInfo(
        name="helicone",
        title="Helicone export (JSONL, JSON, CSV)",
        shape="json",
        also=("csv",),
        keys="text",
        clock="absolute",
        id_scope="global",
        answers=(
            "observed hits and writes",
            "users, sessions and properties",
            "latency",
            "failures",
            "hits and misses from text, with --include-body",
        ),
        lacks=("replicas", "keys without bodies", "large bodies: they are only a signed address"),
        fields=_USED,
        sample="helicone.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records or columns of an export."""
        if set(_COLUMNS) <= set(head.cells):
            return f"its columns include {', '.join(_COLUMNS)}"
        return head.having(*_COLUMNS)

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn one request into one row."""
        record = {name: present(cell) for name, cell in mapping(value).items()}
        reference = record.get("cache_reference_id")
        if reference not in (None, _NO_REFERENCE):
            return Skip("response-cache hit")
        return _row(record)


def _row(record: Mapping[str, Any]) -> Row:
    started = stamp_us(required(record, "request_created_at"), "request_created_at")[0]
    ended = record.get("response_created_at")
    waited = record.get("time_to_first_token")
    properties = inner_mapping(record, "request_properties") or inner_mapping(record, "properties")
    user = short_text(record, "request_user_id")
    row = Row(
        started_us=started,
        prompt_tokens=None,
        first_token_us=None
        if waited is None
        else started + span_us(cell_number(waited, "time_to_first_token"), "ms", "time_to_first_token"),
        finished_us=None if ended is None else stamp_us(ended, "response_created_at")[0],
        request_id=short_text(record, "request_id"),
        provider=provider_name(short_text(record, "provider")),
        model=short_text(record, "response_model", "model_override", "model", "request_model"),
        tenant=None if user is None else user_key(user),
        session_id=short_text(properties, _SESSION),
        extras={**extras(record, _USED), **extras(properties, frozenset({_SESSION}))},
    )
    check_order(row.started_us, row.finished_us, "response_created_at")
    counts = {name: record[name] for name in _COUNTS if name in record}
    apply_usage(
        row, {name: v if v is None else cell_number(v, name) for name, v in counts.items()}, "helicone"
    )
    set_status(row, _word(record.get("response_status")))
    set_text(row, text_parts(inner_mapping(record, "request_body")))
    return row


def _word(status: Any) -> Any:
    """Return an HTTP status as it is; the negative ones are Helicone's own for calls that did not end."""
    if status is None:
        return None
    code = cell_number(status, "response_status")
    return "error" if code < 0 else int(code)
