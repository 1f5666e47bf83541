"""Langfuse exports: observations of the API (camelCase) and of blob exports (snake_case), in JSON, CSV or Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.cells import cell_number
from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import extras, mapping, required, shown
from prefixledger.ingest.gateway_rows import present, set_status, set_text
from prefixledger.ingest.nested import decoded, inner, short_text
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import check_order, span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_SPELLINGS: Final = {
    "traceId": "trace_id", "startTime": "start_time", "endTime": "end_time", "usageDetails": "usage_details",
    "completionStartTime": "completion_start_time", "modelParameters": "model_parameters", "userId": "user_id",
    "sessionId": "session_id", "parentObservationId": "parent_observation_id", "timeToFirstToken": "time_to_first_token",
    "providedModelName": "provided_model_name", "promptTokens": "prompt_tokens", "completionTokens": "completion_tokens",
    "totalTokens": "total_tokens", "traceName": "trace_name", "statusMessage": "status_message",
    "costDetails": "cost_details", "totalCost": "total_cost", "promptName": "prompt_name", "projectId": "project_id",
}  # fmt: skip
_USED: Final = frozenset(
    {*_SPELLINGS.values(), "id", "type", "model", "usage", "input", "output", "level", "metadata", "version", "release",
     "latency", "internal_model_id", "tool_calls", "parent_observation_id", "createdAt", "updatedAt", "created_at",
     "updated_at", "calculatedTotalCost", "calculatedInputCost", "calculatedOutputCost", "inputCost", "outputCost",
     "totalCost", "modelId", "promptId", "prompt_id", "unit", "event_ts", "is_deleted"}
)  # fmt: skip
_FIELDS: Final = frozenset({*_SPELLINGS, *_USED, "data", "meta", "environment", "name"})


class LangfuseReader:
    """Every observation is a record; of generations inside each other only the innermost is a request."""

    info = FormatInfo(
        name="langfuse",
        title="Langfuse export (API pages, JSONL, CSV, Parquet)",
        shape="json",
        also=("csv", "table"),
        keys="text",
        clock="absolute",
        id_scope="global",
        answers=(
            "observed hits and writes",
            "users, sessions, releases and environments",
            "latency",
            "hits and misses from text, where the io fields are exported",
        ),
        lacks=("replicas", "keys where the io fields are off", "counts that the integration never sent"),
        fields=_FIELDS,
        sample="langfuse.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take observations in either spelling, one a row or in pages."""
        if _is_observation(dict.fromkeys(head.cells)):
            return "its columns include type, a trace id and usage details"
        held = [row for value in head.values for row in _rows(value)]
        fit = sum(1 for row in held if _is_observation(row))
        if fit == 0 or 2 * fit < len(held):
            return None
        return f"{fit} of the first {len(held)} records have type, a trace id and usage"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn each observation into a row, or skip it."""
        record = mapping(value)
        if not isinstance(record.get("data"), list):
            yield _outcome(record)
            return
        if not record["data"]:
            yield Skip("empty page")
        for item in record["data"]:
            try:
                yield _outcome(item)
            except BadRecordError as bad:
                yield Reject(str(bad), item)


def _rows(value: Any) -> list[Any]:
    page = value.get("data") if isinstance(value, dict) else None
    return page if isinstance(page, list) else [value]


def _is_observation(row: Any) -> bool:
    if not isinstance(row, dict) or "type" not in row:
        return False
    return bool({"traceId", "trace_id"} & row.keys()) and bool(
        {"usageDetails", "usage_details", "parentObservationId", "parent_observation_id", "promptTokens"}
        & row.keys()
    )


def _outcome(value: Any) -> Outcome:
    record = {_SPELLINGS.get(name, name): present(cell) for name, cell in mapping(value).items()}
    trace, own = short_text(record, "trace_id"), short_text(record, "id")
    above = short_text(record, "parent_observation_id")
    span = None if own is None else f"{trace}:{own}"
    parent = None if above is None else f"{trace}:{above}"
    kind = record.get("type")
    if kind is None and "trace_id" not in record:
        return Skip("trace, no observation")
    if not isinstance(kind, str):
        raise BadRecordError(f"unknown observation: type is {shown(kind)}")
    if kind.upper() != "GENERATION":
        return Skip("non-LLM span", span=span, parent_span=parent)
    row = _row(record)
    row.span, row.parent_span = span, parent
    return row


def _row(record: Mapping[str, Any]) -> Row:
    user = short_text(record, "user_id")
    row = Row(
        started_us=stamp_us(required(record, "start_time"), "start_time")[0],
        prompt_tokens=None,
        first_token_us=_time(record, "completion_start_time"),
        finished_us=_time(record, "end_time"),
        request_id=short_text(record, "id"),
        provider=_provider(record),
        model=short_text(record, "provided_model_name", "model"),
        release=short_text(record, "release", "version"),
        tenant=None if user is None else user_key(user),
        session_id=short_text(record, "session_id"),
        recorder=_recorder(record),
        extras=extras(record, _USED),
    )
    check_order(row.started_us, row.finished_us, "end_time")
    waited = record.get("time_to_first_token")
    if row.first_token_us is None and waited is not None:
        row.first_token_us = row.started_us + span_us(
            cell_number(waited, "time_to_first_token"), "s", "time_to_first_token"
        )
    _set_usage(row, record)
    if str(record.get("level", "")).upper() == "ERROR":
        set_status(row, "error")
    _set_text(row, record)
    return row


def _set_usage(row: Row, record: Mapping[str, Any]) -> None:
    """Read the usage: the free-named details, else the older objects and columns."""
    details = decoded(record.get("usage_details"))
    if isinstance(details, dict) and details:
        apply_usage(row, details, "langfuse" if "input" in details else None)
        if row.prompt_tokens is None and "total" in details:
            apply_usage(row, details, "langfuse")
    usage = decoded(record.get("usage"))
    if row.prompt_tokens is None and isinstance(usage, dict) and usage.get("unit") in (None, "TOKENS"):
        apply_usage(row, usage, "langfuse" if "input" in usage else None)
    counts = {
        name: record[name]
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        if record.get(name)
    }
    if row.prompt_tokens is None and counts:
        apply_usage(row, {name: cell_number(value, name) for name, value in counts.items()}, "openai-chat")


def _set_text(row: Row, record: Mapping[str, Any]) -> None:
    sent = decoded(record.get("input"))
    tools = inner(record, "model_parameters", "tools")
    if isinstance(sent, list):
        sent = {"messages": sent, "tools": tools}
    if isinstance(sent, dict):
        set_text(row, text_parts({"tools": tools, **sent}))
    elif isinstance(sent, str) and sent:
        set_text(row, text_parts({"prompt": sent}))


def _provider(record: Mapping[str, Any]) -> str | None:
    attributes = inner(record, "metadata", "attributes")
    held = attributes if isinstance(attributes, dict) else {}
    named = short_text(held, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
    metadata = inner(record, "metadata")
    return provider_name(
        named or (short_text(metadata, "ls_provider") if isinstance(metadata, dict) else None)
    )


def _recorder(record: Mapping[str, Any]) -> str | None:
    """Return which integration wrote it, where the metadata say so."""
    scope = inner(record, "metadata", "scope", "name")
    source = inner(record, "metadata", "source")
    return next((name for name in (scope, source) if isinstance(name, str) and name), None)


def _time(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    return None if value is None else stamp_us(value, name)[0]
