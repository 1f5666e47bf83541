"""Finds the two bodies of an API call, and the envelope around them, in a log record of any layout."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.json_text import loads
from prefixledger.ingest.streams import STREAM, is_event, joined_answer, looks_like_sse, sse_events
from prefixledger.ingest.usage import usage_dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DEPTH: Final = 4
"""Objects inside objects that are searched for bodies."""
_CONTENT: Final = frozenset(
    {"messages", "input", "contents", "tools", "choices", "output", "content", "candidates", "system", "instructions",
     "systemInstruction", "system_instruction", "toolConfig", "prompt", "message", "tool_choice", "text", "reasoning",
     "generationConfig", "inferenceConfig", "metadata", "error", "metrics", "response_format"}
)  # fmt: skip
"""Fields of bodies: what is inside them is text of people, and no envelope."""
_MAY_WRAP: Final = frozenset({"input", "output", "message", "metadata"})
"""Of them those that envelopes use, too, with an object inside."""
USAGE_NAMES: Final = ("usage", "usageMetadata", "usage_metadata")
_ANSWER_MARKS: Final = ("stopReason", "output", "content", "promptFeedback", "message", "stop_reason")
_OBJECTS: Final = frozenset({"chat.completion", "text_completion", "response", "response.compaction"})
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIRST_CHARACTERS: Final = ("{", "[")


@dataclass(slots=True)
class Exchange:
    """One call as a record holds it.

    Attributes:
        request: Body of the request, None where it was not logged.
        answer: Body of the answer, put together where it was streamed; None where it was not logged.
        usage: Usage, wherever the record has it.
        envelope: Other scalar fields by name in lower case with underscores, the outermost first.
        own: Scalar fields of the record itself, by name as logged: candidates for labels.
        embedding: True where the answer is a list of vectors.
    """

    request: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    envelope: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    embedding: bool = False

    def said(self, *names: str) -> Any:
        """Return the first of some envelope fields that is neither null nor empty."""
        return next((v for name in names if (v := self.envelope.get(name)) not in (None, "")), None)


def find_exchange(record: Mapping[str, Any]) -> Exchange:
    """Search a record, widest first, at most ``MAX_DEPTH`` objects deep; JSON and event streams inside text are read.

    Args:
        record: The record.
    """
    found = Exchange()
    strongest = 0
    waiting: deque[tuple[Mapping[str, Any], int]] = deque([(record, 0)])
    while waiting:
        value, depth = waiting.popleft()
        asks, strength = is_request(value), answer_strength(value)
        if asks and found.request is None:
            found.request = value
        if strength and strength >= strongest:
            found.answer, strongest = value, strength
        if found.usage is None or strength == strongest > 0:
            found.usage = usage_of(value) or found.usage
        found.embedding |= value.get("object") == "list" and isinstance(value.get("data"), list)
        is_body = asks or strength > 0
        if depth == 0 or not is_body:
            _add_envelope(found, value, outermost=depth == 0)
            if depth < MAX_DEPTH:
                waiting.extend((inner, depth + 1) for inner in _inner(value, is_body=is_body))
    return found


def is_request(value: Mapping[str, Any]) -> bool:
    """Return whether an object is the body of a request to a model."""
    if isinstance(value.get("messages"), list) and "choices" not in value:
        return True
    if isinstance(value.get("contents"), list):
        return True
    has_model = isinstance(value.get("model"), str)
    return has_model and any(isinstance(value.get(name), (str, list)) for name in ("input", "prompt"))


def answer_strength(value: Mapping[str, Any]) -> int:
    """Return how surely an object is the body of a model's answer: 3 by its kind, 2 by its fields, 1 an error, 0 not."""
    kind = value.get("object")
    if STREAM in value or (isinstance(kind, str) and kind in _OBJECTS):
        return 3
    if value.get("type") == "message" and "content" in value and "role" in value:
        return 3
    if isinstance(value.get("choices"), list) or isinstance(value.get("candidates"), list):
        return 2
    if any(isinstance(value.get(name), dict) for name in USAGE_NAMES) and any(
        m in value for m in _ANSWER_MARKS
    ):
        return 2
    error = value.get("error")
    return 1 if isinstance(error, dict) and ("message" in error or "type" in error) else 0


def decoded(value: Any) -> Any:
    """Return an object or list that was written as text, an answer put together from its events, or the value itself."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("utf-8", "replace")
    if isinstance(value, str):
        if value.lstrip()[:1] in _FIRST_CHARACTERS:
            try:
                value = loads(value)
            except orjson.JSONDecodeError:
                return value
        elif looks_like_sse(value):
            return joined_answer(sse_events(value)) or value
    if isinstance(value, list) and value:
        return _joined_list(value)
    return value


def _joined_list(value: list[Any]) -> Any:
    """Return the answer that a list of events or of Gemini chunks makes; pieces of one text are read as that text."""
    if all(isinstance(item, str) for item in value):
        text = "".join(value)
        whole = decoded(text) if text.lstrip()[:1] in (*_FIRST_CHARACTERS, "d", "e", ":") else value
        return whole if isinstance(whole, (dict, list)) else value
    objects = [item for item in value if isinstance(item, dict)]
    chunks = [item for item in objects if "candidates" in item or "usageMetadata" in item or is_event(item)]
    return joined_answer(objects) if chunks and len(objects) == len(value) else value


def _inner(value: Mapping[str, Any], *, is_body: bool) -> Iterator[Mapping[str, Any]]:
    for name, held in value.items():
        if name in USAGE_NAMES or (is_body and name in _CONTENT and name not in _MAY_WRAP):
            continue
        opened = decoded(held)
        if isinstance(opened, dict):
            yield opened


def usage_of(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage that an object holds under one of its names, if it is spelt in a known way."""
    for name in USAGE_NAMES:
        held = value.get(name)
        if isinstance(held, dict) and (usage_dialect(held) is not None or not held):
            return held
    return None


def _add_envelope(found: Exchange, value: Mapping[str, Any], *, outermost: bool) -> None:
    for name, held in value.items():
        if name in _CONTENT or isinstance(held, (dict, list)):
            continue
        found.envelope.setdefault(plain_name(name), held)
        if outermost:
            found.own[name] = held


def plain_name(name: str) -> str:
    """Return a field name in one spelling.

    Example:
        >>> plain_name("startTime"), plain_name("X-Request-Id"), plain_name("ts")
        ('start_time', 'x_request_id', 'ts')
    """
    return _CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()
