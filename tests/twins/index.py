"""The index of a workspace as a dictionary from key to first use: the slow, obvious twin of ``prefixledger.index``."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from index_support import Log, Row


def keys_of(row: Row, namespaces: tuple[str, ...]) -> list[bytes]:
    """Return the chained keys of the blocks of a row."""
    key = blake2b(namespaces[row.namespace].encode(), digest_size=16).digest()
    keys = []
    for value in row.ids:
        key = blake2b(key + bytes(8) + value.to_bytes(8, "little"), digest_size=16).digest()
        keys.append(key)
    return keys


def first_seen(logs: Iterable[Log]) -> dict[bytes, tuple[int, str, bytes | None]]:
    """Return for every key its earliest use, its namespace and the key of its parent."""
    found: dict[bytes, tuple[int, str, bytes | None]] = {}
    for log in logs:
        for row in log.rows:
            before: bytes | None = None
            for key in keys_of(row, log.namespaces):
                at_us = min(row.at_us, found[key][0]) if key in found else row.at_us
                found[key] = (at_us, log.namespaces[row.namespace], before)
                before = key
    return found
