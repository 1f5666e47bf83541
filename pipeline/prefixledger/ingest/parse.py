"""Parses one chunk into a batch; runs in worker processes too, so it imports nothing heavy."""

from __future__ import annotations

import csv
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from prefixledger.ingest.batch import REJECT, ROW, SKIP, Batch
from prefixledger.ingest.chunks import MAX_RECORD_BYTES, Chunk, csv_records, lines
from prefixledger.ingest.digests import line_digest
from prefixledger.ingest.documents import Broken, json_values
from prefixledger.ingest.faults import TRUNCATED, why_broken
from prefixledger.ingest.formats import reader_named
from prefixledger.ingest.json_text import loads
from prefixledger.ingest.mapped_columns import MappedColumns, in_columns
from prefixledger.ingest.records import UNFORESEEN, BadRecordError, Reject, Row, Skip
from prefixledger.ingest.redact import redact
from prefixledger.ingest.taken_ids import TakenIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prefixledger.ingest.reader import Context, Reader
    from prefixledger.ingest.records import Outcome

_PREFIX = re.compile(rb"\s*(?:\[[^\]\n]{1,64}\]|\S{1,40} std(?:out|err) F) (?=\{)")
"""What loggers put before a JSON object: ``[2026-11-29 10:00:00] {`` (SGLang), ``<time> stdout F {`` (CRI)."""


NOT_UNDERSTOOD = "not understood"
"""Reason of a record whose shape the reader did not foresee; a reader that gives it wants mending."""

_GROUP_LINES = 512
"""Lines whose values are held at a time: columns of fewer cost more a line, those of more do not stay in the cache."""
_DOCKER = b'{"log":"'
"""What Docker's json-file driver puts around every line."""


def parse_chunk(chunk: Chunk, context: Context) -> Batch:
    """Turn the records of a chunk into rows, rejects and skips, every one of them counted."""
    return _Parser(context).run(chunk)


def parse_values(values: Iterable[tuple[int, Any]], context: Context) -> Batch:
    """Turn rows of a columnar file into a batch.

    Args:
        values: 1-based number of each row, and the row as a dict.
        context: The input.
    """
    parser = _Parser(context)
    for number, value in values:
        parser.outcomes(number, -1, b"", value)
    return parser.batch


def unprefixed(raw: bytes) -> bytes:
    """Return a line without what a logger put before its JSON object."""
    if raw.startswith(_DOCKER):
        return _unwrapped(raw)
    match = _PREFIX.match(raw)
    return raw[match.end() :] if match else raw


def _unwrapped(raw: bytes) -> bytes:
    """Return the line that Docker wrapped, if it is a JSON object with or without a prefix."""
    try:
        line = str(loads(raw)["log"]).strip().encode()
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return raw
    match = _PREFIX.match(line)
    line = line[match.end() :] if match else line
    return line if line.startswith(b"{") else raw


class _Parser:
    def __init__(self, context: Context) -> None:
        self.batch = Batch()
        self.context = context
        self.reader: Reader = reader_named(context.format)
        self.known = self.reader.info.fields | (context.plan.fields if context.plan else frozenset())

    def run(self, chunk: Chunk) -> Batch:
        if chunk.oversize_bytes:
            limit = f"{MAX_RECORD_BYTES // 1_000_000} MB"
            self.reject(chunk.first_line, chunk.offset, chunk.data, f"oversize record: above {limit}")
        elif self.context.document:
            self.document(chunk)
        elif self.context.shape == "csv":
            self.csv(chunk)
        elif in_columns(self.context):
            self.mapped_lines(chunk)
        else:
            parse = self.json_line if self.context.shape == "json" else self.text_line
            cut_at = len(chunk.data) + chunk.offset
            for line, offset, raw in lines(chunk):
                parse(line, offset, raw, chunk.cut != "no" and offset + len(raw) == cut_at)
        return self.batch

    def document(self, chunk: Chunk) -> None:
        data = chunk.data
        for value in json_values(data):
            if not isinstance(value, Broken):
                self.outcomes(chunk.first_line, chunk.offset, b"", value)
                continue
            part = data[value.start : value.end]
            start = value.start + len(part) - len(part.lstrip())
            last = chunk.cut != "no" and not data[value.end :].strip()
            reason = why_broken(part or b"[", value.error, cut=last)  # a list without its end
            line = chunk.first_line + data.count(b"\n", 0, start)
            self.reject(line, chunk.offset + start, part.lstrip(), reason)

    def mapped_lines(self, chunk: Chunk) -> None:
        """Read groups of lines as columns; a line that may be a reject, or is rare, as any other format's is."""
        every = lines(chunk)
        end = chunk.offset + len(chunk.data)
        taken = TakenIds.of(chunk, self.context)
        while group := list(islice(every, _GROUP_LINES)):
            ids = taken and taken.some([line - chunk.first_line for line, _, _ in group])
            texts = [raw for _, _, raw in group]
            if ids is not None:  # of a line that was put together from pieces nothing was taken
                taken_of = zip(texts, ids.lines, ids.counts.tolist(), strict=True)
                texts = [raw if count < 0 else copy for raw, copy, count in taken_of]
            columns = MappedColumns.of(list(map(_value, texts)), self.context, ids)
            for first, stop in columns.runs():
                run = group[first:stop]
                if columns.odd[first]:
                    for line, offset, raw in run:
                        self.json_line(line, offset, raw, chunk.cut != "no" and offset + len(raw) == end)
                    continue
                columns.add_to(self.batch, first, stop)
                self.batch.fates += bytes(len(run))
                self.batch.lines.extend(line for line, _, _ in run)
                self.batch.offsets.extend(offset for _, offset, _ in run)
                self.batch.digests.extend(line_digest(raw.rstrip(b"\r")) for _, _, raw in run)

    def json_line(self, line: int, offset: int, raw: bytes, cut: bool) -> None:
        digest = line_digest(raw.rstrip(b"\r"))
        body = _body(raw)
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            self.reject(line, offset, raw, why_broken(body, error, cut=cut), digest)
            return
        self.outcomes(line, offset, raw, value, digest)

    def text_line(self, line: int, offset: int, raw: bytes, cut: bool) -> None:
        digest = line_digest(raw.rstrip(b"\r"))
        if cut:
            self.reject(line, offset, raw, TRUNCATED, digest)
        elif b"\0" in raw:
            self.reject(line, offset, raw, f"NUL byte: at byte {raw.index(0)}", digest)
        else:
            self.outcomes(line, offset, raw, raw.rstrip(b"\r"), digest)

    def csv(self, chunk: Chunk) -> None:
        columns = self.context.cells
        end = chunk.offset + len(chunk.data)
        for line, offset, raw in csv_records(chunk):
            if line == self.context.header_line:
                continue
            digest = line_digest(raw.rstrip(b"\r"))
            last = chunk.cut != "no" and offset + len(raw) == end
            try:
                cells = csv_cells(raw, self.context.delimiter)
            except BadRecordError as bad:
                self.reject(line, offset, raw, str(bad), digest)
                continue
            if last and (chunk.cut == "surely" or len(cells) < len(columns)):
                self.reject(line, offset, raw, TRUNCATED, digest)
            elif len(cells) != len(columns):
                reason = f"column count: {len(cells)} cells under {len(columns)} names"
                self.reject(line, offset, raw, reason, digest)
            elif tuple(cells) == columns:
                self.book(Skip("repeated header"), line, offset, raw, digest)
            else:
                self.outcomes(line, offset, raw, dict(zip(columns, cells, strict=True)), digest)

    def outcomes(self, line: int, offset: int, raw: bytes, value: Any, digest: int = 0) -> None:
        """Read one value and book every outcome as a record of its own."""
        try:
            for outcome in self.made(value):
                self.book(outcome, line, offset, raw, digest)
                digest = 0
        except BadRecordError as bad:
            self.reject(line, offset, raw or orjson.dumps(value, default=str), str(bad), digest)

    def made(self, value: Any) -> Iterator[Outcome]:
        """Yield what a reader makes of a value.

        Raises:
            BadRecordError: It is bad, or of a shape that nobody foresaw: one odd record must not end a run.
        """
        try:
            made = self.reader.read(value, self.context)
            if isinstance(made, (Row, Reject, Skip)):
                yield made
            else:
                yield from made
        except UNFORESEEN as error:
            raise BadRecordError(f"{NOT_UNDERSTOOD}: {type(error).__name__}") from error

    def book(self, outcome: Outcome, line: int, offset: int, raw: bytes, digest: int) -> None:
        if isinstance(outcome, Row):
            try:
                record = len(self.batch.fates)
                self.batch.add_row(outcome, record, self.context)
            except BadRecordError as bad:
                self.reject(
                    line, offset, raw, str(bad), digest
                )  # a part of a document shows itself by its numbers
            else:
                self.record(ROW, line, offset, digest)
        elif isinstance(outcome, Reject):
            part = raw if outcome.value is None else orjson.dumps(outcome.value)
            self.reject(line, offset, part, outcome.reason, digest)
        else:
            self.record(SKIP, line, offset, digest)
            self.batch.add_skip(outcome, self.context)

    def reject(self, line: int, offset: int, raw: bytes, reason: str, digest: int = 0) -> None:
        self.record(REJECT, line, offset, digest)
        excerpt = redact(raw, self.known)
        self.batch.rejects.append((len(self.batch.fates) - 1, reason, excerpt))

    def record(self, fate: int, line: int, offset: int, digest: int) -> None:
        self.batch.fates.append(fate)
        self.batch.lines.append(line)
        self.batch.offsets.append(offset)
        self.batch.digests.append(digest)


def csv_cells(raw: bytes, delimiter: str) -> list[str]:
    """Return the cells of one CSV record.

    Raises:
        BadRecordError: It is no UTF-8, holds NUL bytes, or is no CSV.
    """
    if b"\0" in raw:
        raise BadRecordError(f"NUL byte: at byte {raw.index(0)}")
    try:
        text = raw.decode().rstrip("\r")
    except UnicodeDecodeError as bad:
        raise BadRecordError(f"bad UTF-8: at byte {bad.start}") from None
    if '"' not in text:
        return text.split(delimiter)
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        raise BadRecordError("broken CSV: quotes do not pair") from None
    if len(rows) != 1:
        raise BadRecordError("broken CSV: quotes do not pair")
    return rows[0]


def _body(raw: bytes) -> bytes:
    return raw if raw[:1] == b"{" and not raw.startswith(_DOCKER) else unprefixed(raw)


def _value(raw: bytes) -> Any:
    """Return what a line holds; None where that is no JSON."""
    try:
        return orjson.loads(_body(raw))
    except orjson.JSONDecodeError:
        return None
