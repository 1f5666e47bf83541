"""From the bodies of an API call and their envelope to a row, whichever log they were found in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from prefixledger.ingest.bypass import is_bypassed
from prefixledger.ingest.call_times import TIME_NAMES, set_times
from prefixledger.ingest.callers import WHO, set_who
from prefixledger.ingest.exchange import USAGE_NAMES, Exchange, plain_name
from prefixledger.ingest.fields import MAX_TEXT, extras, wrong_type
from prefixledger.ingest.iterations import mark_iterations
from prefixledger.ingest.prompts import cache_ttls, is_continued, text_parts
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.streams import STREAM
from prefixledger.ingest.usage import TTL_ASSUMED, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.records import Outcome, Status
    from prefixledger.ingest.usage import Usage

_IDS: Final = (
    "request_id", "requestid", "x_request_id", "req_id", "apim_request_id", "call_id", "correlation_id",
)  # fmt: skip
_URLS: Final = ("url", "uri", "request_url", "target_url", "endpoint", "path", "request_path")
_STATUSES: Final = (
    "status_code", "http_status", "http_status_code", "response_status", "response_code", "result_status", "status",
    "outcome", "result",
)  # fmt: skip
_INTEGRATION: Final = re.compile(
    r"(?i)^(?:cb|client|server)$|sdk|callback|wrapper|proxy|gateway|middleware|handler|trac|instrument|otel|openinference"
    r"|openllmetry|langchain|langfuse|litellm|helicone|hook"
)
_USED: Final = frozenset({*TIME_NAMES, *_IDS, *_URLS, *_STATUSES, *WHO, "model", "id"})
_ID_FIELDS: Final = ("id", "responseId", "response_id")
_MODEL_FIELDS: Final = ("model", "modelVersion", "model_version")
_MODEL_IN_URL: Final = re.compile(r"/(?:models?|deployments|engines)/(?P<model>[^/:?]+)")
_STORED: Final = re.compile(r"/responses/(?P<id>resp_\w+)(?:$|[?#])")
_OTHER_CALLS: Final = (
    (re.compile(r"/(?:embeddings|embed)\b|:(?:batchE|e)mbedContents?\b"), "embedding, which has no prefix cache"),
    (re.compile(r"/cachedContents\b"), "making of a cached content, no model call"),
    (
        re.compile(r"/(?:count_tokens|tokenize|detokenize)\b|:countTokens\b"), "count of tokens, no model call"),
    (re.compile(r"/(?:models|files|moderations|images|audio|uploads|vector_stores|batches)(?:$|[/?])(?!.*:)"),
     "other endpoint, no model call"),
    (re.compile(r"/(?:health|healthz|readyz|livez|ping|metrics)(?:$|[/?])"), "health check"),
)  # fmt: skip
_RUNNING: Final = frozenset({"queued", "in_progress"})
_REQUEST_TEXT: Final = frozenset(
    {"model", "messages", "input", "contents", "prompt", "tools", "system", "instructions", "metadata", "user",
     "safety_identifier", "prompt_cache_key", "previous_response_id", "conversation", "cache_salt", "service_tier",
     "cachedContent", "id", "session_id"}
)  # fmt: skip


def call_outcomes(exchange: Exchange, *, dialect: str | None = None) -> Iterator[Outcome]:
    """Yield the row of a call, or one for each prompt where a completions call has several lists of token ids.

    Args:
        exchange: Bodies and envelope.
        dialect: Dialect of its usage, where the format says so by itself.

    Raises:
        BadRecordError: Neither body nor usage was found, or a field cannot be what it should.
    """
    url = _url(exchange)
    other = "embedding, which has no prefix cache" if exchange.embedding else _other_call(url)
    if other is not None:
        yield Skip(other)
        return
    if exchange.request is None and exchange.answer is None and exchange.usage is None:
        raise BadRecordError("no exchange: neither a request nor an answer nor usage was found")
    prompts = _token_prompts(exchange)
    row = _row(exchange, url, dialect)
    if row is None:
        yield Skip("answer still in progress")
    elif len(prompts) > 1:
        yield from _rows_of_prompts(row, prompts)
    else:
        if prompts:
            _set_tokens(row, prompts[0])
        mark_iterations(row, exchange.usage or {})
        yield row


def _row(exchange: Exchange, url: str | None, dialect: str | None) -> Row | None:
    request, answer = exchange.request or {}, exchange.answer or {}
    row = Row(started_us=0, prompt_tokens=None, model=_model(exchange, url))
    usage = None if exchange.usage is None else read_usage(exchange.usage, dialect)
    set_who(row, exchange, url, dialect or (None if usage is None else usage.dialect.name))
    if exchange.request is not None:
        row.text_parts = text_parts(request) or None
    if usage is not None:
        set_usage(row, usage)
    _set_ids(row, exchange, url)
    set_times(row, exchange)
    row.service_tier, row.inference_geo = _tier(exchange), _geo(exchange)
    row.prompt_complete = not (
        is_continued(request) or request.get("cachedContent") or request.get("cached_content")
    )
    asked, told = is_bypassed(request), is_bypassed(exchange.own)
    row.bypassed = told if asked is None else asked
    row.parent = _name(request.get("previous_response_id"))
    row.extras = {**extras(request, _REQUEST_TEXT), **_labels(exchange)}
    row.status = _status(
        exchange, produced=bool(row.output_tokens) or bool(answer.get(STREAM, {}).get("produced"))
    )
    state = answer.get("status")
    if isinstance(state, str) and state in _RUNNING:
        if exchange.request is None:
            return None
        row.join, row.part = row.request_id, "request"
    if row.status == "failed" and row.prompt_tokens is None:
        row.prompt_tokens = 0  # it never reached a model
    return row


def set_usage(row: Row, usage: Usage) -> None:
    """Put usage on a row that has its text: written tokens without a TTL get the one that all marks in it ask for."""
    usage.set_on(row)
    if usage.flags & TTL_ASSUMED and row.text_parts and cache_ttls(row.text_parts) == {"1h"}:
        row.cache_write_5m_tokens, row.cache_write_1h_tokens = None, usage.write_5m
        if row.convention is not None:
            row.convention = row.convention._replace(flags=usage.flags & ~TTL_ASSUMED)


def _set_ids(row: Row, exchange: Exchange, url: str | None) -> None:
    """Name the call by the service's id of the answer, else by the id of the request."""
    answer = exchange.answer or {}
    own = next((name for field in _ID_FIELDS if (name := _name(answer.get(field)))), None)
    fetched = _STORED.search(url or "")
    if fetched is not None:
        own = own or fetched["id"]
        row.join, row.part = own, "answer"
    asked = _name(exchange.said(*_IDS)) or (
        None if exchange.answer is None else _name(exchange.envelope.get("id"))
    )
    row.retry_id = asked if asked != own else None
    row.request_id = own or asked
    if own is None:
        row.retry_id = asked
        row.recorder = _recorder(exchange)


def _recorder(exchange: Exchange) -> str | None:
    """Return which integration wrote the record: a wrapper and a callback of one program log the same call.

    ``source`` may as well name who asked, so it counts only where it sounds like an integration.
    """
    named = exchange.said("integration", "instrumentation", "recorder", "logged_by", "callback")
    source = exchange.said("source", "log_source")
    if named is None and isinstance(source, str) and _INTEGRATION.search(source):
        named = source
    return named if isinstance(named, str) and len(named) <= MAX_TEXT else None


def _model(exchange: Exchange, url: str | None) -> str | None:
    """Return the model that answered, else the one asked for, else the one in the address."""
    answer, request = exchange.answer or {}, exchange.request or {}
    named = (
        *(answer.get(field) for field in _MODEL_FIELDS),
        request.get("model"),
        exchange.said("model", "model_id"),
    )
    model = next((name for value in named if (name := _name(value))), None)
    if model is None and url is not None and (match := _MODEL_IN_URL.search(url)):
        model = unquote(match["model"])
    return model


def _geo(exchange: Exchange) -> str | None:
    return _name((exchange.usage or {}).get("inference_geo"))


def _tier(exchange: Exchange) -> str | None:
    if (exchange.usage or {}).get("speed") == "fast":
        return "fast"
    held = (exchange.usage or {}, exchange.answer or {}, exchange.request or {})
    values = (source.get(name) for source in held for name in ("service_tier", "serviceTier", "trafficType"))
    return next((name for value in values if (name := _name(value))), None)


def _status(exchange: Exchange, *, produced: bool) -> Status:
    answer = exchange.answer or {}
    stream = answer.get(STREAM)
    if isinstance(stream, dict) and (stream["error"] or not stream["ended"]):
        return "cut" if produced or exchange.usage else "failed"
    said = [exchange.envelope[name] for name in _STATUSES if exchange.envelope.get(name) not in (None, "")]
    said += [answer.get("status")]
    if (
        isinstance(answer.get("error"), dict)
        or _is_blocked(answer)
        or exchange.envelope.get("error") not in (None, "", False)
    ):
        said.append("error")
    found = [status_of(word, produced=produced) for word in said]
    return next((status for status in ("failed", "cut") if status in found), "ok")


def _is_blocked(answer: Mapping[str, Any]) -> bool:
    feedback = answer.get("promptFeedback")
    return isinstance(feedback, dict) and "blockReason" in feedback


def _token_prompts(exchange: Exchange) -> list[list[Any]]:
    """Return the prompts that were logged as token ids: of completions, or given back by vLLM; images hide what is theirs."""
    request, answer = exchange.request or {}, exchange.answer or {}
    prompt = request.get("prompt")
    if isinstance(prompt, list) and prompt:
        if all(isinstance(item, list) for item in prompt):
            return prompt
        if type(prompt[0]) is int:
            return [prompt]
    given = answer.get("prompt_token_ids")
    if isinstance(given, list) and given and not _has_images(request):
        return [given]
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    given = first.get("prompt_token_ids") if isinstance(first, dict) else None
    return [given] if isinstance(given, list) and given and not _has_images(request) else []


def _has_images(request: Mapping[str, Any]) -> bool:
    messages = request.get("messages")
    blocks = (
        block
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for block in message["content"]
    )
    return any(isinstance(block, dict) and block.get("type") not in (None, "text") for block in blocks)


def _set_tokens(row: Row, ids: list[Any]) -> None:
    """Key a row by its token ids; they are the whole prompt, so their number settles what the prompt count means."""
    row.token_ids = ids
    row.text_parts = None
    row.prompt_complete = True
    said = row.convention
    if said is not None and len(ids) in (said.prompt, said.prompt + said.parts):
        row.prompt_tokens, row.convention = len(ids), None


def _rows_of_prompts(row: Row, prompts: list[list[Any]]) -> Iterator[Row]:
    """Yield one row a prompt; what is reported of all of them together belongs to none."""
    for number, ids in enumerate(prompts):
        own = Row(started_us=row.started_us, prompt_tokens=len(ids), token_ids=ids)
        for name in (
            "finished_us", "provider", "model", "release", "client", "tenant", "session_id", "replica", "cache_salt",
            "service_tier", "inference_geo", "bypassed", "status", "untimed", "rough_start", "local_clock", "extras",
        ):  # fmt: skip
            setattr(own, name, getattr(row, name))
        own.request_id = None if row.request_id is None else f"{row.request_id}-{number}"
        yield own


def _labels(exchange: Exchange) -> dict[str, Any]:
    named = {name for name in exchange.own if plain_name(name) in _USED}
    return extras(exchange.own, frozenset({*named, *USAGE_NAMES, *_REQUEST_TEXT}))


def _other_call(url: str | None) -> str | None:
    if url is None:
        return None
    return next((what for pattern, what in _OTHER_CALLS if pattern.search(url)), None)


def _url(exchange: Exchange) -> str | None:
    values = (exchange.envelope.get(name) for name in _URLS)
    return next((value for value in values if isinstance(value, str) and "/" in value), None)


def _name(value: Any) -> str | None:
    """Return an id or a name; numbers as their digits.

    Raises:
        BadRecordError: It is too long to be one.
    """
    if value is None or value == "" or isinstance(value, (bool, float, dict, list)):
        return None
    if not isinstance(value, (str, int)):
        raise wrong_type("id", value, "text")
    if len(str(value)) > MAX_TEXT:
        raise BadRecordError(f"text too long: a name has {len(str(value))} characters")
    return str(value)
