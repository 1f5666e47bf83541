"""What records of one input say of each other: starts, values that carry on, calls inside calls, twins."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from prefixledger.ingest.batch import ROW_FIELDS, id_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.records import Skip

TWIN_US: Final = 50_000
"""Two integrations that log one call see it start within 50 ms of each other."""
_AT: Final = {name: number for number, name in enumerate(ROW_FIELDS)}
_ANCHOR: Final = "anchor"


class Fact(NamedTuple):
    """What one record says of the engine.

    Attributes:
        record: 0-based number of the record.
        at_us: Its time, None where it has none.
        yearless: True where that lies in the nominal year.
        said: What it says.
        local: True where its time is local.
    """

    record: int
    at_us: int | None
    yearless: bool
    said: Mapping[str, Any]
    local: bool = False


class Links:
    """Links of one input, collected in order of its records, so that they depend on no chunk."""

    def __init__(self, format_name: str) -> None:
        """Begin an input.

        Args:
            format_name: Its format.
        """
        self.facts: list[Fact] = []
        self._format = format_name
        self._carried: dict[str, Any] = {}
        self._last_join: object = None
        self._marks: dict[str, int] = {}
        self._after: dict[int, str] = {}
        self._parents: dict[str, str | None] = {}
        self._spans: dict[int, str] = {}
        self._leaders: dict[str, int] = {}
        self._leader = array("q")
        self._counted = bytearray()
        self._twin_rows = array("q")
        self._twin_keys = array("Q")
        self._recorders: dict[str, int] = {}
        self._twin_recorder = array("q")

    def carry(self, batch: Batch, base: int) -> None:
        """Take what skipped records tell, and give the rows behind them what they lack; before anything else.

        Args:
            batch: The next batch; rows in it are changed in place.
            base: Records before it.
        """
        told = iter([*batch.told, (len(batch.fates), None)])
        record, skip = next(told)
        for number, row_record in enumerate(batch.row_records):
            while record < row_record and skip is not None:
                self._hear(skip, base + record)
                record, skip = next(told)
            if self._carried:
                self._give(batch, number)
        while skip is not None:
            self._hear(skip, base + record)
            record, skip = next(told)

    def add_rows(self, columns: Mapping[str, Any], first_row: int) -> None:
        """Take the next rows.

        Args:
            columns: Their fields.
            first_row: Number of the first.
        """
        self._add_pieces(columns, first_row)
        lengths = zip(columns["prompt_tokens"], columns["status"], strict=True)
        self._counted += bytes(tokens is not None and status != "failed" for tokens, status in lengths)
        if any(columns["after"]) or any(columns["mark"]):
            ends = zip(
                columns["mark"], columns["finished_us"], columns["started_us"], columns["after"], strict=True
            )
            for row, (mark, finished, started, after) in enumerate(ends, start=first_row):
                if mark is not None:
                    self._marks.setdefault(mark, started if finished is None else finished)
                if after is not None:
                    self._after[row] = after
        if any(columns["span"]):
            self._add_spans(columns, first_row)
        if any(columns["recorder"]):
            for at, recorder in enumerate(columns["recorder"]):
                if recorder is not None:
                    self._add_twin(columns, at, first_row + at, recorder)

    def add_plain(self, first_row: int, n_rows: int) -> None:
        """Take rows that have a length and name no other record."""
        self._leader.frombytes(np.arange(first_row, first_row + n_rows).tobytes())
        self._counted += b"\1" * n_rows

    def leaders(self) -> NDArray[np.int64]:
        """Return int64[rows], for each row the first row of the request that it is a piece of; itself where alone."""
        return np.array(self._leader, np.int64)

    def begins(self, started_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return starts, of rows that name a record before them its time, where that lies earlier.

        Args:
            started_us: int64[rows], starts as the rows say them.
        """
        started = started_us.copy()
        for row, after in self._after.items():
            at = self._marks.get(after)
            if at is not None and at < started[row]:
                started[row] = at
        return started

    def outer_and_inner(self, rows: NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """Tell calls around other calls from those inside: sums stand on both, and only one may count.

        Args:
            rows: int64[k], rows that are still taken for requests.

        Returns:
            Rows around a call, and rows without a logged length inside a call that has one; the latter are no calls
            themselves but what one is made of.
        """
        if not self._spans:
            return [], []
        of_span = {self._spans[row]: row for row in rows.tolist() if row in self._spans}
        outer: set[int] = set()
        inner: set[int] = set()
        for span, row in of_span.items():
            for above in self._ancestors(span):
                holder = of_span.get(above)
                if holder is None:
                    continue
                if self._counted[holder] and not self._counted[row]:
                    inner.add(row)
                else:
                    outer.add(holder)
        return sorted(outer), sorted(inner)

    def twins(self, started_us: NDArray[np.int64], alive: NDArray[np.bool_]) -> list[int]:
        """Return rows that tell again of a call which another recorder told of, the later of both.

        Args:
            started_us: int64[rows].
            alive: bool[rows], rows that are still taken for requests.
        """
        if len(self._recorders) < 2:  # noqa: PLR2004  # it takes two
            return []
        rows = np.array(self._twin_rows, np.int64)
        keep = alive[rows]
        rows, key = rows[keep], np.array(self._twin_keys, np.uint64)[keep]
        recorder = np.array(self._twin_recorder, np.int64)[keep]
        order = np.lexsort((rows, started_us[rows], key))
        found: list[int] = []
        last: dict[int, tuple[int, int]] = {}
        for at in order.tolist():
            row, start = int(rows[at]), int(started_us[rows[at]])
            held = last.get(int(key[at]))
            if held is not None and held[0] != recorder[at] and start - held[1] <= TWIN_US:
                found.append(row)
                del last[int(key[at])]  # a third one is a call of its own
            else:
                last[int(key[at])] = (int(recorder[at]), start)
        return found

    def _hear(self, skip: Skip, record: int) -> None:
        self._carried |= {name: value for name, value in skip.carry.items() if value is not None}
        if skip.mark is not None and skip.at_us is not None:
            self._marks.setdefault(skip.mark, skip.at_us)
        if skip.fact is not None:
            local = skip.yearless or skip.local_clock
            self.facts.append(Fact(record, skip.at_us, skip.yearless, skip.fact, local))
        if skip.span is not None:
            self._parents.setdefault(skip.span, skip.parent_span)

    def _give(self, batch: Batch, number: int) -> None:
        row = list(batch.rows[number])
        for name, value in self._carried.items():
            if name == "started_us":
                if row[_AT["rough_start"]] and value < row[_AT["started_us"]]:
                    row[_AT["started_us"]] = value
            elif name == _ANCHOR:
                if row[_AT["request_id"]] is not None:
                    row[_AT["request_id"]] = f"{value}/{row[_AT['request_id']]}"
            elif row[_AT[name]] is None:
                row[_AT[name]] = value
        told_before = row[_AT["join"]] is not None and row[_AT["join"]] == self._last_join
        if "started_us" in self._carried and row[_AT["rough_start"]] and not told_before:
            # Where nothing is said in between, the next call begins where this one ends.
            self._carried["started_us"] = batch.rows[number][_AT["started_us"]]
            self._last_join = row[_AT["join"]]
        batch.rows[number] = tuple(row)
        if _ANCHOR in self._carried:
            own = id_hash(self._format, *(_text(row[_AT[name]]) for name in ("provider", "request_id")))
            batch.id_hashes[16 * number : 16 * number + 16] = own

    def _add_pieces(self, columns: Mapping[str, Any], first_row: int) -> None:
        if "piece" not in columns["part"]:
            self._leader.extend(range(first_row, first_row + len(columns["part"])))
            return
        for row, (key, part) in enumerate(
            zip(columns["join"], columns["part"], strict=True), start=first_row
        ):
            is_piece = part == "piece" and key is not None
            self._leader.append(self._leaders.setdefault(key, row) if is_piece else row)

    def _add_spans(self, columns: Mapping[str, Any], first_row: int) -> None:
        names = zip(columns["span"], columns["parent_span"], strict=True)
        for row, (span, parent) in enumerate(names, start=first_row):
            if span is not None:
                self._spans[row] = span
                self._parents.setdefault(span, parent)

    def _ancestors(self, span: str) -> Iterator[str]:
        walked = {span}
        above = self._parents.get(span)
        while above is not None and above not in walked:
            yield above
            walked.add(above)
            above = self._parents.get(above)

    def _add_twin(self, columns: Mapping[str, Any], at: int, row: int, recorder: str) -> None:
        names = ("model", "prompt_tokens", "output_tokens", "cached_tokens")
        if columns["prompt_tokens"][at] is None:
            return
        text = "\0".join(str(columns[name][at]) for name in names)
        self._twin_rows.append(row)
        self._twin_keys.append(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))
        self._twin_recorder.append(self._recorders.setdefault(recorder, len(self._recorders)))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
