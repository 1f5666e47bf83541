"""The prompt of a span: a whole request body, structured messages, messages flattened by index, or events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import integer
from prefixledger.ingest.nested import decoded
from prefixledger.ingest.prompts import text_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.records import Row
    from prefixledger.ingest.spans import Span

_BODY: Final = frozenset({"messages", "input", "contents", "prompt", "instructions"})
_INFERENCE: Final = re.compile(r"llm\.input_messages\.(\d{1,9})\.message\.(.+)")
_TOOL: Final = re.compile(r"llm\.tools\.(\d{1,9})\.tool\.json_schema")
_TEXTS: Final = re.compile(r"llm\.prompts\.(\d{1,9})\.(?:prompt\.text|completion)")
_LEGACY: Final = re.compile(r"gen_ai\.prompt\.(\d{1,9})\.(.+)")
_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def set_prompt(row: Row, span: Span, sent: Mapping[str, Any]) -> None:
    """Put the prompt of a span on its row: logged token ids as they are, else its text in prompt order.

    Args:
        row: The row.
        span: The span.
        sent: The request body that the span keeps, empty where it keeps none.
    """
    prompt = sent.get("prompt")
    if isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt):
        row.token_ids = prompt
        return
    row.text_parts = text_parts(_body(span, sent)) or None


def _body(span: Span, sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the prompt as the body of a request, from the first place that has one; empty where none has."""
    if not _BODY.isdisjoint(sent):
        return sent
    attributes = span.attributes
    indexed = {"tools": _indexed_tools(attributes), "messages": _indexed(attributes, _INFERENCE)}
    texts = _numbered(attributes, _TEXTS)
    legacy = _indexed(attributes, _LEGACY)
    told = decoded(attributes.get("langfuse.observation.input", attributes.get("input.value")))
    places = (
        next(iter(_structured(span)), None),
        indexed if indexed["messages"] else None,
        {"prompt": texts[0]} if len(texts) == 1 else None,
        {"messages": legacy} if legacy else None,
        told if isinstance(told, dict) else None,
        {"messages": told} if isinstance(told, list) else None,
        {"prompt": told} if isinstance(told, str) else None,
    )
    return next((body for body in places if body), {})


def _structured(span: Span) -> list[dict[str, Any]]:
    """Return bodies made of the conventions' own attributes, of the span or of one of its events."""
    found = []
    for attributes in (span.attributes, *(held for _, held, _ in span.events)):
        messages = decoded(attributes.get("gen_ai.input.messages", attributes.get("gen_ai.prompt")))
        if messages:
            system = decoded(attributes.get("gen_ai.system_instructions"))
            body = {
                "tools": decoded(attributes.get("gen_ai.tool.definitions")),
                "system": _blocks(system) if isinstance(system, list) else system,
                "messages": [_message(item) for item in messages] if isinstance(messages, list) else None,
                "prompt": messages if isinstance(messages, str) else None,
            }
            found.append({key: value for key, value in body.items() if value})
    spoken = [
        {
            "role": _EVENT_ROLES[name],
            "content": decoded(attributes.get("content", attributes.get("gen_ai.event.content"))),
        }
        for name, attributes, _ in span.events
        if name in _EVENT_ROLES
    ]
    if spoken:
        found.append({"messages": spoken})
    return found


def _message(item: Any) -> Any:
    """Bring a message of the conventions, ``{role, parts}``, into the form of chat completions."""
    if isinstance(item, dict) and isinstance(item.get("parts"), list):
        return {"role": item.get("role"), "content": _blocks(item["parts"])}
    return item


def _blocks(parts: list[Any]) -> list[Any]:
    return [
        {"type": "text", "text": part["content"]}
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("content"), str)
        else part
        for part in parts
    ]


def _indexed(attributes: Mapping[str, Any], pattern: re.Pattern[str]) -> list[dict[str, Any]]:
    """Return messages that were flattened to ``….0.role``, in order of their numbers: 10 comes after 9."""
    found: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        match = pattern.fullmatch(name)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = value
    messages = []
    for number in sorted(found):
        fields = found[number]
        content = fields.pop("content", None)
        blocks = {name: value for name, value in fields.items() if name.startswith("contents.")}
        if content is None and blocks:
            content = [[name, blocks[name]] for name in sorted(blocks, key=_by_number)]
        rest = {
            name: fields[name]
            for name in sorted(fields, key=_by_number)
            if name not in blocks and name != "role"
        }
        messages.append({"role": fields.get("role"), "content": content, **rest})
    return messages


def _by_number(name: str) -> tuple[tuple[int, str], ...]:
    numbered = ((integer(step), step) for step in name.split("."))
    return tuple((-1, step) if number is None else (number, "") for number, step in numbered)


def _indexed_tools(attributes: Mapping[str, Any]) -> list[Any]:
    return [decoded(value) for value in _numbered(attributes, _TOOL)]


def _numbered(attributes: Mapping[str, Any], pattern: re.Pattern[str]) -> list[Any]:
    found = {int(match[1]): value for name, value in attributes.items() if (match := pattern.fullmatch(name))}
    return [found[number] for number in sorted(found)]
