"""The contract of a reader: how a format is recognised, what it can answer, and how one record becomes rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from prefixledger.ingest.overrides import Overrides
from prefixledger.ingest.text.plan import TextPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prefixledger.ingest.plan import MapPlan
    from prefixledger.ingest.records import Outcome

Shape = Literal["json", "csv", "text", "table"]
Clock = Literal["relative", "absolute"]
IdScope = Literal["file", "global"]
BlockIds = Literal["floor", "ceil"]


@dataclass(frozen=True, slots=True)
class PlainField:
    """A field that can be read without a JSON object of its record.

    Attributes:
        name: Its name in the record.
        field: The field of ``Row`` that it becomes as it is.
        kind: ``ms`` a time in whole milliseconds, ``count`` a number of tokens, ``text`` a name, ``ids`` block ids.
        required: False where a record may lack it.
    """

    name: str
    field: str
    kind: Literal["ms", "count", "text", "ids"]
    required: bool = True


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """What a format is and what can be asked of it.

    Attributes:
        name: Name for ``--format``.
        title: Name for people.
        shape: What a record is: ``json``, one value a line or in a document; ``csv``, a dict of cells;
            ``text``, the bytes of a line; ``table``, a dict of the columns of a Parquet or Arrow row.
        keys: What its rows are looked up by.
        clock: Whether its times count from a start of its own.
        id_scope: Over what its block ids are unique.
        answers: What it can answer.
        lacks: What it cannot.
        fields: Names of its fields; only these survive in the excerpt of a reject.
        provider: Who served it, where the format says so by itself.
        block_size: The format's own number of tokens a block.
        local_request_ids: True where request ids are numbers that another file uses again.
        sizes_in_records: True where records say how many tokens a block has.
        chained: True where rows name the request before them, so that chains are sessions.
        repeats: Which of several rows with one request id counts: the ``first``, or the ``fullest``, the one with the
            most output, where an answer is logged again while it grows.
        companions: True where its files complete each other: each is told of all of them in the same call.
        sample: Its fixture in ``sample_traces/formats``.
        also: Shapes other than ``shape`` in which it comes; ``csv`` and ``table`` go by the names of their columns.
        time_field: Field whose numbers tell the unit of its times, by the median of the first records.
        note: Sentence for every account of this format.
        plain: Fields of most of its records, in their order; a line of nothing else is read by a kernel. They have a
            start, a prompt length, and ids; ``read`` makes of such a record a row of these values alone.
    """

    name: str
    title: str
    shape: Shape
    keys: Literal["block ids", "token ids", "text", "as mapped", "none"]
    clock: Clock
    id_scope: IdScope
    answers: tuple[str, ...]
    lacks: tuple[str, ...]
    fields: frozenset[str]
    provider: str | None = None
    block_size: int | None = None
    local_request_ids: bool = False
    sizes_in_records: bool = False
    chained: bool = False
    repeats: Literal["first", "fullest"] = "first"
    companions: bool = False
    sample: str | None = None
    also: tuple[Shape, ...] = ()
    time_field: str | None = None
    note: str | None = None
    plain: tuple[PlainField, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """The first part of an input, looked at from all sides.

    Attributes:
        name: Its file name.
        text: Its first decompressed bytes, without byte order mark.
        values: JSON values of its first 50 lines that parse, or of the one document.
        lines: Lines that were tried, blank ones aside.
        document: True where the input is one or more JSON values that do not stand one to a line.
        cells: Cells of the first line, read as CSV; empty for JSON.
        delimiter: What separated them.
        header_line: 1-based number of that line.
        columnar: ``parquet`` or ``arrow`` where it is such a file; then ``cells`` are its columns.
    """

    name: str
    text: bytes = b""
    values: tuple[Any, ...] = ()
    lines: int = 0
    document: bool = False
    cells: tuple[str, ...] = ()
    delimiter: str = ","
    header_line: int = 0
    columnar: Literal["parquet", "arrow"] | None = None

    def having(self, *names: str, lacking: Iterable[str] = ()) -> str | None:
        """Say how many of the first values are objects with these keys, if it is at least half of them."""
        without = frozenset(lacking)
        fit = sum(
            1
            for value in self.values
            if isinstance(value, dict) and all(name in value for name in names) and without.isdisjoint(value)
        )
        if fit == 0 or 2 * fit < len(self.values):
            return None
        return f"{fit} of the first {self.lines} records have {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Context:
    """What parsing needs to know of an input; small, so that it can be sent to other processes.

    Attributes:
        format: Name of its format.
        file_name: Name of the input, without folders.
        shape: What a record is.
        document: See ``Head``.
        block_size: Tokens a block by option or map: stronger than what a record says.
        fallback_block_size: Tokens a block where neither option nor record says it.
        block_ids: Rule for the trailing block by option or map; None lets each row follow either.
        cells: Names of the CSV columns.
        delimiter: CSV delimiter.
        header_line: Line of the CSV header, 0 where there is none.
        plan: The map, where one is used.
        companions: Files of the same format in the same call, where they complete each other.
        text: How text is cut.
        overrides: What the caller knows better than the log.
        time_unit: Unit of times that are numbers, by the median of the first records; None where they are not.
    """

    format: str
    file_name: str
    shape: Shape
    document: bool = False
    block_size: int | None = None
    fallback_block_size: int = 16
    block_ids: BlockIds | None = None
    cells: tuple[str, ...] = ()
    delimiter: str = ","
    header_line: int = 0
    plan: MapPlan | None = None
    companions: tuple[str, ...] = ()
    text: TextPlan = field(default_factory=TextPlan)
    overrides: Overrides = field(default_factory=Overrides)
    time_unit: str | None = None


class Reader(Protocol):
    """One format."""

    @property
    def info(self) -> FormatInfo:
        """What the format is."""

    def recognise(self, head: Head) -> str | None:
        """Return why the input is of this format, or None if it is not."""

    def read(self, value: Any, context: Context) -> Outcome | Iterable[Outcome]:
        """Turn one parsed record into one outcome, or one for each request in it.

        Args:
            value: The record, in the form that ``info.shape`` names.
            context: The input it stands in.

        Raises:
            BadRecordError: The record as a whole cannot be used.
        """
