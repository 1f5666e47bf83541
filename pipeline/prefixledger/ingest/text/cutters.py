"""The two ways to cut text: by a tokenizer, or, as an approximation, by bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from prefixledger.ingest.text.plan import split_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.text.scale import Scale
    from prefixledger.ingest.text.store import TextStore
    from prefixledger.ingest.text.tokenizers import Tokenizer

CACHE_BYTES: Final = 256 << 20
"""Token ids that are held for units which occur behind several beginnings."""
_WORD: Final = 4
_HEADER: Final = 0xFF000000
"""Above every token id: stands, with 24 bits of its digest, for what a template would put before a part."""


class ByteCutter:
    """A block is a fixed number of bytes of UTF-8."""

    def __init__(self, store: TextStore, scales: Mapping[int, Scale]) -> None:
        """Cut a store by bytes.

        Args:
            store: The texts.
            scales: Scale of each namespace, by number.
        """
        self._store = store
        self._scales = scales
        size = max(scales, default=-1) + 1
        self._width, self._tokens = np.ones(size, np.int64), np.zeros(size, np.int64)
        for number, scale in scales.items():
            self._width[number], self._tokens[number] = scale.bytes_per_block, scale.block_size

    def block_bytes(self, namespace: int) -> int:
        """Return how many bytes make a block in a namespace."""
        return self._scales[namespace].bytes_per_block

    def tokens(self, namespace: NDArray[np.int64], n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many tokens so many bytes stand for, rounded down."""
        return n_bytes * self._tokens[namespace] // self._width[namespace]

    def pieces(self, units: Sequence[int]) -> list[bytes]:
        """Return the bytes of units."""
        return [self._store.unit(unit) for unit in units]


class TokenCutter:
    """A block is a fixed number of token ids, 4 bytes each.

    Attributes:
        tokenised_bytes: Text that went through the tokenizer; more than the distinct text only where ids did not fit
            into ``CACHE_BYTES``.
    """

    def __init__(self, store: TextStore, tokenizer: Tokenizer, block_sizes: Mapping[int, int]) -> None:
        """Cut a store by tokens.

        Args:
            store: The texts.
            tokenizer: Makes the ids.
            block_sizes: Tokens a block of each namespace, by number.
        """
        self.tokenised_bytes = 0
        self._store = store
        self._tokenizer = tokenizer
        self._block_sizes = block_sizes
        self._held: dict[int, bytes] = {}
        self._held_bytes = 0

    def block_bytes(self, namespace: int) -> int:
        """Return how many bytes make a block in a namespace."""
        return _WORD * self._block_sizes[namespace]

    def tokens(self, namespace: NDArray[np.int64], n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002
        """Return how many tokens so many bytes stand for."""
        return n_bytes // _WORD

    def pieces(self, units: Sequence[int]) -> list[bytes]:
        """Return the token ids of units; each unit is tokenised once as long as its ids are held."""
        found = {unit: self._held[unit] for unit in units if unit in self._held}
        missing = list(dict.fromkeys(unit for unit in units if unit not in found))
        split = [split_header(self._store.unit(unit)) for unit in missing]
        self.tokenised_bytes += sum(len(text) for _, text in split)
        encoded = self._tokenizer.encode([text for _, text in split]) if split else []
        for unit, (header, _), ids in zip(missing, split, encoded, strict=True):
            own = ids.astype("<u4", copy=False).tobytes()
            found[unit] = _header_id(header) + own
            self._hold(unit, found[unit])
        return [found[unit] for unit in units]

    def _hold(self, unit: int, ids: bytes) -> None:
        self._held[unit] = ids
        self._held_bytes += len(ids)
        while self._held_bytes > CACHE_BYTES:
            oldest = next(iter(self._held))
            self._held_bytes -= len(self._held.pop(oldest))


def _header_id(header: bytes) -> bytes:
    return (_HEADER | (crc32(header) & 0xFFFFFF)).to_bytes(_WORD, "little") if header else b""
