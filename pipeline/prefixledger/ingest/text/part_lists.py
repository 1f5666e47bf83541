"""What the prompts of many rows are made of, where a log gives it as lists of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.ingest.cells import KINDS, MAX_ROLE
from prefixledger.ingest.fields import MAX_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.text.batch import TextBatch
    from prefixledger.ingest.text.plan import TextPlan

Identity = tuple[str, str | None, str, str | None, int, bool]
"""Kind, role, text or digest, canonical, tokens, and whether the third is a digest."""


@dataclass(slots=True)
class PartLists:
    """Parts of some rows.

    Attributes:
        counts: int64[n], parts of each row; 0 where it has none.
        first: int64[n + 1], where those of each row begin.
        identities: What tells each part from others, see ``Identity``.
        marks: Cache mark behind each part.
    """

    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    identities: list[Identity] = field(default_factory=list)
    marks: list[str | None] = field(default_factory=list)

    @classmethod
    def of(cls, values: list[Any], lengths: NDArray[np.int64], odd: NDArray[np.bool_]) -> PartLists:
        """Take the cells of a column.

        Args:
            values: Lists of objects, or anything else.
            lengths: int64[n], prompt tokens, -1 where unknown.
            odd: bool[n], set where ``cells.cell_parts`` has to look at the cell.
        """
        lists = [value if type(value) is list else None for value in values]
        odd |= np.array([value is not None and type(value) is not list for value in values], np.bool_)
        counts = np.array([0 if parts is None else len(parts) for parts in lists], np.int64)
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        found = cls(counts, first)
        items = list(chain.from_iterable(filter(None, lists)))
        bad, tokens = found._take(items)
        row_of = np.repeat(np.arange(counts.size), counts)
        odd[row_of[bad]] = True
        total = np.concatenate([[0], np.cumsum(tokens)])
        odd |= (lengths >= 0) & (total[first[1:]] - total[first[:-1]] > lengths)
        return found

    def add_to(self, batch: TextBatch, begin: int, end: int, first_row: int, plan: TextPlan) -> None:
        """Append the parts of some rows to a batch.

        Args:
            batch: The batch.
            begin: First row.
            end: Row behind the last.
            first_row: Number of the first row in the batch.
            plan: How text is kept.
        """
        counts = self.counts[begin:end]
        some = np.flatnonzero(counts)
        first, last = int(self.first[begin]), int(self.first[end])
        if any(self.marks[first:last]) or "" in self.marks[first:last]:
            rows = np.repeat(np.arange(some.size), counts[some]) + len(batch.rows)
            starts = np.repeat(self.first[begin + some], counts[some])
            positions = (np.arange(first, last) - starts).tolist()
            marked = zip(rows.tolist(), positions, self.marks[first:last], strict=True)
            batch.marks += [(row, at, mark) for row, at, mark in marked if mark is not None]
        batch.add_given(some + first_row, counts[some], self.identities[first:last], plan)

    def _take(self, items: list[Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return bool[items], parts that are not as most are; and int64[items], their lengths, 0 for those."""
        bad = np.array([type(item) is not dict for item in items], np.bool_)
        if bad.any():
            items = [item if type(item) is dict else {} for item in items]
        named = ["digest" in item for item in items]
        bad |= np.array(named, np.bool_) == np.array(["text" in item for item in items], np.bool_)
        texts = [item.get("digest" if one else "text") for one, item in zip(named, items, strict=True)]
        kinds = [item.get("kind", "message") for item in items]
        roles, canonicals, self.marks = (
            [item.get(name) for item in items] for name in ("role", "canonical", "breakpoint")
        )
        tokens = [item.get("tokens") for item in items]
        if sum(map(kinds.count, KINDS)) != len(kinds):
            bad |= np.array([kind not in KINDS for kind in kinds], np.bool_)
        _check_texts(texts, {str}, None, bad)
        _check_texts(canonicals, {str, NoneType}, None, bad)
        _check_texts(roles, {str, NoneType}, MAX_ROLE, bad)
        _check_texts(self.marks, {str, NoneType}, MAX_ROLE, bad)
        if not (
            set(map(type, tokens)) <= {int}
            and 0 <= min(tokens, default=0) <= max(tokens, default=0) <= MAX_TOKENS
        ):
            wrong = [type(n) is not int or not 0 <= n <= MAX_TOKENS for n in tokens]
            bad |= np.array(wrong, np.bool_)
            tokens = [0 if one else n for n, one in zip(tokens, wrong, strict=True)]
        self.identities = list(zip(kinds, roles, texts, canonicals, tokens, named, strict=True))
        return bad, np.array(tokens, np.int64)


def _check_texts(column: list[Any], types: set[type], most: int | None, bad: NDArray[np.bool_]) -> None:
    """Set ``bad`` where a column holds something of another type, or a text that is too long."""
    if not set(map(type, column)) <= types:
        bad |= np.array([type(text) not in types for text in column], np.bool_)
    elif most is not None and max(map(len, filter(None, column)), default=0) > most:
        bad |= np.array([text is not None and len(text) > most for text in column], np.bool_)
