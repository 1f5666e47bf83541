"""BLAKE3 of many short messages at once: eight of them side by side, in the lanes of vector instructions."""

from __future__ import annotations

import numpy as np
from numba import njit

_U32 = np.uint32
_IV_0, _IV_1, _IV_2, _IV_3 = _U32(0x6A09E667), _U32(0xBB67AE85), _U32(0x3C6EF372), _U32(0xA54FF53A)
_IV_4, _IV_5, _IV_6, _IV_7 = _U32(0x510E527F), _U32(0x9B05688C), _U32(0x1F83D9AB), _U32(0x5BE0CD19)
_START, _END, _ROOT = _U32(1), _U32(2), _U32(8)
_NONE = _U32(0)
_7, _8, _12, _16, _20, _24, _25 = (_U32(bits) for bits in (7, 8, 12, 16, 20, 24, 25))
_BLOCK_BYTES = 64
MOST_BYTES = 1024
"""Length of the longest message: a longer one is a tree of such pieces, which the library hashes side by side."""
_LANES = 8
_WORDS, _LENGTH, _FLAGS = 8 * _LANES, 24 * _LANES, 25 * _LANES
STATE_WORDS = 26 * _LANES
"""uint32 that the lanes take: state, message, length and flags, each word of all lanes side by side."""


@njit(cache=True, nogil=True, forceinline=True)
def _mix(a, b, c, d, x, y):  # type: ignore[no-untyped-def]
    a = _U32(a + b + x)
    d = _U32(d ^ a)
    d = _U32(_U32(d >> _16) | _U32(d << _16))
    c = _U32(c + d)
    b = _U32(b ^ c)
    b = _U32(_U32(b >> _12) | _U32(b << _20))
    a = _U32(a + b + y)
    d = _U32(d ^ a)
    d = _U32(_U32(d >> _8) | _U32(d << _24))
    c = _U32(c + d)
    b = _U32(b ^ c)
    b = _U32(_U32(b >> _7) | _U32(b << _25))
    return a, b, c, d


@njit(cache=True, nogil=True, forceinline=True)
def _round(v, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15):  # type: ignore[no-untyped-def]
    a0, b0, c0, d0 = _mix(v[0], v[4], v[8], v[12], x0, x1)
    a1, b1, c1, d1 = _mix(v[1], v[5], v[9], v[13], x2, x3)
    a2, b2, c2, d2 = _mix(v[2], v[6], v[10], v[14], x4, x5)
    a3, b3, c3, d3 = _mix(v[3], v[7], v[11], v[15], x6, x7)
    a0, b1, c2, d3 = _mix(a0, b1, c2, d3, x8, x9)
    a1, b2, c3, d0 = _mix(a1, b2, c3, d0, x10, x11)
    a2, b3, c0, d1 = _mix(a2, b3, c0, d1, x12, x13)
    a3, b0, c1, d2 = _mix(a3, b0, c1, d2, x14, x15)
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@njit(cache=True, nogil=True, forceinline=True)
def _rounds(v, m):  # type: ignore[no-untyped-def]
    # fmt: off
    v = _round(v, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10], m[11], m[12], m[13], m[14], m[15])
    v = _round(v, m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13], m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8])
    v = _round(v, m[3], m[4], m[10], m[12], m[13], m[2], m[7], m[14], m[6], m[5], m[9], m[0], m[11], m[15], m[8], m[1])
    v = _round(v, m[10], m[7], m[12], m[9], m[14], m[3], m[13], m[15], m[4], m[0], m[11], m[2], m[5], m[8], m[1], m[6])
    v = _round(v, m[12], m[13], m[9], m[11], m[15], m[10], m[14], m[8], m[7], m[2], m[5], m[3], m[0], m[1], m[6], m[4])
    v = _round(v, m[9], m[14], m[11], m[5], m[8], m[12], m[15], m[1], m[13], m[3], m[0], m[10], m[2], m[6], m[4], m[7])
    return _round(v, m[11], m[15], m[5], m[0], m[1], m[9], m[8], m[6], m[14], m[10], m[2], m[12], m[3], m[4], m[7], m[13])
    # fmt: on


@njit(cache=True, nogil=True)
def _compress(s):  # type: ignore[no-untyped-def]
    """Mix one block of 64 bytes into the state of every lane.

    A loop over lanes without a branch, over one array: so the compiler makes vector instructions of it. Over several arrays
    it would have to prove them apart, gives up, and takes six times as long.

    Args:
        s: uint32[STATE_WORDS], the lanes; their states are changed in place. About 0.18 ns a byte with AVX-512.
    """
    for lane in range(_LANES):
        v = (
            s[lane], s[8 + lane], s[16 + lane], s[24 + lane], s[32 + lane], s[40 + lane], s[48 + lane], s[56 + lane],
            _IV_0, _IV_1, _IV_2, _IV_3, _NONE, _NONE, s[_LENGTH + lane], s[_FLAGS + lane],
        )  # fmt: skip
        m = (
            s[64 + lane], s[72 + lane], s[80 + lane], s[88 + lane], s[96 + lane], s[104 + lane], s[112 + lane], s[120 + lane],
            s[128 + lane], s[136 + lane], s[144 + lane], s[152 + lane], s[160 + lane], s[168 + lane], s[176 + lane], s[184 + lane],
        )  # fmt: skip
        v = _rounds(v, m)
        s[lane] = v[0] ^ v[8]
        s[8 + lane] = v[1] ^ v[9]
        s[16 + lane] = v[2] ^ v[10]
        s[24 + lane] = v[3] ^ v[11]
        s[32 + lane] = v[4] ^ v[12]
        s[40 + lane] = v[5] ^ v[13]
        s[48 + lane] = v[6] ^ v[14]
        s[56 + lane] = v[7] ^ v[15]


@njit(cache=True, nogil=True)
def short_digests(data, begin, end, s, digest):  # type: ignore[no-untyped-def]
    """Hash every message of at most ``MOST_BYTES``; each lane takes the next one when it is done with its last.

    Args:
        data: uint8[b].
        begin: int64[n], where each message begins in the data.
        end: int64[n], where it ends.
        s: uint32[STATE_WORDS], room for the lanes.
        digest: uint64[n], out: the first 8 bytes of each digest, little-endian; of longer messages it stays what it is.
    """
    message = np.full(_LANES, -1, np.int64)
    at = np.zeros(_LANES, np.int64)
    following = 0
    while True:
        busy = False
        for lane in range(_LANES):
            flags = _NONE
            if message[lane] < 0:
                while following < begin.shape[0] and end[following] - begin[following] > MOST_BYTES:
                    following += 1
                if following == begin.shape[0]:
                    continue
                message[lane] = following
                at[lane] = begin[following]
                following += 1
                flags = _START
                s[lane], s[8 + lane], s[16 + lane], s[24 + lane] = _IV_0, _IV_1, _IV_2, _IV_3
                s[32 + lane], s[40 + lane], s[48 + lane], s[56 + lane] = _IV_4, _IV_5, _IV_6, _IV_7
            busy = True
            first = np.uint64(at[lane])
            left = end[message[lane]] - at[lane]
            if at[lane] + _BLOCK_BYTES <= data.shape[0]:
                for word in range(16):
                    here = first + np.uint64(4 * word)
                    s[_WORDS + _LANES * word + lane] = (
                        _U32(data[here])
                        | _U32(_U32(data[here + np.uint64(1)]) << _8)
                        | _U32(_U32(data[here + np.uint64(2)]) << _16)
                        | _U32(_U32(data[here + np.uint64(3)]) << _24)
                    )
                if left < _BLOCK_BYTES:
                    cut = left >> 2
                    s[_WORDS + _LANES * cut + lane] &= _U32(
                        (np.uint64(1) << np.uint64(8 * (left & 3))) - np.uint64(1)
                    )
                    for word in range(cut + 1, 16):
                        s[_WORDS + _LANES * word + lane] = _NONE
            else:
                for word in range(16):
                    s[_WORDS + _LANES * word + lane] = _NONE
                for byte in range(left):
                    s[_WORDS + _LANES * (byte >> 2) + lane] |= _U32(data[at[lane] + byte]) << _U32(
                        8 * (byte & 3)
                    )
            if left <= _BLOCK_BYTES:
                flags = _U32(flags | _END | _ROOT)
            s[_LENGTH + lane] = _U32(min(left, _BLOCK_BYTES))
            s[_FLAGS + lane] = flags
            at[lane] += _BLOCK_BYTES
        if not busy:
            return
        _compress(s)
        for lane in range(_LANES):
            if message[lane] >= 0 and at[lane] >= end[message[lane]]:
                digest[message[lane]] = np.uint64(s[lane]) | (np.uint64(s[_LANES + lane]) << np.uint64(32))
                message[lane] = -1
