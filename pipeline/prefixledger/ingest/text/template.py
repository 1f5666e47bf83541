"""Renders chat templates as the libraries of models do, in a sandbox: a template is a program of somebody else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import orjson

from prefixledger.errors import Place, UsageError
from prefixledger.ingest.json_text import loads
from prefixledger.ingest.records import BadRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from jinja2 import Template

    from prefixledger.ingest.records import TextPart

MAX_RENDERED: Final = 64 << 20
"""Characters that a prompt may become; more is a template that runs away."""
_MAX_POWER: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _RefusedError(Exception):
    """The template called ``raise_exception``."""


def load_template(path: Path) -> str:
    """Read a template and see whether it compiles.

    Raises:
        UsageError: It cannot be read, or is no template.
    """
    from jinja2 import TemplateError  # noqa: PLC0415  # only runs with a template pay for it

    try:
        source = path.read_text(encoding="utf-8")
        _compiled(source)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the template cannot be read: {error}", place=Place(str(path))) from error
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise UsageError(f"it is no template: {error}", place=Place(str(path), line)) from error
    return source


def render(source: str, parts: Sequence[TextPart], started_us: int) -> bytes:
    """Return the prompt that a template makes of messages and tools.

    Args:
        source: The template.
        parts: The prompt. A message whose text is a JSON object with its role is that object; any other text is its
            ``content``, a JSON list of objects as the list it is.
        started_us: What the template is told when it asks for the date.

    Raises:
        BadRecordError: The template refuses the prompt, or fails; no word of the prompt is in the reason.
    """
    moment = _EPOCH + timedelta(microseconds=started_us)
    messages, tools = _chat(parts)
    told: dict[str, Any] = {
        "messages": messages,
        "tools": tools or None,
        "add_generation_prompt": True,
        "strftime_now": moment.strftime,
    }
    try:
        text = _at_most(MAX_RENDERED, _compiled(source).generate(told))
    except _RefusedError:
        raise BadRecordError("template: it refuses these messages") from None
    except Exception as error:  # noqa: BLE001  # a template can raise anything
        raise BadRecordError(f"template: {type(error).__name__}") from None
    return text.encode("utf-8", "surrogatepass")


def _at_most(most: int, pieces: Iterable[str]) -> str:
    """Join pieces, unless they become too long.

    Raises:
        OverflowError: They do.
    """
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length > most:
            raise OverflowError
    return "".join(held)


def _chat(parts: Sequence[TextPart]) -> tuple[list[Any], list[Any]]:
    """Return messages and tools as a template wants them."""
    messages: list[Any] = []
    tools: list[Any] = []
    for part in parts:
        value = _parsed(part.text)
        if part.goes_on and messages:
            messages[-1]["content"] = [*_blocks(messages[-1]["content"]), *_blocks(_content(part, value))]
        elif part.kind == "tools":
            tools += value if isinstance(value, list) else [value]
        elif isinstance(value, dict) and part.role is not None and value.get("role") == part.role:
            messages.append(value)
        else:
            role = part.role or ("system" if part.kind == "system" else "user")
            messages.append({"role": role, "content": _content(part, value)})
    return messages, tools


def _content(part: TextPart, value: Any) -> Any:
    blocks = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    return value if blocks else part.text.decode("utf-8", "replace")


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _parsed(text: bytes) -> Any:
    if text[:1] not in (b"{", b"["):
        return None
    try:
        return loads(text)
    except orjson.JSONDecodeError:
        return None


@lru_cache(maxsize=4)
def _compiled(source: str) -> Template:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415  # only runs with a template pay for it

    class Environment(ImmutableSandboxedEnvironment):
        """Refuses products and powers that would fill the memory."""

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Multiply, unless the result could be huge."""
            if operator == "**" and (abs(left) > _MAX_POWER or abs(right) > _MAX_POWER):
                raise OverflowError
            for text, times in ((left, right), (right, left)):
                if isinstance(text, (str, list, tuple)) and len(text) * times > MAX_RENDERED:
                    raise OverflowError
            return super().call_binop(context, operator, left, right)

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(source)


def _to_json(
    value: Any,
    indent: int | None = None,
    separators: Any = None,
    ensure_ascii: bool = False,
    sort_keys: bool = False,
) -> str:
    """Write JSON as template authors expect it: no escapes for HTML, keys in their order."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:  # noqa: ARG001  # it may hold text of the prompt
    raise _RefusedError
