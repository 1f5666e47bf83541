"""From the body of a request to the parts of its prompt, in prompt order, without what is no content."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from prefixledger.ingest.records import TextPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
_NO_CONTENT: Final = frozenset({*_MARKS, "signature", "thoughtSignature", "thought_signature"})
"""Fields of a message, a tool or a block that are no content; inside arguments and schemas the same names are."""
_ITEM_IDS: Final = frozenset({"id", "status"})
"""Of items of an OpenAI responses input: ids and states of the items, not of the calls."""
_TEXT_KINDS: Final = frozenset({"text", "input_text", "output_text"})
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_CLIENT_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_SERVER_RESULT: Final = "server_tool/5m"
"""Mark that Claude sets behind a result of its own tools, if there is any other mark on the prompt."""


def text_parts(body: Mapping[str, Any]) -> tuple[TextPart, ...]:
    """Return the prompt of a request body of OpenAI, Anthropic, Gemini, Bedrock or Cohere: tools, system, messages.

    Args:
        body: The body, keys in the order in which they were sent.

    Returns:
        Parts from the beginning of the prompt; of one whose history the service keeps only those before it, of one that
        begins with a cached content none.
    """
    if body.get("cachedContent") or body.get("cached_content"):
        return ()
    parts = _own_marks(body, _automatic(body, _parts(body)))
    if is_continued(body):
        return tuple(takewhile(lambda part: part.kind != "message", parts))
    return parts


def _automatic(body: Mapping[str, Any], parts: tuple[TextPart, ...]) -> tuple[TextPart, ...]:
    """Put the mark of a body that is to be cached as a whole behind its last part, as the service does."""
    mark = _mark(body)
    if mark is None or not parts or parts[-1].breakpoint not in (None, _SERVER_RESULT):
        return parts
    return (*parts[:-1], replace(parts[-1], breakpoint=mark))


def _own_marks(body: Mapping[str, Any], parts: tuple[TextPart, ...]) -> tuple[TextPart, ...]:
    """Add the marks that a service sets by itself.

    Claude marks the results of its own tools wherever there is a mark at all, for 5 minutes whatever the others ask for;
    GPT marks the end of a prompt, for the time that its options name, unless they tell it not to.
    """
    options = body.get("prompt_cache_options")
    if isinstance(options, dict) and parts and parts[-1].breakpoint in (None, _SERVER_RESULT):
        ttl = options.get("ttl")
        own = f"implicit/{ttl}"[:32] if isinstance(ttl, str) else None
        own = "off" if options.get("mode") == "explicit" else own
        parts = (*parts[:-1], replace(parts[-1], breakpoint=own))
    if all(part.breakpoint in (None, _SERVER_RESULT) for part in parts):
        return tuple(replace(part, breakpoint=None) for part in parts)
    return parts


def _server_mark(block: Any) -> str | None:
    kind = str(block.get("type")) if isinstance(block, dict) else ""
    return _SERVER_RESULT if kind.endswith("_tool_result") and kind not in _CLIENT_RESULTS else None


def is_continued(body: Mapping[str, Any]) -> bool:
    """Return whether the service puts a history before the messages of a body, which the log does not have."""
    return any(body.get(name) for name in ("previous_response_id", "conversation"))


def cache_ttls(parts: Iterable[TextPart]) -> frozenset[str]:
    """Return the TTLs that the cache marks of Anthropic's kind on a prompt ask for; ``5m`` where a mark names none."""
    marks = [part.breakpoint for part in parts if part.breakpoint not in (None, "off")]
    return frozenset(mark.partition("/")[2] or "5m" for mark in marks)


def _parts(body: Mapping[str, Any]) -> tuple[TextPart, ...]:
    parts: list[TextPart] = []
    tools = _tools_of(body)
    if tools not in _EMPTY:
        parts += _tools(tools if isinstance(tools, list) else [tools])
    system = next(
        (
            body[n]
            for n in ("system", "instructions", "systemInstruction", "system_instruction")
            if body.get(n)
        ),
        None,
    )
    if system is not None:
        blocks = _system_blocks(system)
        _mark_last(parts, _leading_mark(blocks))
        parts += _block_parts("system", "system", blocks)
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        parts.append(TextPart("message", None, _utf8(prompt)))
    content = next((body[n] for n in ("messages", "contents", "input") if body.get(n) not in _EMPTY), None)
    if isinstance(content, str):
        parts.append(TextPart("message", "user", _utf8(content)))
    if isinstance(content, list):
        leading = True
        for item in content:
            _mark_last(parts, _leading_mark(_blocks_of(item)))
            said = tuple(_message(item, leading=leading))
            leading = said[0].kind == "system"
            parts += said
    return tuple(parts)


def _mark_last(parts: list[TextPart], mark: str | None) -> None:
    """Put a mark that stands in front of the next part behind the last one, if there is any."""
    if mark is not None and parts:
        parts[-1] = replace(parts[-1], breakpoint=mark)


def _leading_mark(blocks: list[Any]) -> str | None:
    """Return the mark that stands in front of all content of a message or a system prompt."""
    return _last(_mark(block) for block in takewhile(_is_mark_only, blocks))


def _tools_of(body: Mapping[str, Any]) -> Any:
    config = body.get("toolConfig")
    if isinstance(config, dict) and config.get("tools"):
        return config["tools"]
    return body.get("tools") or body.get("functions")


def _tools(tools: list[Any]) -> list[TextPart]:
    """Return one part a tool, whether it is marked or not: a mark may stand behind any."""
    parts: list[TextPart] = []
    for tool in tools:
        if _is_mark_only(tool):
            _mark_last(parts, _mark(tool))
            continue
        plain, mark = _stripped(tool), _mark(tool)
        function = plain.get("function") if isinstance(plain, dict) else None
        if isinstance(function, dict):  # gateways take a mark on the function, too
            plain, mark = {**plain, "function": _stripped(function)}, _last([_mark(function), mark])
        parts.append(_json_part("tools", None, plain, mark, 1))
    return parts


def _system_blocks(system: Any) -> list[Any]:
    if isinstance(system, dict) and isinstance(system.get("parts"), list):
        system = system["parts"]
    return system if isinstance(system, list) else [system]


def _block_parts(
    kind: Literal["system", "message"], role: str | None, blocks: list[Any]
) -> Iterator[TextPart]:
    """Yield one part a block, whether it is marked or not: a mark may stand behind any, and is moved from turn to turn."""
    held: TextPart | None = None
    goes_on = False
    for block in blocks:
        if _is_mark_only(block):
            if held is not None:
                held = replace(held, breakpoint=_mark(block))
            continue
        if held is not None:
            yield held
        mark = _mark(block) or _server_mark(block)
        held = replace(_content_part(kind, role, [block], mark), goes_on=goes_on and kind == "message")
        goes_on = True
    if held is not None:
        yield held


def _message(item: Any, *, leading: bool) -> Iterator[TextPart]:
    """Yield the parts of a message: one a content block, one in all where it says more than its content; at least one."""
    if not isinstance(item, dict):
        yield _content_part("message", "user", [item], None)
        return
    role = item.get("role")
    name = role if isinstance(role, str) else item["type"] if isinstance(item.get("type"), str) else None
    kind: Literal["system", "message"] = "system" if leading and name in _SYSTEM_ROLES else "message"
    field = _content_field(item)
    content, blocks, mark = item.get(field), _blocks_of(item), _mark(item)
    ignored = {"role", field, *_NO_CONTENT, *(_ITEM_IDS if "type" in item or "id" in item else ())}
    if item.get("type") == "message":
        ignored.add("type")
    if all(value is None or key in ignored for key, value in item.items()):
        said = list(_block_parts(kind, name, blocks)) or [_content_part(kind, name, blocks, None)]
        yield from said[:-1]
        yield said[-1] if mark is None else replace(said[-1], breakpoint=_last([mark, said[-1].breakpoint]))
        return
    inside = list(dropwhile(_is_mark_only, blocks))
    mark = _last([*map(_server_mark, inside), mark, *map(_mark, inside)])
    rest = {k: v for k, v in item.items() if k not in _NO_CONTENT and not (k in _ITEM_IDS and "type" in item)}
    if field in rest:
        rest[field] = _plain_content(blocks) if isinstance(content, list) else content
    yield _json_part(kind, name, rest, mark, _count(blocks))


def _content_field(item: Mapping[str, Any]) -> str:
    return "parts" if isinstance(item.get("parts"), list) else "content"


def _blocks_of(item: Any) -> list[Any]:
    content = item.get(_content_field(item)) if isinstance(item, dict) else item
    return content if isinstance(content, list) else [] if content is None else [content]


def _content_part(
    kind: Literal["system", "message"], role: str | None, blocks: list[Any], mark: str | None
) -> TextPart:
    content = _plain_content(blocks)
    if isinstance(content, str):
        return TextPart(kind, role, _utf8(content), None, mark)
    return _json_part(kind, role, content, mark, _count(blocks))


def _count(blocks: list[Any]) -> int:
    return max(1, sum(not _is_mark_only(block) for block in blocks))


def _plain_content(blocks: list[Any]) -> Any:
    """Return blocks without what is no content; a single text as that text, in whichever of the two ways it was sent."""
    plain = [_stripped(block) for block in blocks if not _is_mark_only(block)]
    if len(plain) == 1:
        only = plain[0]
        if isinstance(only, str):
            return only
        if isinstance(only, dict) and isinstance(only.get("text"), str):
            others = {k: v for k, v in only.items() if k != "text" and v not in _EMPTY}
            if not others or (others.keys() == {"type"} and str(only["type"]) in _TEXT_KINDS):
                return only["text"]
    return plain


def _json_part(
    kind: Literal["tools", "system", "message"],
    role: str | None,
    value: Any,
    mark: str | None,
    content_blocks: int,
) -> TextPart:
    text = orjson.dumps(value)
    canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return TextPart(kind, role, text, None if canonical == text else canonical, mark, content_blocks)


def _stripped(value: Any) -> Any:
    if isinstance(value, dict) and not _NO_CONTENT.isdisjoint(value):
        return {name: held for name, held in value.items() if name not in _NO_CONTENT}
    return value


def _is_mark_only(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and "cachePoint" in value


def _mark(value: Any) -> str | None:
    """Return the cache mark of a block, short: its kind and the TTL it names."""
    if not isinstance(value, dict):
        return None
    mark = next((value[name] for name in _MARKS if isinstance(value.get(name), dict)), None)
    if mark is None:
        return None
    words = [mark[name] for name in ("type", "mode", "ttl") if isinstance(mark.get(name), str)]
    return "/".join(words)[:32] or "default"


def _last(marks: Iterable[str | None]) -> str | None:
    return next((mark for mark in reversed(list(marks)) if mark is not None), None)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
