"""SipHash-1-3 of three words: the keyed hash that keeps hostile ids from clustering in a table."""

from __future__ import annotations

import numpy as np
from numba import njit

_U13 = np.uint64(13)
_U16 = np.uint64(16)
_U17 = np.uint64(17)
_U21 = np.uint64(21)
_U32 = np.uint64(32)
_U64 = np.uint64(64)
_INIT_0 = np.uint64(0x736F6D6570736575)
_INIT_1 = np.uint64(0x646F72616E646F6D)
_INIT_2 = np.uint64(0x6C7967656E657261)
_INIT_3 = np.uint64(0x7465646279746573)
_LENGTH = np.uint64(24 << 56)  # 24 message bytes, in the top byte of the closing word
_FINAL = np.uint64(0xFF)


@njit(cache=True, nogil=True)
def _round(a, b, c, d):  # type: ignore[no-untyped-def]
    a = a + b
    b = ((b << _U13) | (b >> (_U64 - _U13))) ^ a
    a = (a << _U32) | (a >> _U32)
    c = c + d
    d = ((d << _U16) | (d >> (_U64 - _U16))) ^ c
    a = a + d
    d = ((d << _U21) | (d >> (_U64 - _U21))) ^ a
    c = c + b
    b = ((b << _U17) | (b >> (_U64 - _U17))) ^ c
    c = (c << _U32) | (c >> _U32)
    return a, b, c, d


@njit(cache=True, nogil=True)
def siphash(key_0, key_1, word_0, word_1, word_2):  # type: ignore[no-untyped-def]
    """Hash three 64-bit words under a secret key; scalars only, about 5 ns.

    A mixer without a key can be inverted, and ids come from logs that strangers wrote; the key is drawn once
    per table, and no result depends on it, because nodes are numbered in order of appearance.

    Args:
        key_0: uint64, low half of the key.
        key_1: uint64, high half.
        word_0: uint64.
        word_1: uint64.
        word_2: uint64.

    Returns:
        uint64.
    """
    a = key_0 ^ _INIT_0
    b = key_1 ^ _INIT_1
    c = key_0 ^ _INIT_2
    d = key_1 ^ _INIT_3
    a, b, c, d = _round(a, b, c, d ^ word_0)
    a = a ^ word_0
    a, b, c, d = _round(a, b, c, d ^ word_1)
    a = a ^ word_1
    a, b, c, d = _round(a, b, c, d ^ word_2)
    a = a ^ word_2
    a, b, c, d = _round(a, b, c, d ^ _LENGTH)
    a = a ^ _LENGTH
    c = c ^ _FINAL
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d
