"""The map from block keys to block numbers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.index.node_kernel import number_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEWEST_BITS = 12


class KeyMap:
    """Numbers distinct 128-bit keys in order of appearance; takes 32 to 48 bytes a key.

    Example:
        >>> keys = np.array([[1, 2], [3, 4], [1, 2]], np.uint64)
        >>> KeyMap().number(keys, np.ones(3, np.bool_))
        array([0, 1, 0])
    """

    def __init__(self) -> None:
        self._count = 0
        self._known = np.empty((0, 2), np.uint64)
        self._bits = _FEWEST_BITS
        self._table = np.zeros(1 << _FEWEST_BITS, np.uint64)
        # Keys can be ground by whoever writes the log; which slot they fall on must not be known to him.
        self._multiplier = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)

    def __len__(self) -> int:
        return self._count

    def number(self, keys: NDArray[np.uint64], wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of each key, new numbers for keys never seen.

        Args:
            keys: uint64[k, 2].
            wanted: bool[k], keys that matter.

        Returns:
            int64[k], -1 where the key is not wanted.
        """
        self._reserve(self._count + int(np.count_nonzero(wanted)))
        block = np.empty(keys.shape[0], np.int64)
        self._count = number_keys(
            keys, wanted, self._known, self._table,
            np.uint64(64 - self._bits), self._multiplier, self._count, block,
        )  # fmt: skip
        return block

    def keys_from(self, first: int) -> NDArray[np.uint64]:
        """Return uint64[count - first, 2]: the keys from a number on."""
        return self._known[first : self._count]

    def _reserve(self, total: int) -> None:
        if total > self._known.shape[0]:
            known = np.empty((total, 2), np.uint64)
            known[: self._count] = self._known[: self._count]
            self._known = known
        if 2 * total > self._table.shape[0]:
            self._bits = (2 * total - 1).bit_length()
            self._table = np.zeros(1 << self._bits, np.uint64)
            have, self._count = self._known[: self._count], 0
            self.number(have, np.ones(have.shape[0], np.bool_))
