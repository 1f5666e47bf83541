"""The slow, obvious twin of the kernel that reads plain lines."""

from __future__ import annotations

import json
import re

_VALUE = {
    "number": r"(?:0|[1-9][0-9]{0,17})",
    "ids": r"\[ *(?:(?:0|[1-9][0-9]{0,18}) *(?:, *(?:0|[1-9][0-9]{0,18}) *)*)?\]",
}
_VALUE["text"] = rf'(?:"[ !#-\[\]-~]*"|{_VALUE["number"]})'


def read_plain_line(line: bytes, kinds: dict[str, str]) -> dict[str, object] | None:
    """Return what a plain line says, by name; None where it is none.

    Args:
        line: The line, without its end.
        kinds: ``number``, ``text`` or ``ids`` for each field that it may have.
    """
    pair = "|".join(rf' *"{name}" *: *{_VALUE[kind]} *' for name, kind in kinds.items())
    text = line.decode("latin-1")
    if re.fullmatch(rf"\{{(?:{pair})(?:,(?:{pair}))*\}}\r*", text) is None:
        return None
    pairs = json.loads(text, object_pairs_hook=list)
    if len({name for name, _ in pairs}) < len(pairs):
        return None
    return {name: str(value) if kinds[name] == "text" else value for name, value in pairs}
