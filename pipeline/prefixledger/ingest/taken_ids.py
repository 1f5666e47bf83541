"""Takes the lists of ids out of a chunk of lines before these are parsed: most bytes of a log with ids are digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.chunks import Chunk
    from prefixledger.ingest.reader import Context

_WRAPPER: Final = np.frombuffer(b'{"log":"', np.uint8)
"""What Docker's json-file driver puts around every line."""


@dataclass(frozen=True, slots=True)
class TakenIds:
    """Ids of some lines.

    Attributes:
        lines: The lines, with an empty list where one was taken.
        counts: int64[n], ids taken of each, -1 where none was: then the line is what it was.
        first: int64[n + 1], where those of each begin.
        flat: uint64[m], the ids.
    """

    lines: list[bytes]
    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    flat: NDArray[np.uint64]

    @classmethod
    def of(cls, chunk: Chunk, context: Context) -> TakenIds | None:
        """Take the ids of a mapped log; None where it has none, or they do not stand in a field of their own."""
        plan = context.plan
        if plan is None or plan.path is None or plan.path_kind not in ("block_ids", "token_ids"):
            return None
        source = plan.path.source
        alone = [one.source for one in plan.columns].count(source) == 1 and len(plan.path.steps) < 2  # noqa: PLR2004
        if not alone:
            return None
        from prefixledger.kernels.id_lists_kernel import take_id_lists  # noqa: PLC0415  # logs without ids need no numba

        data = np.frombuffer(chunk.data, np.uint8)
        counts = np.empty(chunk.data.count(b"\n") + (not chunk.data.endswith(b"\n")), np.int64)
        rest, ids = np.empty(data.size, np.uint8), np.empty(data.size // 2 + 1, np.uint64)
        n_bytes, n_ids = take_id_lists(
            data, np.frombuffer(source.encode(), np.uint8), _WRAPPER, rest, ids, counts
        )
        first = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))]).astype(np.int64)
        return cls(rest[:n_bytes].tobytes().split(b"\n"), counts, first, ids[:n_ids])

    def some(self, lines: Sequence[int]) -> TakenIds:
        """Return those of some lines, given by rising numbers; between them are only lines without ids."""
        begin, end = self.first[lines[0]], self.first[lines[-1] + 1]
        counts = self.counts[lines]
        first = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))]).astype(np.int64)
        return TakenIds([self.lines[line] for line in lines], counts, first, self.flat[begin:end])
