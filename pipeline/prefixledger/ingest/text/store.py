"""The text of one input: distinct pieces in a file, prompts as paths over them."""

from __future__ import annotations

from array import array
from typing import IO, TYPE_CHECKING

import numpy as np

from prefixledger.ingest.text.batch import digest
from prefixledger.kernels.path_forest import PathForest

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.ingest.text.batch import PartFacts, TextBatch


class TextStore:
    """Grows batch by batch; holds some 150 bytes for each distinct piece and 60 for each distinct prompt, no text.

    Attributes:
        unit_forest: Prompts as paths of unit numbers; roots are namespace numbers.
        part_forest: Prompts as paths of part numbers, below one root.
        rows: Rows with text, rising.
        hashed: 1 where text makes the keys of the row.
        unit_node: Last node in ``unit_forest`` of each of ``rows``, -1 where there is none.
        part_node: Last node in ``part_forest``.
        parts: What is kept of each distinct part; their texts lie in the file.
        marks: Row, position of the part, and cache mark behind it.
    """

    def __init__(self, folder: Path) -> None:
        """Begin an input.

        Args:
            folder: Where texts are kept until it is done.
        """
        self.unit_forest = PathForest()
        self.part_forest = PathForest()
        self.rows: array[int] = array("q")
        self.hashed = bytearray()
        self.unit_node: array[int] = array("q")
        self.part_node: array[int] = array("q")
        self.parts: list[PartFacts] = []
        self.marks: list[tuple[int, int, str]] = []
        self._units = _Texts(folder / "units.bin")
        self._part_texts = _Texts(folder / "parts.bin")
        self._part_numbers: dict[tuple[object, ...], int] = {}

    def add(self, batch: TextBatch, first_row: int, namespaces: list[int]) -> None:
        """Take the text of the next batch.

        Args:
            batch: The text.
            first_row: Number of the first row of the batch.
            namespaces: Number of the namespace of each row of the batch.
        """
        if not batch.rows:
            return
        units = np.array([self._units.add(unit) for unit in batch.units], np.uint64)
        parts = np.array([self._part(part) for part in batch.parts], np.uint64)
        roots = np.array(namespaces, np.int64)[np.array(batch.rows, np.int64)]
        self.unit_node.frombytes(
            _walk(self.unit_forest, roots, batch.unit_counts, units, batch.row_units).tobytes()
        )
        self.part_node.frombytes(
            _walk(self.part_forest, np.zeros_like(roots), batch.part_counts, parts, batch.row_parts).tobytes()
        )
        before = len(self.rows)
        self.rows.extend(first_row + row for row in batch.rows)
        self.hashed += batch.hashed
        self.marks += [(self.rows[before + at], position, mark) for at, position, mark in batch.marks]

    @property
    def keeps_text(self) -> bool:
        """Whether the texts of parts are here."""
        return bool(self._part_texts.lengths)

    def unit_lengths(self) -> NDArray[np.int64]:
        """Return int64[units], bytes of each unit, its header included."""
        return np.array(self._units.lengths, np.int64)

    def unit(self, number: int) -> bytes:
        """Return a unit."""
        return self._units.get(number)

    def part_text(self, number: int) -> bytes:
        """Return the text of a part; kept only where that was asked for."""
        return self._part_texts.get(number)

    def discard(self) -> None:
        """Delete the files on disk."""
        self._units.discard()
        self._part_texts.discard()

    def _part(self, part: PartFacts) -> int:
        identity = (part.kind, part.role, part.raw, part.canonical, part.n_tokens, part.goes_on)
        number = self._part_numbers.setdefault(identity, len(self.parts))
        if number == len(self.parts):
            self.parts.append(part if part.text is None else part._replace(text=None))
            if part.text is not None:
                self._part_texts.append(part.text)
        return number


class _Texts:
    """Distinct texts in a file, by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: dict[bytes, int] = {}
        self._starts: array[int] = array("q")
        self.lengths: array[int] = array("q")
        self._end = 0
        self._file: IO[bytes] | None = None

    def add(self, text: bytes) -> int:
        """Return the number of a text, giving it the next one if it is new."""
        number = self._numbers.setdefault(digest(text), len(self.lengths))
        if number == len(self.lengths):
            self.append(text)
        return number

    def append(self, text: bytes) -> None:
        """Give a text the next number."""
        if self._file is None:
            self._file = self._path.open("w+b")
        self._file.seek(self._end)
        self._file.write(text)
        self._starts.append(self._end)
        self.lengths.append(len(text))
        self._end += len(text)

    def get(self, number: int) -> bytes:
        """Return a text."""
        assert self._file is not None
        self._file.seek(self._starts[number])
        return self._file.read(self.lengths[number])

    def discard(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._file = None


def _walk(
    forest: PathForest,
    roots: NDArray[np.int64],
    counts: array[int],
    numbers: NDArray[np.uint64],
    flat: array[int],
) -> NDArray[np.int64]:
    offsets = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)
    labels = numbers[np.array(flat, np.int64)] if len(flat) else np.empty(0, np.uint64)
    return forest.add(roots, offsets, None, labels)
