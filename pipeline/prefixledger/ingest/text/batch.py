"""The text of one chunk: each distinct piece once, and which rows are made of which."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from prefixledger.ingest.text.plan import TextPlan, units_of
from prefixledger.ingest.text.volatile import find_marks, masked, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from prefixledger.ingest.records import TextPart
    from prefixledger.ingest.text.part_lists import Identity

    _Identity = tuple[str, str | None, bytes, bytes | None, int | None, bool, bool]


class PartFacts(NamedTuple):
    """What is kept of a part; equal parts have equal facts. Logs have one for each message, and a tuple is made soonest.

    Attributes:
        kind: ``tools``, ``system`` or ``message``.
        role: Who speaks.
        raw: Digest of its text as sent, 16 bytes.
        canonical: Digest of its canonical text, 16 bytes.
        n_bytes: Length of its text.
        text: The text, where it is to be kept.
        content_blocks: Tools or content blocks in it.
        n_tokens: Its length where the log says it.
        masked: Digest of its text without what may change from call to call, of parts whose length is logged.
        marks: What may change from call to call, of the same, see ``schema_contents.PIECES``.
        goes_on: Whether it is a content block of the same message as the part before it.
    """

    kind: str
    role: str | None
    raw: bytes
    canonical: bytes
    n_bytes: int
    text: bytes | None
    content_blocks: int = 1
    n_tokens: int | None = None
    masked: bytes | None = None
    marks: str = ""
    goes_on: bool = False


@dataclass(slots=True)
class TextBatch:
    """Text of the rows of a batch.

    Attributes:
        rows: Rows with text, by their number in the batch.
        hashed: 1 where the text makes the keys of the row, 0 where the row has ids.
        units: Distinct pieces that are hashed, in order of appearance.
        unit_counts: Pieces of each of ``rows``.
        row_units: Their numbers, row after row.
        parts: Distinct parts, in order of appearance.
        part_counts: Parts of each of ``rows``.
        row_parts: Their numbers, row after row.
        marks: Index in ``rows``, position of the part, and cache mark behind it.
    """

    rows: array[int] = field(default_factory=lambda: array("q"))
    hashed: bytearray = field(default_factory=bytearray)
    units: list[bytes] = field(default_factory=list)
    unit_counts: array[int] = field(default_factory=lambda: array("q"))
    row_units: array[int] = field(default_factory=lambda: array("Q"))
    parts: list[PartFacts] = field(default_factory=list)
    part_counts: array[int] = field(default_factory=lambda: array("q"))
    row_parts: array[int] = field(default_factory=lambda: array("Q"))
    marks: list[tuple[int, int, str]] = field(default_factory=list)
    _unit_numbers: dict[bytes, int] = field(default_factory=dict)
    _part_numbers: dict[_Identity, int] = field(default_factory=dict)
    _given_numbers: dict[Identity, int] = field(default_factory=dict, compare=False)

    def add(
        self, row: int, parts: Sequence[TextPart], plan: TextPlan, started_us: int, *, hashed: bool
    ) -> None:
        """Append the text of a row.

        Args:
            row: Number of the row in the batch.
            parts: Its prompt.
            plan: How to cut it.
            started_us: Start of the request.
            hashed: Whether it makes the keys of the row.

        Raises:
            BadRecordError: The template refuses it; nothing is appended then.
        """
        units = units_of(parts, plan, started_us) if hashed else []
        for position, part in enumerate(parts):
            if part.breakpoint is not None:
                self.marks.append((len(self.rows), position, part.breakpoint))
        self.rows.append(row)
        self.hashed.append(hashed)
        self.unit_counts.append(len(units))
        self.row_units.extend(self._unit(unit) for unit in units)
        self.part_counts.append(len(parts))
        self.row_parts.extend(self._part(part, plan) for part in parts)

    def add_given(
        self, rows: NDArray[np.int64], counts: NDArray[np.int64], identities: list[Identity], plan: TextPlan
    ) -> None:
        """Append the parts of rows whose log gives them with their lengths, so that they make no keys.

        Args:
            rows: int64[n], numbers of the rows in the batch.
            counts: int64[n], parts of each, at least one.
            identities: Those of all rows; the same tuple is the same part.
            plan: How text is kept.
        """
        self.rows.frombytes(rows.tobytes())
        self.hashed += bytes(rows.size)
        self.unit_counts.frombytes(bytes(8 * rows.size))
        self.part_counts.frombytes(counts.tobytes())
        known = self._given_numbers
        numbers = list(map(known.get, identities))
        if None in numbers:
            for at, one in enumerate(identities):
                if numbers[at] is None:
                    numbers[at] = known.get(one)  # new, or met again since
                    if numbers[at] is None:
                        numbers[at] = known[one] = self._given(one, plan)
        self.row_parts.extend(numbers)  # type: ignore[arg-type]  # none is None any more

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the look-up tables behind when a batch goes to another process."""
        held = (
            self.rows,
            self.hashed,
            self.units,
            self.unit_counts,
            self.row_units,
            self.parts,
            self.part_counts,
        )
        return (TextBatch, (*held, self.row_parts, self.marks))

    def _unit(self, unit: bytes) -> int:
        number = self._unit_numbers.setdefault(unit, len(self.units))
        if number == len(self.units):
            self.units.append(unit)
        return number

    def _part(self, part: TextPart, plan: TextPlan) -> int:
        identity = (
            part.kind, part.role, part.text, part.canonical, part.n_tokens, part.fingerprint, part.goes_on
        )  # fmt: skip
        return self._number(identity, part.content_blocks, plan)

    def _given(self, one: Identity, plan: TextPlan) -> int:
        kind, role, text, canonical, n_tokens, fingerprint = one
        same = None if canonical is None else canonical.encode("utf-8", "surrogatepass")
        identity = (kind, role, text.encode("utf-8", "surrogatepass"), same, n_tokens, fingerprint, False)
        return self._number(identity, 1, plan)

    def _number(self, identity: _Identity, content_blocks: int, plan: TextPlan) -> int:
        number = self._part_numbers.setdefault(identity, len(self.parts))
        if number == len(self.parts):
            kind, role, text, canonical, n_tokens, fingerprint, goes_on = identity
            raw = digest(text)
            facts = PartFacts(
                kind,
                role,
                raw,
                raw if canonical is None else digest(canonical),
                0 if fingerprint else len(text),
                text if plan.keep_text and not fingerprint else None,
                content_blocks,
                n_tokens,
                goes_on=goes_on,
            )
            if n_tokens is not None and not fingerprint:
                marks = find_marks(text)
                letters, _ = masked(text, marks)
                facts = facts._replace(masked=digest(letters.tobytes()), marks=written(marks))
            self.parts.append(facts)
        return number


def digest(text: bytes) -> bytes:
    """Return the 16 bytes that stand for a text."""
    return blake2b(text, digest_size=16).digest()
