"""What rows of gateways and exports have in common: truth in text, texts that were cut, calls that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from prefixledger.ingest.status import status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.ingest.records import Row, TextPart

_TRUE: Final = frozenset({"true", "t", "1", "yes"})
NOTHING: Final = frozenset({"", "-", "null", "None", "{}", "[]", "\\N", "NULL"})
"""Cells that stand for no value."""


def is_true(value: Any) -> bool:
    """Return whether a flag is set, also where it is written as text."""
    return value is True or (isinstance(value, str) and value.strip().lower() in _TRUE)


def present(value: Any) -> Any:
    """Return a value, or None where a cell stands for none."""
    return None if isinstance(value, str) and value.strip() in NOTHING else value


def host_of(url: Any) -> str | None:
    """Return the host and port of an address."""
    if not isinstance(url, str) or not url:
        return None
    try:
        return urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2] or None
    except ValueError:
        return None


def set_status(row: Row, word: Any) -> None:
    """Set the status; a failed call without a count has 0 prompt tokens, since no cache was asked for any."""
    row.status = status_of(word, produced=bool(row.output_tokens))
    if row.status == "failed" and row.prompt_tokens is None:
        row.prompt_tokens = 0


def set_text(row: Row, parts: Sequence[TextPart], cut_mark: bytes | None = None) -> None:
    """Put the text of a prompt on a row.

    Args:
        row: The row.
        parts: The text.
        cut_mark: What a gateway writes where it cut a text short; nothing from there on is the prompt.
    """
    kept = []
    for part in parts:
        at = part.text.find(cut_mark) if cut_mark is not None else -1
        if at >= 0:
            kept.append(replace(part, text=part.text[:at], canonical=None))
            row.prompt_complete = False
            break
        kept.append(part)
    row.text_parts = tuple(kept) or None
