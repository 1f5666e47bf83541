"""Request and answer bodies of OpenAI, Anthropic, Gemini, Bedrock, Cohere and what speaks like them, in any wrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.calls import call_outcomes
from prefixledger.ingest.exchange import find_exchange
from prefixledger.ingest.fields import mapping
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Skip
from prefixledger.ingest.streams import STREAM, is_event, joined_answer
from prefixledger.ingest.usage import usage_dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.exchange import Exchange
    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_FIELDS: Final = frozenset(
    {"model", "messages", "input", "contents", "prompt", "tools", "system", "instructions", "usage", "usageMetadata",
     "choices", "candidates", "output", "content", "request", "response", "body", "status", "status_code", "error",
     "id", "object", "type", "created", "created_at", "ts", "timestamp", "latency_ms", "duration_ms", "method", "url",
     "uri", "stream", "headers", "role", "stop_reason", "finish_reason", "prompt_tokens", "completion_tokens",
     "total_tokens", "input_tokens", "output_tokens", "prompt_tokens_details", "input_tokens_details", "cached_tokens",
     "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation", "inputTokens", "outputTokens",
     "totalTokens", "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "totalTokenCount"}
)  # fmt: skip
_OTHER_DIALECTS: Final = frozenset({"langfuse", "otel", "openinference", "helicone"})


class ApiExchangeReader:
    """One call a record; bodies up to four objects deep, as JSON or event streams inside text, or streams in pieces."""

    info = FormatInfo(
        name="api-exchange",
        title="API request and answer bodies",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        repeats="fullest",
        answers=(
            "observed hits and writes by TTL",
            "arrivals and lengths",
            "models, tenants and sessions",
            "failed calls",
        ),
        lacks=(
            "the prompt that a service keeps on its side (previous_response_id, cached contents)",
            "time of calls whose wrapper writes none and whose answer has none",
            "replicas of a hosted service",
        ),
        fields=_FIELDS,
        sample="api_exchange.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records that hold usage of a model's answer, or a request and an answer."""
        calls = [found for value in head.values if (found := _seen(value)) is not None]
        if not calls or 2 * len(calls) < len(head.values):
            return None
        with_usage = sum(1 for found in calls if found.usage is not None)
        if with_usage == 0 and not any(_is_whole(found) for found in calls):
            return None
        return f"{len(calls)} of the first {len(head.values)} records hold bodies of API calls, {with_usage} with usage"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn one record into the outcome of its call."""
        record = mapping(value)
        if is_event(record) and "request" not in record:
            answer = _last_event(record)
            return (
                iter((Skip("event of a stream"),)) if answer is None else call_outcomes(find_exchange(answer))
            )
        return call_outcomes(find_exchange(record))


def _seen(value: Any) -> Exchange | None:
    """Return what a record holds, if that is a call and nothing that another format writes."""
    if not isinstance(value, dict):
        return None
    found = find_exchange(value)
    if found.usage is not None:
        dialect = usage_dialect(found.usage)
        return None if dialect is None or dialect.name in _OTHER_DIALECTS else found
    return found if found.request is not None or found.answer is not None else None


def _is_whole(found: Exchange) -> bool:
    """Return whether a call without usage is one for sure: both bodies, or an answer put together from its events."""
    return found.answer is not None and (found.request is not None or STREAM in found.answer)


def _last_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer that a single event holds, if it is one that carries usage and an id; others tell nothing new."""
    answer = joined_answer([event])
    if answer is None or not answer.get("id") or not answer.get("usage"):
        return None
    return {name: value for name, value in answer.items() if name != STREAM}
