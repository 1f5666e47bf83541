"""Puts the events of a streamed answer together into what one answer would have said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.json_text import loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

STREAM: Final = "_stream"
"""Key under which a put-together answer says how the stream went: ``ended``, ``produced``, ``error``."""
_METRICS: Final = "amazon-bedrock-invocationMetrics"
_ENDS: Final = frozenset(
    {"message_stop", "message-end", "response.completed", "response.incomplete", "response.failed"}
)
_BEGINS: Final = frozenset({"message_start", "message-start", "response.created"})
_SSE_STARTS: Final = ("data:", "event:", ":")


def looks_like_sse(text: str) -> bool:
    """Return whether a text is a capture of server-sent events."""
    head = text.lstrip()
    return head.startswith(_SSE_STARTS) and "data:" in head


def sse_events(text: str) -> Iterator[Any]:
    r"""Yield the JSON values of the ``data:`` lines of a capture, and ``[DONE]`` as it stands; only ``\n`` ends a line.

    A last line that is cut off is left out.
    """
    for line in text.split("\n"):
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            yield data
            continue
        try:
            yield loads(data)
        except orjson.JSONDecodeError:
            continue


def is_capture(data: bytes) -> bool:
    """Return whether an input begins as a bare capture of event streams."""
    return data.lstrip()[:6].startswith((b"data:", b"event:"))


def captured_answers(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the answer of each stream in a bare capture; a stream ends where it says so, or where another one begins."""
    held: list[Any] = []
    name: Any = None
    for event in sse_events(data.decode("utf-8", "replace")):
        begins, own = _beginning(event)
        if held and (begins or (own is not None and name is not None and own != name)):
            yield from _answers(held)
            held, name = [], None
        held.append(event)
        name = own or name
        if event == "[DONE]" or (isinstance(event, dict) and str(event.get("type")) in _ENDS):
            yield from _answers(held)
            held, name = [], None
    yield from _answers(held)


def _beginning(event: Any) -> tuple[bool, Any]:
    """Return whether an event can only be the first of its stream, and the id that all events of its stream have."""
    if not isinstance(event, dict):
        return False, None
    return str(event.get("type")) in _BEGINS, event.get("responseId") or (
        event.get("id") if "choices" in event else None
    )


def _answers(events: list[Any]) -> Iterator[dict[str, Any]]:
    answer = joined_answer(events) if any(isinstance(event, dict) for event in events) else None
    if answer is not None:
        yield answer


def is_event(value: Any) -> bool:
    """Return whether an object is an event of a stream, and no answer by itself."""
    if not isinstance(value, dict) or STREAM in value:
        return False
    kind = value.get("type")
    if isinstance(kind, str) and (
        kind.startswith(("response.", "content_block", "content-", "message_", "message-"))
    ):
        return True
    if value.get("object") in ("chat.completion.chunk", "text_completion.chunk"):
        return True
    return kind == "ping" or any(
        name in value for name in ("messageStart", "contentBlockDelta", "messageStop", _METRICS)
    )


def joined_answer(events: Iterable[Any]) -> dict[str, Any] | None:
    """Put events together.

    Counts in streams are cumulative, so the last number of each field counts and none are added.

    Args:
        events: Events, ``[DONE]`` among them, in order; a list of parts of one Gemini answer is one, too.

    Returns:
        An answer in the shape of its service, with ``STREAM``; None where no event is known.
    """
    answer: dict[str, Any] = {}
    state = {"ended": False, "produced": False, "error": False}
    known = False
    for event in events:
        if event == "[DONE]":
            state["ended"] = True
        elif isinstance(event, dict):
            known |= _take(answer, state, event)
    if (
        "usage" not in answer
        and isinstance(answer.get("metrics"), dict)
        and "inputTokenCount" in answer["metrics"]
    ):
        answer["usage"] = answer["metrics"]
    return {**answer, STREAM: state} if known else None


def _take(answer: dict[str, Any], state: dict[str, bool], event: Mapping[str, Any]) -> bool:
    kind = event.get("type")
    kind = kind if kind is None or isinstance(kind, str) else ""
    if kind == "error" or isinstance(event.get("error"), dict):
        state["error"] = True
        return True
    if kind in _ENDS:
        state["ended"] = True
    if isinstance(kind, str):
        _take_typed(answer, state, kind, event)
    if _METRICS in event:
        answer["metrics"] = event[_METRICS]
    if kind is None or "choices" in event or "candidates" in event:
        _take_plain(answer, state, event)
    return isinstance(kind, str) or _METRICS in event or bool(_PLAIN_KEYS & event.keys())


def _take_typed(answer: dict[str, Any], state: dict[str, bool], kind: str, event: Mapping[str, Any]) -> None:
    """Take an event of Anthropic, OpenAI responses or Cohere."""
    inner = event.get("message") if kind == "message_start" else event.get("response")
    if isinstance(inner, dict) and kind.startswith(("message_", "response.")):
        usage = answer.get("usage")
        answer.update({name: value for name, value in inner.items() if value is not None and name != "usage"})
        if isinstance(usage, dict):
            answer["usage"] = usage
        _merge_usage(answer, inner.get("usage"))
    if kind == "message_delta":
        _merge_usage(answer, event.get("usage"))
    if kind == "message-start":
        answer["id"] = event.get("id")
    if kind == "message-end" and isinstance(event.get("delta"), dict):
        _merge_usage(answer, event["delta"].get("usage"))
    state["produced"] |= "delta" in kind and kind != "message_delta"


_PLAIN_KEYS: Final = frozenset(
    {"choices", "candidates", "usageMetadata", "usage_metadata", "usage", "messageStart", "messageStop",
     "contentBlockStart", "contentBlockDelta", "contentBlockStop", "metadata"}
)  # fmt: skip


def _take_plain(answer: dict[str, Any], state: dict[str, bool], event: Mapping[str, Any]) -> None:
    """Take a chunk of OpenAI chat, Gemini or Bedrock Converse."""
    for name in (
        "id", "model", "created", "object", "service_tier", "responseId", "response_id", "modelVersion",
        "model_version", "createTime", "create_time", "promptFeedback",
    ):  # fmt: skip
        if event.get(name) is not None:
            answer.setdefault(name, event[name])
    _merge_usage(answer, event.get("usage"))
    for name in ("usageMetadata", "usage_metadata"):
        if isinstance(event.get(name), dict):
            answer[name] = event[name]
    for choice in (*_objects(event.get("choices")), *_objects(event.get("candidates"))):
        state["produced"] |= bool(choice.get("delta") or choice.get("content") or choice.get("text"))
        reason = choice.get("finish_reason") or choice.get("finishReason")
        state["ended"] |= reason is not None
    held = event.get("metadata")
    if isinstance(held, dict):
        _merge_usage(answer, held.get("usage"))
        answer["metrics"] = held.get("metrics")
    state["produced"] |= "contentBlockDelta" in event
    state["ended"] |= "messageStop" in event


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _merge_usage(answer: dict[str, Any], usage: Any) -> None:
    """Let the last number of each field stand; a field that is null later keeps its number."""
    if not isinstance(usage, dict):
        return
    held = answer.setdefault("usage", {})
    for name, value in usage.items():
        if value is not None or name not in held:
            held[name] = value
