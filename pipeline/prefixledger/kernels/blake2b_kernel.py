"""BLAKE2b-128 in bulk: chained keys of the blocks of a forest, and labels of blocks given as token ids."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.blake2b_compress_kernel import (
    IV_0,
    IV_1,
    IV_2,
    IV_3,
    IV_4,
    IV_5,
    IV_6,
    IV_7,
    compress,
)
from prefixledger.kernels.jit import made_of_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

WIDE_PERSON = b"prefixledger.u64"
"""Personalisation of a block with a token id above 32 bits, whose ids are hashed as 8 bytes each."""

_WIDE_0, _WIDE_1 = np.frombuffer(WIDE_PERSON, dtype="<u8").astype(np.uint64)
_START_0 = IV_0 ^ np.uint64(0x01010010)  # digest of 16 bytes, no key, fan-out and depth 1
_R32 = np.uint64(32)
_ZERO = np.uint64(0)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
_NARROW = np.uint64(0xFFFFFFFF)


@made_of_parts
def _key_digests(parent, label_hi, label_lo, root_keys, keys):  # type: ignore[no-untyped-def]
    """Chain keys down a forest: key = BLAKE2b-128(key of the parent, 16 bytes || label, high half first, 16 bytes).

    Words are little-endian, so the memory of one row of ``keys`` is the digest itself.

    Args:
        parent: int64[n], smaller than its own index, or -1 - namespace index.
        label_hi: uint64[n].
        label_lo: uint64[n].
        root_keys: uint64[r, 2], key of each namespace.
        keys: uint64[n, 2], out. O(n), about 0.15 µs a block.
    """
    z = _ZERO
    start = (_START_0, IV_1, IV_2, IV_3, IV_4, IV_5, IV_6, IV_7)
    for block in range(parent.shape[0]):
        above = parent[block]
        if above >= 0:
            first = keys[above, 0]
            second = keys[above, 1]
        else:
            first = root_keys[np.int64(-1) - above, 0]
            second = root_keys[np.int64(-1) - above, 1]
        digest = compress(
            start,
            (first, second, label_hi[block], label_lo[block], z, z, z, z, z, z, z, z, z, z, z, z),
            np.uint64(32), _LAST,
        )  # fmt: skip
        keys[block, 0] = digest[0]
        keys[block, 1] = digest[1]


@made_of_parts
def _token_digests(tokens, offsets, block_size, block_offsets, label_hi, label_lo):  # type: ignore[no-untyped-def]
    """Hash every full block of token ids, 4 bytes an id, or 8 where an id of the block does not fit in 4.

    The 8-byte form carries ``WIDE_PERSON``: nothing written in 4 bytes an id can equal it.

    Args:
        tokens: uint32[m] or uint64[m].
        offsets: int64[n + 1], where rows begin in the tokens.
        block_size: int, tokens a block, at least 1.
        block_offsets: int64[n + 1], where the blocks of each row begin in the output.
        label_hi: uint64[b], out: first 8 bytes of each digest, little-endian.
        label_lo: uint64[b], out: last 8 bytes. O(m), 0.15 µs per 128 bytes hashed.
    """
    m = np.empty(16, np.uint64)
    for row in range(offsets.shape[0] - 1):
        begin = np.int64(offsets[row])
        for block in range(block_offsets[row], block_offsets[row + 1]):
            wide = False
            for at in range(begin, begin + block_size):
                if np.uint64(tokens[at]) > _NARROW:
                    wide = True
            size = 8 * block_size if wide else 4 * block_size
            h = (
                _START_0, IV_1, IV_2, IV_3, IV_4, IV_5,
                IV_6 ^ (_WIDE_0 if wide else _ZERO), IV_7 ^ (_WIDE_1 if wide else _ZERO),
            )  # fmt: skip
            chunks = (size + 127) // 128
            for chunk in range(chunks):
                for word in range(16):
                    if wide:
                        at = chunk * 16 + word
                        m[word] = np.uint64(tokens[begin + at]) if at < block_size else _ZERO
                    else:
                        at = 2 * (chunk * 16 + word)
                        value = np.uint64(tokens[begin + at]) if at < block_size else _ZERO
                        if at + 1 < block_size:
                            value = value | (np.uint64(tokens[begin + at + 1]) << _R32)
                        m[word] = value
                final = chunk == chunks - 1
                h = compress(
                    h,
                    (
                        m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7],
                        m[8], m[9], m[10], m[11], m[12], m[13], m[14], m[15],
                    ),
                    np.uint64(size if final else 128 * (chunk + 1)), _LAST if final else _ZERO,
                )  # fmt: skip
            label_hi[block] = h[0]
            label_lo[block] = h[1]
            begin += block_size


def root_keys(namespaces: Sequence[str]) -> NDArray[np.uint64]:
    """Return uint64[r, 2]: the key that the first blocks of each namespace are chained to."""
    digests = b"".join(blake2b(name.encode(), digest_size=16).digest() for name in namespaces)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64).reshape(-1, 2)


def chain_keys(
    parent: NDArray[np.int64],
    label_hi: NDArray[np.uint64],
    label_lo: NDArray[np.uint64],
    roots: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """Return the 128-bit key of every block: BLAKE2b-128(parent key || label), both 16 bytes.

    Args:
        parent: int64[n], smaller than its own index, or -1 - namespace index.
        label_hi: uint64[n], first 8 bytes of the label, little-endian.
        label_lo: uint64[n], last 8 bytes.
        roots: uint64[r, 2], see ``root_keys``.

    Returns:
        uint64[n, 2], little-endian words of the digests.

    Raises:
        InternalError: The arrays differ in length, or a parent does not come before its child.
    """
    blocks = parent.shape[0]
    if label_hi.shape[0] != blocks or label_lo.shape[0] != blocks:
        raise InternalError("parents and labels of a forest differ in number")
    if (parent >= np.arange(blocks)).any() or (parent < -roots.shape[0]).any():
        raise InternalError("a forest names a parent that does not come before its child")
    keys = np.empty((blocks, 2), np.uint64)
    _key_digests(
        read_only(parent, np.int64),
        read_only(label_hi, np.uint64),
        read_only(label_lo, np.uint64),
        read_only(roots, np.uint64),
        keys,
    )
    return keys


def key_bytes(keys: NDArray[np.uint64]) -> bytes:
    """Return the 16-byte digests of uint64[n, 2] keys, one after the other."""
    return keys.astype("<u8", copy=False).tobytes()


def token_labels(
    tokens: NDArray[np.uint64] | NDArray[np.uint32],
    offsets: NDArray[np.int64],
    block_size: int,
    extra: Mapping[int, bytes] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return the labels of all full blocks of rows of token ids.

    A label is BLAKE2b-128 of the ids of its block, 4 bytes little-endian each, then of its extra bytes. A block with
    an id above 32 bits is hashed with 8 bytes an id under the personalisation ``WIDE_PERSON``. Trailing ids that
    do not fill a block have no label.

    Args:
        tokens: uint32[m] or uint64[m], ids of all rows.
        offsets: int64[n + 1], where each row begins.
        block_size: Tokens a block.
        extra: What else tells blocks apart (images that overlap them): bytes by number of the block in the output.

    Returns:
        uint64[b] first halves, uint64[b] second halves, int64[n + 1] where the blocks of each row begin.

    Raises:
        InternalError: The offsets do not fit, or the block size is below 1.
    """
    if block_size < 1:
        raise InternalError(f"a block of {block_size} tokens cannot be hashed")
    offsets = read_only(offsets, np.int64)
    ids: NDArray[np.uint32] | NDArray[np.uint64]
    ids = read_only(tokens, np.uint32) if tokens.dtype == np.uint32 else read_only(tokens, np.uint64)
    lengths = np.diff(offsets)
    if offsets.shape[0] < 1 or offsets[0] < 0 or offsets[-1] > tokens.shape[0] or (lengths < 0).any():
        raise InternalError(f"row offsets do not fit {tokens.shape[0]} token ids")
    block_offsets = np.zeros(offsets.shape[0], np.int64)
    np.cumsum(lengths // block_size, out=block_offsets[1:])
    label_hi = np.empty(block_offsets[-1], np.uint64)
    label_lo = np.empty(block_offsets[-1], np.uint64)
    _token_digests(ids, offsets, block_size, block_offsets, label_hi, label_lo)
    for block, data in sorted((extra or {}).items()):
        row = int(np.searchsorted(block_offsets, block, side="right")) - 1
        begin = int(offsets[row]) + (block - int(block_offsets[row])) * block_size
        label_hi[block], label_lo[block] = _digest(ids[begin : begin + block_size], data)
    return label_hi, label_lo, block_offsets


def _digest(tokens: NDArray[np.uint64] | NDArray[np.uint32], extra: bytes) -> tuple[int, int]:
    """Hash one block the plain way; few blocks have extra bytes, and they are of any length."""
    wide = bool((tokens > np.uint64(0xFFFFFFFF)).any())
    data = tokens.astype("<u8" if wide else "<u4").tobytes() + extra
    digest = blake2b(data, digest_size=16, person=WIDE_PERSON if wide else b"").digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
