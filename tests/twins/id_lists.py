"""Slow and obvious: which list of ids a line holds under a name, and the line without it."""

from __future__ import annotations

import json
from typing import Any


def take_id_list(line: bytes, name: str) -> tuple[Any, list[int]] | None:
    """Return what the line holds with an empty list under the name, and the list; None where it is not to be taken.

    Args:
        line: One line.
        name: Name of a field of its own.
    """
    if not line.startswith(b"{"):
        return None
    try:
        pairs = json.loads(line, object_pairs_hook=lambda pairs: pairs)
        value = json.loads(line)
    except ValueError:
        return None
    names = [key for key, _ in pairs]
    if names.count(name) != 1 or not isinstance(value[name], list):
        return None
    found = value[name]
    if not all(type(one) is int and 0 <= one < 10**19 for one in found):
        return None
    return value | {name: []}, found
