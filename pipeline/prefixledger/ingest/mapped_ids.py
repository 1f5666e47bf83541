"""Lists of block or token ids of many rows at a time."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from prefixledger.ingest.batch import MAX_FIT_SAMPLES
from prefixledger.ingest.cells import cell_ids
from prefixledger.ingest.records import BadRecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.batch import Batch, Fit
    from prefixledger.ingest.reader import Context
    from prefixledger.ingest.taken_ids import TakenIds

RULES: Final = ("either", "floor", "ceil")
EITHER, FLOOR, CEIL = range(len(RULES))
UNCOUNTED: Final = 255
_MOST_U32: Final = (1 << 32) - 1


@dataclass(slots=True)
class IdLists:
    """Ids of some rows.

    Attributes:
        kind: What they are.
        flat: uint64[m] or uint32[m], those of all rows; token ids of more than 32 bits make a row odd.
        first: int64[n + 1], where the ids of each row begin.
        counts: int64[n], ids of each row, -1 where it has no list.
        kept: int64[n], how many of them have a key: without that of the partial block.
        rule: uint8[n], how block ids fit the prompt, a number of ``RULES``; ``UNCOUNTED`` where that says nothing.
        lengths: int64[n], prompt tokens, -1 where unknown.
    """

    kind: Literal["block_ids", "token_ids"]
    flat: NDArray[np.unsignedinteger]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]
    kept: NDArray[np.int64]
    rule: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        values: list[Any],
        name: str,
        kind: Literal["block_ids", "token_ids"],
        odd: NDArray[np.bool_],
        taken: TakenIds | None = None,
    ) -> IdLists:
        """Take the cells of a column.

        Args:
            values: Lists, or what ``cells.cell_ids`` makes lists of.
            name: Name of the column.
            kind: What they are.
            odd: bool[n], set where a cell holds something else.
            taken: Lists that are not in the cells.
        """
        if taken is not None:
            if all(value is None for value, n in zip(values, taken.counts.tolist(), strict=True) if n < 0):
                return cls._of_taken(taken, kind, odd)
            spans = zip(taken.first[:-1].tolist(), taken.counts.tolist(), strict=True)
            values = [
                value if n < 0 else taken.flat[first : first + n].tolist()
                for value, (first, n) in zip(values, spans, strict=True)
            ]
        code = "Q" if kind == "block_ids" else "I"
        lists = [_listed(value, name, odd, at) for at, value in enumerate(values)]
        flat = _flat(lists, code)
        if flat is None:
            for at, ids in enumerate(lists):
                if _flat([ids], code) is None:
                    odd[at], lists[at] = True, None
            flat = _flat(lists, code)
            assert flat is not None
        counts = np.array([-1 if ids is None else len(ids) for ids in lists], np.int64)
        first = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))]).astype(np.int64)
        numbers: NDArray[np.unsignedinteger] = (
            np.frombuffer(flat, np.uint64) if code == "Q" else np.frombuffer(flat, np.uint32)
        )
        suspects = np.flatnonzero(numbers <= 1)  # true and false are taken for 1 and 0
        rows = np.searchsorted(first, suspects, side="right") - 1
        for row, at in zip(rows.tolist(), (suspects - first[rows]).tolist(), strict=True):
            ids = lists[row]
            if ids is not None and type(ids[at]) is bool:
                odd[row] = True
        none = np.full(counts.size, UNCOUNTED, np.uint8)
        return cls(kind, numbers, first, counts, counts.copy(), none, counts)

    @classmethod
    def _of_taken(
        cls, taken: TakenIds, kind: Literal["block_ids", "token_ids"], odd: NDArray[np.bool_]
    ) -> IdLists:
        numbers: NDArray[np.unsignedinteger] = taken.flat
        if kind == "token_ids":
            wide = np.flatnonzero(numbers > _MOST_U32)
            odd[np.searchsorted(taken.first, wide, side="right") - 1] = True
            numbers = numbers.astype(np.uint32)
        none = np.full(taken.counts.size, UNCOUNTED, np.uint8)
        return cls(kind, numbers, taken.first, taken.counts, taken.counts.copy(), none, taken.counts)

    def check_blocks(
        self,
        lengths: NDArray[np.int64],
        complete: NDArray[np.bool_],
        context: Context,
        odd: NDArray[np.bool_],
    ) -> None:
        """Hold block ids against prompt lengths, as ``Batch.add_row`` does.

        Args:
            lengths: int64[n], prompt tokens, -1 where unknown.
            complete: bool[n], whether all of a prompt was logged.
            context: The input.
            odd: bool[n], set where ids do not fit.
        """
        self.lengths = lengths
        has_ids = self.counts >= 0
        full, rest = np.divmod(lengths, context.block_size or context.fallback_block_size)
        counted = has_ids & (complete | (self.counts >= full))
        floor = self.counts == full
        ceil = (rest > 0) & (self.counts == full + 1)
        rule = np.where(ceil, CEIL, np.where(rest > 0, FLOOR, EITHER))
        fits = floor | ceil
        if context.block_ids is not None:
            fits &= (rule == EITHER) | (rule == RULES.index(context.block_ids))
        odd |= (has_ids & (lengths < 0)) | (counted & ~fits)
        self.rule[counted] = rule[counted]
        self.kept = np.where(counted, np.minimum(self.counts, full), self.counts)

    def check_tokens(
        self, lengths: NDArray[np.int64], complete: NDArray[np.bool_], odd: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Hold token ids against prompt lengths, as ``Batch.add_row`` does.

        Args:
            lengths: int64[n], prompt tokens, -1 where unknown.
            complete: bool[n], whether all of a prompt was logged.
            odd: bool[n], set where there are more ids than tokens.

        Returns:
            bool[n], whether all of a prompt was logged; int64[n], prompt tokens.
        """
        has_ids = self.counts >= 0
        self.lengths = np.where(has_ids & (lengths < 0) & complete, self.counts, lengths)
        known = has_ids & (self.lengths >= 0)
        odd |= known & (self.counts > self.lengths)
        return complete & ~(known & (self.counts < self.lengths)), self.lengths

    def most_tokens(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[n], what parts of each prompt may have in all, -1 for any number: its length, else its token ids."""
        of_ids = np.where(self.counts > 0, self.counts, -1)
        return lengths if self.kind == "block_ids" else np.where(lengths < 0, of_ids, lengths)

    def add_to(self, batch: Batch, begin: int, end: int) -> NDArray[np.int64]:
        """Append the ids of some rows to a batch, and return int64[rows], how many each has there, -1 for no list."""
        here = slice(begin, end)
        ids = self.flat[self.first[begin] : self.first[end]]
        counts, kept = np.maximum(self.counts[here], 0), np.maximum(self.kept[here], 0)
        if (kept < counts).any():  # the partial block, always the last, has no key
            keep = np.ones(ids.size, np.bool_)
            keep[np.cumsum(counts)[kept < counts] - 1] = False
            ids = ids[keep]
        if self.kind == "block_ids":
            batch.ids.frombytes(ids.tobytes())
            self._count(batch.fit, here)
        else:
            wide = np.uint32 if batch.tokens.typecode == "I" else np.uint64
            batch.tokens.frombytes(ids.astype(wide).tobytes())
        return self.kept[here]

    def _count(self, fit: Fit, here: slice) -> None:
        """Count rows as ``Fit.count`` does one by one."""
        rule = self.rule[here]
        either, floor, ceil = (int((rule == number).sum()) for number in (EITHER, FLOOR, CEIL))
        fit.either += either
        fit.floor += floor
        fit.ceil += ceil
        room = max(0, MAX_FIT_SAMPLES - len(fit.samples) // 2)
        if room:
            counted = np.flatnonzero(rule != UNCOUNTED)[:room] + here.start
            fit.samples.frombytes(np.stack([self.lengths[counted], self.counts[counted]], axis=1).tobytes())


def _listed(value: Any, name: str, odd: NDArray[np.bool_], at: int) -> list[Any] | None:
    if value is None or type(value) is list:
        return value
    try:
        return cell_ids(value, name)
    except BadRecordError:
        odd[at] = True
        return None


def _flat(lists: list[list[Any] | None], code: str) -> array[int] | None:
    """Return the ids of all lists behind each other; None where some item is no number of that width."""
    flat = array(code)
    try:
        flat.extend(chain.from_iterable(filter(None, lists)))
    except (TypeError, OverflowError):
        return None
    return flat
