"""Blocks of text the obvious way: join everything, cut, hash; one prompt after the other."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def labels(text: bytes, width: int) -> list[tuple[int, int]]:
    """Return the label (high, low) of every full block of ``width`` bytes."""
    cuts = [text[at : at + width] for at in range(0, len(text) - width + 1, width)]
    digests = [blake2b(cut.ljust(-(-width // 4) * 4, b"\0"), digest_size=16).digest() for cut in cuts]
    return [(int.from_bytes(d[:8], "little"), int.from_bytes(d[8:], "little")) for d in digests]


def token_labels(ids: Sequence[int], block_size: int) -> list[tuple[int, int]]:
    """Return the label of every full block of token ids, 4 bytes each."""
    return labels(b"".join(one.to_bytes(4, "little") for one in ids), 4 * block_size)
