"""Reads what one prompt was made of, part by part, and its texts where the workspace keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.workspace import Workspace


_ONE = {"tools": "tool"}
"""What one of several parts of a kind is called, where that is not the name of the kind."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a prompt.

    Attributes:
        source: Digest that names its source.
        kind: tools, system or message.
        raw_hash: Digest of its text as sent.
        n_bytes: Bytes of its text.
        first_token: Position of its first token on the scale of the keys; None where it has none.
        goes_on: Whether it is a content block of the same message as the part before it.
    """

    source: str
    kind: str
    raw_hash: bytes
    n_bytes: int
    first_token: int | None
    goes_on: bool = False


def read_parts(workspace: Workspace, request: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a prompt in order; empty where the log has no text of it.

    Args:
        workspace: Where they are.
        request: Has ``source`` and ``source_line``.
    """
    path = workspace.parts / f"{request['source']}.parquet"
    if not path.is_file():
        return ()
    columns = ["source", "kind", "raw_hash", "n_bytes", "first_token", "goes_on", "part"]
    rows = pq.read_table(
        path, columns=columns, filters=pc.field("source_line") == request["source_line"]
    ).sort_by("part")
    return tuple(Part(*(row[name] for name in columns[:-1])) for row in rows.to_pylist())


def read_text(workspace: Workspace, part: Part) -> bytes | None:
    """Return the text of a part, None where it was not kept."""
    path = workspace.texts / f"{part.source}.parquet"
    if not path.is_file():
        return None
    found = pq.read_table(path, columns=["text"], filters=pc.field("raw_hash") == part.raw_hash)
    return bytes(found["text"][0].as_py()) if len(found) else None


def segment_name(parts: Sequence[Part], at: int) -> str:
    """Name a part among those of its prompt: a tool, the system prompt, or a message, of several content blocks which.

    Example:
        >>> kinds = ("tools", "tools", "system", "message", "message", "message")
        >>> parts = [Part("s", kind, b"", 0, None, goes_on=at == 4) for at, kind in enumerate(kinds)]
        >>> [segment_name(parts, at) for at in range(1, 5)]
        ['tool 2', 'system', 'message 1, content block 1', 'message 1, content block 2']
        >>> segment_name(parts, 5)
        'message 2'
    """
    kind = parts[at].kind
    number = sum(part.kind == kind and not part.goes_on for part in parts[: at + 1])
    if kind != "message":
        several = sum(part.kind == kind for part in parts) > 1
        return f"{_ONE.get(kind, kind)} {number}" if several else kind
    block = at - next(first for first in range(at, -1, -1) if not parts[first].goes_on) + 1
    alone = block == 1 and not any(part.goes_on for part in parts[at + 1 : at + 2])
    return f"message {number}" if alone else f"message {number}, content block {block}"


def common_bytes(one: bytes, two: bytes) -> int:
    """Return the length of the longest common beginning.

    Example:
        >>> common_bytes(b"It is 10:01", b"It is 10:02"), common_bytes(b"", b"x")
        (10, 0)
    """
    length = min(len(one), len(two))
    here, there = (np.frombuffer(text[:length], np.uint8) for text in (one, two))
    differ = np.flatnonzero(here != there)
    return int(differ[0]) if differ.size else length
