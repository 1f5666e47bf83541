"""Batch files of OpenAI and Anthropic: requests in one file, answers in another, joined on ``custom_id``."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.calls import call_outcomes
from prefixledger.ingest.chunks import CHUNK_BYTES, Chunker
from prefixledger.ingest.container import Stream
from prefixledger.ingest.exchange import Exchange, usage_of
from prefixledger.ingest.fields import mapping, maybe_text, required
from prefixledger.ingest.json_text import loads
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.sources import named_source
from prefixledger.ingest.status import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_FIELDS: Final = frozenset(
    {"custom_id", "method", "url", "body", "params", "response", "status_code", "request_id", "error", "result", "type",
     "message", "id", "usage", "model", "created", "messages"}
)  # fmt: skip
_ASKED: Final = Skip("request of a batch, read with its answer")
_NOT_RUN: Final = frozenset({"canceled", "expired"})


class ApiBatchReader:
    """One answer a record; the requests come from the other batch files of the same call, or from the same file."""

    info = FormatInfo(
        name="api-batch",
        title="batch files (OpenAI, Anthropic)",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        repeats="fullest",
        companions=True,
        answers=(
            "observed hits and writes by TTL",
            "lengths",
            "prompts, if the file of requests is given with it",
        ),
        lacks=("the time of Anthropic's batches, and when a request of any batch was served", "replicas"),
        fields=_FIELDS,
        sample="api_batch.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with a custom id and a request or an answer."""
        asked = sum(1 for value in head.values if _request_of(value) is not None)
        answered = sum(1 for value in head.values if _is_answered(value))
        if asked + answered == 0 or 2 * (asked + answered) < len(head.values):
            return None
        return f"{asked} requests and {answered} answers with a custom_id in the first {len(head.values)} records"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:
        """Turn one answer into one outcome, with the request of the same custom id; requests themselves are skipped."""
        record = mapping(value)
        if not _is_answered(record):
            if _request_of(record) is None:
                raise BadRecordError("missing field: response or result")
            return iter((_ASKED,))
        request = _find_request(record, context.companions)
        return _openai(record, request) if "response" in record else _anthropic(record, request)


def _is_answered(value: Any) -> bool:
    if not isinstance(value, dict) or "custom_id" not in value:
        return False
    result = value.get("result")
    if isinstance(result, dict) and "type" in result:
        return True
    return "response" in value and isinstance(value["response"], (dict, type(None)))


def _request_of(value: Any) -> dict[str, Any] | None:
    """Return the body of a batch request."""
    if not isinstance(value, dict) or "custom_id" not in value:
        return None
    body = value.get("body", value.get("params"))
    return body if isinstance(body, dict) else None


def _openai(record: Mapping[str, Any], request: dict[str, Any] | None) -> Iterator[Outcome]:
    response = record["response"] or {}
    held = response.get("body")
    body = held if isinstance(held, dict) else {}
    envelope = {"status_code": response.get("status_code"), "request_id": response.get("request_id")}
    if envelope["request_id"] is None:
        envelope["request_id"] = record.get("id")
    if record.get("error"):
        envelope["error"] = "error"
    exchange = Exchange(request, body or None, usage_of(body), envelope)
    yield from _with_tier(call_outcomes(exchange if request or body else _failed(envelope)))


def _anthropic(record: Mapping[str, Any], request: dict[str, Any] | None) -> Iterator[Outcome]:
    result = mapping(record, "result")
    kind = required(result, "type")
    if isinstance(kind, str) and kind in _NOT_RUN:
        yield Skip("request of a batch that was never run")
        return
    message = result.get("message")
    body = message if isinstance(message, dict) else {}
    envelope = {"status": "error" if status_of(kind, produced=False) == "failed" else "ok"}
    exchange = Exchange(request, body or None, usage_of(body), envelope)
    for outcome in _with_tier(call_outcomes(exchange if request or body else _failed(envelope))):
        if isinstance(outcome, Row):
            outcome.provider = outcome.provider or "anthropic"
        yield outcome


def _failed(envelope: dict[str, Any]) -> Exchange:
    """Return what is known of a call that brought no body."""
    return Exchange(None, {"error": {"type": "none"}}, None, envelope)


def _with_tier(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        if isinstance(outcome, Row):
            outcome.service_tier = outcome.service_tier or "batch"
        yield outcome


def _find_request(record: Mapping[str, Any], companions: tuple[str, ...]) -> dict[str, Any] | None:
    name = maybe_text(record, "custom_id")
    for path in companions:
        held = _requests_in(path).get(name or "")
        if held is not None:
            return _request_of(loads(zlib.decompress(held)))
    return None


@lru_cache(maxsize=8)
def _requests_in(path: str) -> dict[str, bytes]:
    """Return the packed lines of the requests in a batch file by custom id; a batch has at most 50,000 or 100,000."""
    stream = Stream(named_source(path))
    chunker = Chunker(CHUNK_BYTES, quoted=False)
    found: dict[str, bytes] = {}
    try:
        for block in stream.blocks():
            for chunk in chunker.feed(block):
                _take_requests(found, chunk.data)
        for chunk in chunker.finish(cut=False):
            _take_requests(found, chunk.data)
    finally:
        stream.close()
    return found


def _take_requests(found: dict[str, bytes], data: bytes) -> None:
    for raw in data.split(b"\n"):
        if b'"custom_id"' not in raw:
            continue
        try:
            value = loads(raw)
        except orjson.JSONDecodeError:
            continue
        if _request_of(value) is not None and isinstance(value["custom_id"], str):
            found.setdefault(value["custom_id"], zlib.compress(raw, 1))
