"""Reads chunks: runs of plain lines by a kernel, as columns, and every other line by the parser of its format."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.batch import MAX_FIT_SAMPLES, Batch, Fit
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.digests import line_digests
from prefixledger.ingest.fields import MAX_TEXT, MAX_TOKENS
from prefixledger.ingest.formats import reader_named
from prefixledger.ingest.overrides import Overrides
from prefixledger.ingest.parse import parse_chunk
from prefixledger.ingest.plain_rows import PlainRows
from prefixledger.ingest.times import LAST_ABSOLUTE_US, UNIT_US
from prefixledger.kernels.plain_lines_kernel import IDS, NUMBER, TEXT, read_plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.ingest.reader import Context, PlainField

MIN_RUN: Final = 16
"""Fewer plain lines in a row are parsed like the others: columns cost 0.3 ms a batch, a parsed line 0.02 ms."""
_STEP_BYTES: Final = 1 << 19
"""Lines are read and hashed this many bytes at a time: half of what the second cache of a core holds."""
_LENGTH: Final = "prompt_tokens"
_KINDS: Final = {"ms": NUMBER, "count": NUMBER, "text": TEXT, "ids": IDS}
_BELOW: Final = {"ms": LAST_ABSOLUTE_US // UNIT_US["ms"], "count": MAX_TOKENS + 1}


def read_chunk(chunk: Chunk, context: Context) -> list[Batch]:
    """Turn the records of a chunk into batches, in their order; they say the same as ``parse_chunk``."""
    fields = plain_fields(context)
    if not fields or chunk.oversize_bytes or not chunk.data:
        return [parse_chunk(chunk, context)]
    lines = _Lines.read(chunk, fields, _block_size(context))
    partial, plain = lines.fit(context)
    begins = _runs(plain)
    first_id = np.concatenate([[0], np.cumsum(np.maximum(lines.n_ids, 0) - partial)])
    batches = []
    for begin, end in pairwise(begins):
        if plain[begin] and end - begin >= MIN_RUN:
            batches.append(
                lines.batch(begin, end, int(first_id[begin]), partial, chunk, _block_size(context))
            )
        else:
            batches.append(parse_chunk(lines.part(begin, end, chunk), context))
    return batches


def plain_fields(context: Context) -> tuple[PlainField, ...]:
    """Return the fields of lines that a kernel can read; none where every record wants a look of its own."""
    usual = context.shape == "json" and not context.document and context.overrides == Overrides()
    return reader_named(context.format).info.plain if usual else ()


def _runs(plain: NDArray[np.bool_]) -> list[int]:
    """Return where runs of equal lines begin, and the end; runs that are too short join what is around them."""
    edges = np.concatenate([[0], np.flatnonzero(plain[1:] != plain[:-1]) + 1, [plain.size]])
    short = np.flatnonzero(plain[edges[:-1]] & (np.diff(edges) < MIN_RUN))
    for at in short.tolist():
        plain[edges[at] : edges[at + 1]] = False
    edges = np.flatnonzero(plain[1:] != plain[:-1]) + 1
    return [0, *edges.tolist(), plain.size]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a chunk as the kernel read them; see there. The digests of lines that are not plain mean nothing."""

    fields: tuple[PlainField, ...]
    start: NDArray[np.int64]
    plain: NDArray[np.bool_]
    values: NDArray[np.int64]
    ids: NDArray[np.uint64]
    n_ids: NDArray[np.int64]
    digest: NDArray[np.uint64]

    @classmethod
    def read(cls, chunk: Chunk, fields: tuple[PlainField, ...], block_size: int) -> _Lines:
        """Run the kernel."""
        ends = chunk.data.count(b"\n") if chunk.line_ends < 0 else chunk.line_ends
        n_lines = ends + (not chunk.data.endswith(b"\n"))
        names = [field.name.encode() for field in fields]
        data, size = np.frombuffer(chunk.data, np.uint8), len(chunk.data)
        start, close, n_ids = (np.empty(n_lines, np.int64) for _ in range(3))
        plain = np.empty(n_lines, np.bool_)
        values = np.empty((n_lines, 2 * len(fields)), np.int64)
        ids = np.empty(size // 2 + 1, np.uint64)  # mostly never touched: each step begins at the front again
        kept: list[NDArray[np.uint64]] = []
        digest = np.empty(n_lines, np.uint64)
        at = line = 0
        told = (
            np.frombuffer(b"".join(names), np.uint8), np.cumsum([len(name) for name in names]),
            np.array([_KINDS[f.kind] for f in fields], np.uint8),
            next(at for at, field in enumerate(fields) if field.field == _LENGTH), block_size,
        )  # fmt: skip
        while at < size:
            here, stop = line, min(at + _STEP_BYTES, size)
            at, line, count = read_plain_lines(
                data, at, stop, *told, start, close, plain, values, ids, n_ids, line, 0
            )
            kept.append(ids[:count].copy())
            digest[here:line] = line_digests(chunk.data, start[here:line], close[here:line])
        return cls(fields, start, plain, values, np.concatenate(kept), n_ids, digest)

    def fit(self, context: Context) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return bool[lines], whether a list had an id for a partial block; and bool[lines], rows nobody can refuse."""
        good = self.plain.copy()
        for at, field in enumerate(self.fields):
            value, end = self.values[:, 2 * at], self.values[:, 2 * at + 1]
            if field.required and field.kind != "ids":
                good &= value >= 0
            if field.kind == "text":
                good &= end - value <= MAX_TEXT
            elif field.kind in _BELOW:
                good &= value < _BELOW[field.kind]
        tokens = self.number(_LENGTH)
        full, rest = np.divmod(tokens, _block_size(context))
        floor = self.n_ids == full
        partial = (rest > 0) & (tokens >= 0) & (self.n_ids == full + 1)
        if context.block_ids is not None:
            floor &= (rest == 0) | (context.block_ids == "floor")
            return partial, good & (floor | (partial & (context.block_ids == "ceil")))
        return partial, good & (floor | partial)

    def number(self, field: str) -> NDArray[np.int64]:
        """Return int64[lines], a field of ``Row`` as written; -1 where absent."""
        at = next(at for at, plain in enumerate(self.fields) if plain.field == field)
        return self.values[:, 2 * at]

    def part(self, begin: int, end: int, chunk: Chunk) -> Chunk:
        """Return some lines of a chunk as a chunk."""
        last = end == self.start.size
        first, stop = int(self.start[begin]), len(chunk.data) if last else int(self.start[end])
        cut = chunk.cut if last else "no"
        return Chunk(chunk.data[first:stop], chunk.first_line + begin, chunk.offset + first, cut)

    def batch(
        self, begin: int, end: int, first_id: int, partial: NDArray[np.bool_], chunk: Chunk, block_size: int
    ) -> Batch:
        """Return a run of rows as a batch.

        Args:
            begin: First line.
            end: Line behind the last.
            first_id: Where the ids of the first begin.
            partial: bool[lines], whether a list had an id for a partial block.
            chunk: The chunk.
            block_size: Tokens a block.
        """
        here = slice(begin, end)
        counts, partial = self.n_ids[here], partial[here]
        fit = _fit(self.number(_LENGTH)[here], counts, partial, block_size)
        counts = counts - partial  # the partial block has no key
        ids = self.ids[first_id : first_id + int(counts.sum())]
        columns = {field.field: column for field, column in self._columns(here, chunk.data)}
        batch = Batch(
            fates=bytearray(end - begin), fit=fit, plain=PlainRows(block_size, counts, ids, columns)
        )
        batch.lines.frombytes(np.arange(chunk.first_line + begin, chunk.first_line + end).tobytes())
        batch.offsets.frombytes((self.start[here] + chunk.offset).tobytes())
        batch.digests.frombytes(self.digest[here].tobytes())
        return batch

    def _columns(
        self, here: slice, data: bytes
    ) -> Iterator[tuple[PlainField, NDArray[np.int64] | list[str | None]]]:
        for at, field in enumerate(self.fields):
            value, end = self.values[here, 2 * at], self.values[here, 2 * at + 1]
            if field.kind == "text":
                names: list[str | None] = [None] * value.size
                for row in np.flatnonzero(end > value).tolist():
                    names[row] = data[value[row] : end[row]].decode()
                yield field, names
            elif field.kind != "ids":
                yield field, value * UNIT_US["ms"] if field.kind == "ms" else value


def _fit(
    tokens: NDArray[np.int64], n_ids: NDArray[np.int64], partial: NDArray[np.bool_], block_size: int
) -> Fit:
    """Count rows as ``Fit.count`` does one by one."""
    either = int((tokens % block_size == 0).sum())
    ceil = int(partial.sum())
    fit = Fit(either=either, floor=tokens.size - either - ceil, ceil=ceil)
    pairs = np.stack([tokens, n_ids], axis=1)[:MAX_FIT_SAMPLES]
    fit.samples.frombytes(pairs.tobytes())
    return fit


def _block_size(context: Context) -> int:
    return context.block_size or context.fallback_block_size
