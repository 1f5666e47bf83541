"""What workers need to know of text, and how the prompt of a row falls into the units that are hashed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from prefixledger.ingest.text.template import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.ingest.records import TextPart

MARK: Final = b"\xff"
"""Stands around the header of a part. UTF-8 has no such byte, so no text can pass for the end of another part."""


@dataclass(frozen=True, slots=True)
class TextPlan:
    """How text is cut; small, so that it can be sent to other processes.

    Attributes:
        template: Source of the chat template; None joins the parts without one.
        specials: Tokens at which a tokenizer cuts any text before it looks at it: a text may be cut there, and its
            pieces be tokenised one by one, without a change in its tokens.
        keep_text: Whether the text itself is kept.
    """

    template: str | None = None
    specials: tuple[str, ...] = ()
    keep_text: bool = False


def units_of(parts: Sequence[TextPart], plan: TextPlan, started_us: int) -> list[bytes]:
    """Return the pieces of a prompt that are hashed one after the other; equal beginnings give equal first pieces.

    Args:
        parts: The prompt.
        plan: How to cut it.
        started_us: Start of the request, for templates that write the date.

    Raises:
        BadRecordError: The template refuses it.
    """
    if plan.template is not None:
        return _cut(render(plan.template, parts, started_us), plan.specials)
    if len(parts) == 1 and not _header(parts[0]):
        return _cut(parts[0].text, plan.specials)
    return [_header(part, first=not at) + part.text for at, part in enumerate(parts)]


def split_header(unit: bytes) -> tuple[bytes, bytes]:
    """Return the header of a unit, empty where it has none, and its text."""
    if not unit.startswith(MARK):
        return b"", unit
    end = unit.index(MARK, 1) + 1
    return unit[:end], unit[end:]


def _header(part: TextPart, *, first: bool = True) -> bytes:
    """Return what stands for the tokens that a template puts before a part; a prompt that is one text has none."""
    if part.kind == "message" and part.role is None and first:
        return b""
    name = part.role if part.kind == "message" else part.kind
    return MARK + (name or "").encode("utf-8", "surrogatepass") + MARK


def _cut(text: bytes, specials: tuple[str, ...]) -> list[bytes]:
    """Cut a text before every special token."""
    if not specials:
        return [text]
    starts = [match.start() for match in _pattern(specials).finditer(text)]
    bounds = [0, *(start for start in starts if start), len(text)]
    return [text[begin:end] for begin, end in pairwise(bounds)]


@lru_cache(maxsize=4)
def _pattern(specials: tuple[str, ...]) -> re.Pattern[bytes]:
    longest_first = sorted((name.encode() for name in specials), key=lambda name: (-len(name), name))
    return re.compile(b"|".join(map(re.escape, longest_first)))
