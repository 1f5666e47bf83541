"""Makes texts from a log fit to show."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cs", "Co", "Cn"}
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def quiet(text: str) -> str:
    """Replace control and direction marks, which could reorder or hide what stands around them; lines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c
        if c in "\n\t" or not (c in _BIDI or unicodedata.category(c) in _INVISIBLE)
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def clean(text: str, limit: int = 60) -> str:
    """Make a name from a log fit to show: quiet, on one line, at most ``limit`` characters."""
    shown = quiet(text[: 4 * limit]).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"
