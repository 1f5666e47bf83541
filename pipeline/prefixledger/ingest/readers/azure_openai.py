"""Azure OpenAI diagnostics: resource logs, and the gateway and LLM logs of API Management."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.calls import call_outcomes, set_usage
from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.exchange import Exchange, decoded, find_exchange
from prefixledger.ingest.fields import extras, mapping, maybe_number, maybe_text, required, shown
from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.times import span_us
from prefixledger.ingest.usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_CATEGORIES: Final = ("RequestResponse", "GatewayLogs", "GatewayLlmLogs", "Audit", "Trace")
_LLM_TABLE: Final = "ApiManagementGatewayLlmLog"
_TABLES: Final = (_LLM_TABLE, "AzureDiagnostics", "ApiManagementGatewayLogs")
_BODIES: Final = (
    ("backendRequestBody", "requestBody", "BackendRequestBody", "RequestBody"),
    ("backendResponseBody", "responseBody", "BackendResponseBody", "ResponseBody"),
)
_USED: Final = frozenset(
    {"time", "TimeGenerated", "category", "Category", "correlationId", "CorrelationId", "RequestId", "properties",
     "properties_s", "durationMs", "DurationMs", "PromptTokens", "CompletionTokens", "TotalTokens", "RequestMessages",
     "ResponseMessages", "ModelName", "DeploymentName", "SequenceNumber", "resourceId", "ResourceId", "location",
     "Location", "Region", "resultSignature", "ResultSignature", "callerIpAddress", "CallerIPAddress", "Type", "TenantId"}
)  # fmt: skip
_TENANTS: Final = ("apimSubscriptionId", "ApimSubscriptionId", "productId", "ProductId")
_USERS: Final = ("userId", "UserId")


class AzureOpenAiReader:
    """One call a record; a long LLM log is several records with one correlation id."""

    info = FormatInfo(
        name="azure-openai",
        title="Azure OpenAI diagnostics and API Management logs",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        provider="azure",
        repeats="fullest",
        answers=("observed hits, where bodies are logged", "arrivals and lengths", "subscriptions", "failed calls"),
        lacks=(
            "cached tokens in the LLM log of API Management, which has no column for them",
            "tokens in resource logs (RequestResponse), which hold times and bytes only",
            "bodies cut at the size limit of the log",
        ),
        fields=_USED | {*_TENANTS, *_USERS, *(name for names in _BODIES for name in names), "apiName", "requestTime", "url",
                        "responseTime", "modelDeploymentName", "modelName", "modelVersion", "operationName", "records"},
        sample="azure_openai.jsonl",
    )  # fmt: skip

    def recognise(self, head: Head) -> str | None:
        """Take records of the known categories and tables."""
        found = [record for value in head.values if isinstance(value, dict) for record in _records(value)]
        named = sum(1 for record in found if _kind(record) is not None)
        if named == 0 or 2 * named < len(found):
            return None
        return f"{named} of the first {len(found)} records are Azure diagnostics of an API"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn one record into one outcome, or one for each record in a list of them."""
        records = _records(mapping(value))
        for record in records:
            try:
                yield from _outcomes(record)
            except BadRecordError as bad:
                yield Reject(str(bad), record if len(records) > 1 else None)


def _records(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    held = value.get("records")
    return [item for item in held if isinstance(item, dict)] if isinstance(held, list) else [value]


def _kind(record: Mapping[str, Any]) -> str | None:
    """Return the category of a record, None where it is of no known one."""
    table = record.get("Type")
    if table == _LLM_TABLE or ("PromptTokens" in record and "CorrelationId" in record):
        return "GatewayLlmLogs"
    category = record.get("category", record.get("Category"))
    if category in _CATEGORIES and ("resourceId" in record or "ResourceId" in record or table in _TABLES):
        return str(category)
    return "GatewayLogs" if table in _TABLES else None


def _outcomes(record: Mapping[str, Any]) -> Iterator[Outcome]:
    kind = _kind(record)
    if kind is None:
        raise BadRecordError(f"unknown category: category is {shown(record.get('category'))}")
    if kind in ("Audit", "Trace"):
        yield Skip("no call")
        return
    held = decoded(record.get("properties", record.get("properties_s")))
    properties = held if isinstance(held, dict) else {}
    merged = {**properties, **record}
    if kind == "RequestResponse":
        yield Skip("resource log without tokens or text")
    elif kind == "GatewayLlmLogs":
        yield _llm_row(merged)
    else:
        yield from _gateway_rows(merged)


def _llm_row(record: Mapping[str, Any]) -> Row:
    """Turn a row of the LLM log into a piece of its call: only one of several rows has the counts."""
    row = _begun(record)
    row.join, row.part = row.request_id, "piece" if row.request_id else "whole"
    row.model = maybe_text(record, "ModelName") or maybe_text(record, "DeploymentName")
    counts = {
        "prompt_tokens": record.get("PromptTokens") or None,
        "completion_tokens": record.get("CompletionTokens"),
        "total_tokens": record.get("TotalTokens"),
    }
    usage = read_usage(counts, "openai-chat")
    if usage is not None:
        set_usage(row, usage)
    messages = decoded(record.get("RequestMessages"))
    if isinstance(messages, list):
        row.text_parts = text_parts({"messages": messages}) or None
    return row


def _gateway_rows(record: Mapping[str, Any]) -> Iterator[Outcome]:
    request, answer = (_body(record, names) for names in _BODIES)
    if request is None and answer is None:
        yield Skip("gateway log without bodies")
        return
    inner = find_exchange({"request": request, "response": answer})
    url = maybe_text(record, "url") or maybe_text(record, "Url")
    exchange = Exchange(inner.request, inner.answer, inner.usage, {"url": url} if url else {})
    for outcome in call_outcomes(exchange):
        if isinstance(outcome, Row):
            _complete(outcome, _begun(record), record)
        yield outcome


def _complete(row: Row, begun: Row, record: Mapping[str, Any]) -> None:
    row.retry_id = begun.request_id
    row.request_id = row.request_id or begun.request_id
    row.started_us, row.finished_us, row.untimed = begun.started_us, begun.finished_us, False
    row.local_clock, row.rough_start = begun.local_clock, False
    row.provider, row.replica, row.extras = "azure", begun.replica, {**row.extras, **begun.extras}
    row.tenant = begun.tenant or row.tenant
    code = next((record[n] for n in ("responseCode", "ResponseCode", "resultSignature") if n in record), None)
    if row.status == "ok":
        row.status = status_of(code, produced=bool(row.output_tokens))
    if row.status == "failed" and row.prompt_tokens is None:
        row.prompt_tokens = 0


def _user(record: Mapping[str, Any]) -> str | None:
    user = next((text for name in _USERS if (text := maybe_text(record, name))), None)
    return None if user is None else user_key(user)


def _begun(record: Mapping[str, Any]) -> Row:
    time = "time" if "time" in record else "TimeGenerated"
    start, known = moment_us(required(record, time), time)
    row = Row(
        started_us=start,
        prompt_tokens=None,
        request_id=maybe_text(record, "correlationId") or maybe_text(record, "CorrelationId"),
        provider="azure",
        tenant=next((text for name in _TENANTS if (text := maybe_text(record, name))), None) or _user(record),
        replica=next((t for n in ("location", "Location", "Region") if (t := maybe_text(record, n))), None),
        local_clock=not known,
        extras=extras(record, _USED | {*_TENANTS, *_USERS, *(name for names in _BODIES for name in names)}),
    )
    took = maybe_number(record, "durationMs" if "durationMs" in record else "DurationMs")
    if took is not None and took >= 0:  # some are negative
        row.finished_us = start + span_us(took, "ms", "durationMs")
    return row


def _body(record: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the first body that was logged whole: one that was cut is no JSON."""
    bodies = (decoded(record.get(name)) for name in names)
    return next((body for body in bodies if isinstance(body, dict)), None)
