"""AWS Bedrock model invocation logs, as S3 and CloudWatch hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.calls import set_usage
from prefixledger.ingest.exchange import Exchange, decoded
from prefixledger.ingest.fields import extras, mapping, maybe_number, maybe_text, required
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.streams import STREAM
from prefixledger.ingest.times import iso_us, span_us
from prefixledger.ingest.usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome
    from prefixledger.ingest.usage import Usage

_SCHEMA: Final = "ModelInvocationLog"
_MESSAGES: Final = ("message", "@message")
_LISTS: Final = ("logEvents", "events")
_USED: Final = frozenset(
    {"schemaType", "schemaVersion", "timestamp", "requestId", "modelId", "input", "output", "identity", "region",
     "inferenceRegion", "errorCode", "status", "requestMetadata", "accountId"}
)  # fmt: skip
_FIELDS: Final = frozenset(
    {"inputBodyJson", "inputTokenCount", "cacheReadInputTokenCount", "cacheWriteInputTokenCount", "outputBodyJson",
     "outputTokenCount", "inputContentType", "outputContentType", "inputBodyS3Path", "outputBodyS3Path", "operation",
     "arn", "message", "logEvents", "logGroup", "logStream", "usage", "metrics", "latencyMs", "messages", "system"}
)  # fmt: skip
_TENANTS: Final = ("tenant", "tenant_id", "tenantId", "team", "customer", "project")
_SESSIONS: Final = ("session_id", "sessionId", "conversation_id", "conversationId")


class BedrockReader:
    """One invocation a record, bare or inside CloudWatch events; native bodies and Converse, streamed or not."""

    info = FormatInfo(
        name="bedrock",
        title="AWS Bedrock model invocation log",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        provider="bedrock",
        repeats="fullest",
        answers=(
            "observed hits and writes",
            "arrivals and lengths",
            "region that holds the cache",
            "failed calls",
        ),
        lacks=("bodies above 100 KB, which lie in S3 objects of their own", "duration of InvokeModel"),
        fields=_USED | _FIELDS,
        sample="bedrock.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records that name the schema, themselves or in a message."""
        named = sum(1 for value in head.values if isinstance(value, dict) and _records(value))
        if named == 0 or 2 * named < len(head.values):
            return None
        return f"{named} of the first {len(head.values)} records are of schemaType {_SCHEMA}"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn one record into one outcome, or one for each event of a CloudWatch page."""
        record = mapping(value)
        invocations = _records(record)
        if not invocations:
            raise BadRecordError(f"no invocation: neither it nor its message is of schemaType {_SCHEMA}")
        for invocation in invocations:
            try:
                yield _outcome(invocation)
            except BadRecordError as bad:
                yield Reject(str(bad), invocation if len(invocations) > 1 else None)


def _records(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the invocations in a record: itself, that in its message, or those of a page of events."""
    if value.get("schemaType") == _SCHEMA:
        return [value]
    pages = [value[name] for name in _LISTS if isinstance(value.get(name), list)]
    if pages:
        return [inner for event in pages[0] if isinstance(event, dict) for inner in _records(event)]
    for name in _MESSAGES:
        held = value.get(name)
        inner = decoded(held) if isinstance(held, str) and _SCHEMA in held else held
        if isinstance(inner, dict) and inner.get("schemaType") == _SCHEMA:
            return [inner]
    return []


def _outcome(record: Mapping[str, Any]) -> Outcome:
    model = _model(record)
    if model is not None and "embed" in model:
        return Skip("embedding, which has no prefix cache")
    start, known = iso_us(required(record, "timestamp"), "timestamp")
    asked, answered = (held if isinstance(held := record.get(n), dict) else {} for n in ("input", "output"))
    request, answer = decoded(asked.get("inputBodyJson")), decoded(answered.get("outputBodyJson"))
    exchange = Exchange(
        request=request if isinstance(request, dict) else None,
        answer=answer if isinstance(answer, dict) else None,
    )
    row = Row(
        started_us=start,
        prompt_tokens=None,
        request_id=maybe_text(record, "requestId"),
        provider="bedrock",
        model=model,
        replica=maybe_text(record, "inferenceRegion") or maybe_text(record, "region"),
        local_clock=not known,
        prompt_complete=not asked.get("inputBodyS3Path"),
        extras=extras(record, _USED),
    )
    _set_who(row, record)
    if exchange.request is not None:
        row.text_parts = text_parts(exchange.request) or None
    usage = _usage(record, asked, answered, exchange)
    if usage is not None:
        set_usage(row, usage)
    _set_end(row, exchange.answer or {})
    row.status = _status(record, exchange.answer or {}, produced=bool(row.output_tokens))
    if row.status == "failed" and row.prompt_tokens is None:
        row.prompt_tokens = 0  # it never reached the model
    return row


def _usage(
    record: Mapping[str, Any], asked: Mapping[str, Any], answered: Mapping[str, Any], exchange: Exchange
) -> Usage | None:
    """Return the usage of the body, which has the TTLs, else what the log counts; old records count at the top."""
    held = (exchange.answer or {}).get("usage")
    usage = read_usage(held) if isinstance(held, dict) else None
    if usage is not None and usage.prompt is not None:
        return usage
    counts = {**record, **asked, **answered}
    return read_usage(counts, "bedrock-log") if counts.get("inputTokenCount") is not None else usage


def _set_who(row: Row, record: Mapping[str, Any]) -> None:
    """Take tenant and session from the metadata of the request, else the tenant from the name of the role session."""
    metadata = record.get("requestMetadata")
    if isinstance(metadata, dict):
        row.tenant = next((text for n in _TENANTS if (text := maybe_text(metadata, n))), None)
        row.session_id = next((text for n in _SESSIONS if (text := maybe_text(metadata, n))), None)
        row.extras = {**extras(metadata, frozenset({*_TENANTS, *_SESSIONS})), **row.extras}
    identity = record.get("identity")
    arn = maybe_text(identity, "arn") if isinstance(identity, dict) else None
    if row.tenant is None and arn is not None:
        row.tenant = arn.rpartition("/")[2] or None


def _model(record: Mapping[str, Any]) -> str | None:
    """Return the id of the model or profile; of an ARN its last part, so that both spellings name one model."""
    name = maybe_text(record, "modelId")
    return name.rpartition("/")[2] if name is not None and name.startswith("arn:") else name


def _set_end(row: Row, answer: Mapping[str, Any]) -> None:
    metrics = answer.get("metrics")
    if not isinstance(metrics, dict):
        return
    for name in ("latencyMs", "invocationLatency"):
        took = maybe_number(metrics, name)
        if took is not None:
            row.finished_us = row.started_us + span_us(took, "ms", name)
            break
    first = maybe_number(metrics, "firstByteLatency")
    if first is not None:
        row.first_token_us = row.started_us + span_us(first, "ms", "firstByteLatency")


def _status(record: Mapping[str, Any], answer: Mapping[str, Any], *, produced: bool) -> Any:
    if record.get("errorCode"):
        return "cut" if produced else "failed"
    stream = answer.get(STREAM)
    if isinstance(stream, dict) and (stream["error"] or not stream["ended"]):
        return "cut"
    return status_of(record.get("status"), produced=produced)
