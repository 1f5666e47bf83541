"""BLAKE3 of lines, by which stretches are found that were read before; one at a time, or many by a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from blake3 import blake3

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LINE_BYTES: Final = 8


def line_digest(raw: bytes | memoryview) -> int:
    """Return the 64-bit hash of a line: without its end, and without the carriage returns before that."""
    return int.from_bytes(blake3(raw).digest(_LINE_BYTES), "little")


def line_digests(data: bytes, begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the same of many lines: short ones side by side, as a call for each takes longer than its bytes.

    Args:
        data: The lines.
        begin: int64[n], where each begins.
        end: int64[n], where it ends.

    Returns:
        uint64[n].
    """
    from prefixledger.kernels.blake3_kernel import MOST_BYTES, STATE_WORDS, short_digests  # noqa: PLC0415  # workers that parse need no numba

    found = np.empty(begin.size, np.uint64)
    short_digests(np.frombuffer(data, np.uint8), begin, end, np.empty(STATE_WORDS, np.uint32), found)
    long = np.flatnonzero(end - begin > MOST_BYTES)
    with memoryview(data) as view:
        for line, first, stop in zip(long.tolist(), begin[long].tolist(), end[long].tolist(), strict=True):
            found[line] = line_digest(view[first:stop])
    return found
