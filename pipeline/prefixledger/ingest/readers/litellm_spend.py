"""LiteLLM's table of spend logs, as the API or a database dump gives it: JSON, CSV or Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.cells import cell_number
from prefixledger.ingest.fields import extras, mapping, required
from prefixledger.ingest.gateway_rows import is_true, present, set_status, set_text
from prefixledger.ingest.nested import inner_mapping, short_text
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.readers.litellm import CUT_MARK, prompt_body, replica_of, tenant_of
from prefixledger.ingest.records import Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import check_order
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_COLUMNS: Final = ("request_id", "call_type", "spend", "startTime")
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_GENERATES: Final = ("completion", "responses", "anthropic_messages", "generate_content", "pass_through")
_RESPONSE_CACHE: Final = "_cache_hit"
_USED: Final = frozenset(
    {*_COLUMNS, *_COUNTS, "endTime", "completionStartTime", "request_duration_ms", "api_key", "model", "model_id",
     "custom_llm_provider", "api_base", "user", "metadata", "cache_hit", "cache_key", "request_tags", "team_id",
     "organization_id", "end_user", "requester_ip_address", "messages", "response", "proxy_server_request", "session_id",
     "status", "litellm_call_id", "created_at", "updated_at"}
)  # fmt: skip


class LiteLLMSpendReader:
    """One call a row; times have no zone and are UTC, numbers and flags may be text."""

    info = FormatInfo(
        name="litellm-spend",
        title="LiteLLM spend logs (JSON, CSV, Parquet)",
        shape="json",
        also=("csv", "table"),
        keys="text",
        clock="absolute",
        id_scope="global",
        answers=("observed hits and writes", "tenants, keys and deployments", "latency", "failures"),
        lacks=(
            "keys, unless prompts are stored in spend logs",
            "prompts past 35 % of a cut text",
            "daily tables: sums over a day are no requests",
        ),
        fields=_USED | {"usage_object", "additional_usage_values", "model_group"},
        sample="litellm_spend.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records or columns of the table."""
        if set(_COLUMNS) <= set(head.cells):
            return f"its columns include {', '.join(_COLUMNS)}"
        return head.having(*_COLUMNS)

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn one call into one row."""
        record = {name: present(cell) for name, cell in mapping(value).items()}
        request_id = short_text(record, "request_id")
        if is_true(record.get("cache_hit")) or (request_id is not None and _RESPONSE_CACHE in request_id):
            return Skip("response-cache hit")
        kind = record.get("call_type")
        if isinstance(kind, str) and not any(word in kind for word in _GENERATES):
            return Skip("call without a prompt: embedding, image, audio and the like")
        return _row(record)


def _row(record: Mapping[str, Any]) -> Row:
    metadata = inner_mapping(record, "metadata")
    row = Row(
        started_us=stamp_us(required(record, "startTime"), "startTime")[0],
        prompt_tokens=None,
        first_token_us=_time(record, "completionStartTime"),
        finished_us=_time(record, "endTime"),
        request_id=short_text(record, "request_id"),
        provider=provider_name(short_text(record, "custom_llm_provider")),
        model=short_text(record, "model"),
        client=short_text(metadata, "user_agent"),
        tenant=short_text(record, "team_id", "organization_id")
        or tenant_of(metadata, record.get("end_user")),
        session_id=short_text(record, "session_id"),
        replica=replica_of(record),
        extras=extras(record, _USED),
    )
    check_order(row.started_us, row.finished_us, "endTime")
    if row.first_token_us is not None and row.first_token_us < row.started_us:
        row.first_token_us = None
    apply_usage(row, _usage(record, metadata), "litellm")
    set_status(row, record.get("status") or metadata.get("status"))
    body = prompt_body(record) or prompt_body(inner_mapping(record, "proxy_server_request"))
    set_text(row, text_parts(body), CUT_MARK)
    return row


def _usage(record: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of the row with what its metadata says of cached tokens."""
    counts = {name: cell_number(record[name], name) for name in _COUNTS if record.get(name) is not None}
    more = inner_mapping(metadata, "additional_usage_values") or inner_mapping(metadata, "usage_object")
    return {**{name: value for name, value in more.items() if name not in _COUNTS}, **counts}


def _time(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    return None if value is None else stamp_us(value, name)[0]
