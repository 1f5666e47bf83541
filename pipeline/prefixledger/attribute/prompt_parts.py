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


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a prompt.

    Attributes:
        source: Digest that names its source.
        kind: tools, system or message.
        raw_hash: Digest of its text as sent.
        n_bytes: Bytes of its text.
        first_token: Position of its first token on the scale of the keys; None where it has none.
    """

    source: str
    kind: str
    raw_hash: bytes
    n_bytes: int
    first_token: int | None


def read_parts(workspace: Workspace, request: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a prompt in order; empty where the log has no text of it.

    Args:
        workspace: Where they are.
        request: Has ``source`` and ``source_line``.
    """
    path = workspace.parts / f"{request['source']}.parquet"
    if not path.is_file():
        return ()
    columns = ["source", "kind", "raw_hash", "n_bytes", "first_token", "part"]
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
    """Name a part among those of its prompt: tools, system or message n, from 1.

    Example:
        >>> parts = [Part("s", kind, b"", 0, None) for kind in ("tools", "system", "message", "message")]
        >>> [segment_name(parts, at) for at in range(4)]
        ['tools', 'system', 'message 1', 'message 2']
    """
    kind = parts[at].kind
    several = sum(part.kind == kind for part in parts) > 1 or kind == "message"
    number = sum(part.kind == kind for part in parts[: at + 1])
    return f"{kind} {number}" if several else kind


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
