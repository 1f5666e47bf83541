"""Takes the batches of one input in order: paths into the forest, rows to disk, the fate of each record into arrays."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from prefixledger.ingest.batch import ROW_FIELDS, SKIP, Batch, Fit
from prefixledger.ingest.beside import Beside
from prefixledger.ingest.calendar import ZONE_STEP_US
from prefixledger.ingest.contents import ContentStore
from prefixledger.ingest.conventions import Conventions
from prefixledger.ingest.envelope import LabelTally
from prefixledger.ingest.faults import TRUNCATED
from prefixledger.ingest.labels import tokens_of
from prefixledger.ingest.links import Links
from prefixledger.ingest.namespaces import Namespace, NamespaceTable
from prefixledger.ingest.spill import Spill
from prefixledger.ingest.text.finish import SCOPE, TextKeys
from prefixledger.ingest.text.store import TextStore
from prefixledger.kernels.path_forest import PathForest

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.ingest.plain_rows import PlainRows

_INTS: Final = frozenset(
    {"started_us", "prompt_tokens", "admitted_us", "first_token_us", "finished_us", "output_tokens", "cached_tokens",
     "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_write_other_tokens",
     "router_expected_tokens"}
)  # fmt: skip
_NOT_SPILLED: Final = frozenset(
    {"scope", "space", "timeline", "parent", "join", "part", "zone_hint_us", "convention", "untimed", "after", "mark", "span", "parent_span",
     "recorder", "yearless", "extras"}
)  # fmt: skip
_HALVES: Final = frozenset({"request", "answer"})
SPILLED: Final = tuple(name for name in ROW_FIELDS if name not in _NOT_SPILLED)


def _field_type(name: str) -> pa.DataType:
    if name in _INTS:
        return pa.int64()
    if name in ("prompt_complete", "bypassed", "rough_start", "local_clock"):
        return pa.bool_()
    return pa.float64() if name == "weight" else pa.string()


ROW_SCHEMA: Final = pa.schema(
    [
        *((name, _field_type(name)) for name in SPILLED),
        ("extras", pa.map_(pa.string(), pa.string())),
        ("namespace_number", pa.int32()),
        ("block_size", pa.int32()),
        ("n_blocks", pa.int32()),
        ("keyed", pa.bool_()),
    ]
)
"""Rows on disk; what settling needs of every row at once is in the arrays of ``Collected``."""
REJECT_SCHEMA: Final = pa.schema(
    [
        ("record", pa.int64()),
        ("line", pa.int64()),
        ("byte_offset", pa.int64()),
        ("reason", pa.string()),
        ("excerpt", pa.string()),
    ]
)


@dataclass(slots=True)
class Records:
    """Every record of an input.

    Attributes:
        fate: ``ROW``, ``REJECT``, or ``SKIP`` + number of the reason.
        line: 1-based line.
        offset: Byte offset in the decompressed stream; -1 where there is none.
        digest: 64-bit hash of its line; 0 where it is not the first record of a line.
    """

    fate: bytearray = field(default_factory=bytearray)
    line: array[int] = field(default_factory=lambda: array("q"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    digest: array[int] = field(default_factory=lambda: array("Q"))


@dataclass(slots=True)
class RowFacts:
    """What settling needs of every row.

    Attributes:
        record: 0-based record of each row.
        started_us: Start as the log says it.
        node: Last full block in the forest, -1 for none.
        id_hash: 16 bytes each, zeros for no id.
        partner: The other row of the same request, -1 for none.
        is_answer: 1 where the row is the second part of a request.
        timeline: Conversation with a clock of its own, -1 for none.
        no_length: 1 where the prompt length is unknown.
        prompt_tokens: Prompt length as logged, -1 where it is not.
        rough: 1 where the start is derived.
        local: 1 where times are local ones without a zone.
        yearless: 1 where times have no year.
        untimed: 1 where there is no time.
        output_tokens: Tokens generated, -1 where that is not known.
        retry_hash: 16 bytes each, what attempts at the same request share; zeros for nothing.
        answered: 1 where the id is that of an answer.
    """

    record: array[int] = field(default_factory=lambda: array("q"))
    started_us: array[int] = field(default_factory=lambda: array("q"))
    node: array[int] = field(default_factory=lambda: array("q"))
    id_hash: bytearray = field(default_factory=bytearray)
    partner: array[int] = field(default_factory=lambda: array("q"))
    is_answer: bytearray = field(default_factory=bytearray)
    timeline: array[int] = field(default_factory=lambda: array("q"))
    no_length: bytearray = field(default_factory=bytearray)
    prompt_tokens: array[int] = field(default_factory=lambda: array("q"))
    rough: bytearray = field(default_factory=bytearray)
    local: bytearray = field(default_factory=bytearray)
    yearless: bytearray = field(default_factory=bytearray)
    untimed: bytearray = field(default_factory=bytearray)
    output_tokens: array[int] = field(default_factory=lambda: array("q"))
    retry_hash: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    def add_plain(self, first_record: int, node: NDArray[np.int64], plain: PlainRows) -> None:
        """Take rows that have nothing but a start and lengths; every record from the first on is one."""
        n_rows = node.size
        none = np.full(n_rows, -1, np.int64).tobytes()
        self.record.frombytes(np.arange(first_record, first_record + n_rows).tobytes())
        self.node.frombytes(node.tobytes())
        self.started_us.frombytes(plain.numbers("started_us").tobytes())
        self.prompt_tokens.frombytes(plain.numbers("prompt_tokens").tobytes())
        self.output_tokens.frombytes(plain.numbers("output_tokens").tobytes())
        self.partner.frombytes(none)
        self.timeline.frombytes(none)
        for hashes in (self.id_hash, self.retry_hash):
            hashes.extend(bytes(16 * n_rows))
        for flags in (
            self.is_answer, self.no_length, self.rough, self.local, self.yearless, self.untimed, self.answered
        ):  # fmt: skip
            flags.extend(bytes(n_rows))


class Collected:
    """One input, taken in batch by batch."""

    def __init__(
        self, folder: Path, format_name: str, default_scope: str, *, forced_scope: str | None
    ) -> None:
        """Begin an input.

        Args:
            folder: Where rows are kept until they are settled.
            format_name: Its format.
            default_scope: ``file`` or ``global``, for block ids of rows that do not say it.
            forced_scope: The same by option or map, stronger than the row.
        """
        self.records = Records()
        self.rows = RowFacts()
        self.fit = Fit()
        self.forest = PathForest()
        self.namespaces = NamespaceTable()
        self.labels = LabelTally()
        self.links = Links(format_name)
        self.conventions = Conventions()
        self.text = TextStore(folder)
        self.contents = ContentStore()
        self.beside = Beside(folder)
        self.text_keys: TextKeys | None = None
        self.timelines: dict[str, int] = {}
        self.parents: list[tuple[str | None, str | None]] = []
        self.zone_hints: Counter[int] = Counter()
        self.skip_reasons: list[str] = []
        self.n_rejects = 0
        self.truncated_at: int | None = None
        self.row_spill = Spill(folder / "rows.arrow", ROW_SCHEMA)
        self.reject_spill = Spill(folder / "rejects.arrow", REJECT_SCHEMA)
        self._default_scope = default_scope
        self._forced_scope = forced_scope
        self._unpaired: dict[tuple[str, bool], list[int]] = {}

    def add(self, batch: Batch) -> None:
        """Take the next batch; batches come in order of the input."""
        base = len(self.records.fate)
        for record, reason in batch.skips:
            batch.fates[record] = self._skip_fate(reason)
        self.records.fate += batch.fates
        self.records.line.extend(batch.lines)
        self.records.offset.extend(batch.offsets)
        self.records.digest.extend(batch.digests)
        self._add_rejects(batch, base)
        self.beside.add(batch, base)
        self.fit.merge(batch.fit)
        self.links.carry(batch, base)
        if batch.rows:
            self._add_rows(batch, base)
        if batch.plain is not None:
            self._add_plain(batch.plain, base)

    def finish(self) -> None:
        """Take no more rows; rejects may still come."""
        self.row_spill.finish()
        self.beside.finish()

    def discard(self) -> None:
        """Delete the files on disk."""
        self.row_spill.discard()
        self.reject_spill.discard()
        self.beside.discard()
        self.text.discard()

    def reject(self, record: int, reason: str, excerpt: str) -> None:
        """Add a record that turned out bad only when the whole input was known."""
        offset = self.records.offset[record]
        where = (record + 1, self.records.line[record], None if offset < 0 else offset)
        self.reject_spill.add([[value] for value in (*where, reason, excerpt)])
        self.n_rejects += 1

    def skip(self, record: int, reason: str) -> None:
        """Leave out a record that turned out to be no request only when the whole input was known."""
        self.records.fate[record] = self._skip_fate(reason)

    def _skip_fate(self, reason: str) -> int:
        if reason not in self.skip_reasons:
            self.skip_reasons.append(reason)
        return SKIP + self.skip_reasons.index(reason)

    def _add_rejects(self, batch: Batch, base: int) -> None:
        if not batch.rejects:
            return
        numbers = [record for record, _, _ in batch.rejects]
        offsets = [None if batch.offsets[n] < 0 else batch.offsets[n] for n in numbers]
        self.reject_spill.add(
            [
                [base + number + 1 for number in numbers],
                [batch.lines[number] for number in numbers],
                offsets,
                [reason for _, reason, _ in batch.rejects],
                [excerpt for _, _, excerpt in batch.rejects],
            ]
        )
        self.n_rejects += len(numbers)
        for number, reason, _ in batch.rejects[-1:]:
            if reason == TRUNCATED:
                self.truncated_at = batch.offsets[number]

    def _add_rows(self, batch: Batch, base: int) -> None:
        columns: dict[str, Any] = dict(zip(ROW_FIELDS, zip(*batch.rows, strict=True), strict=True))
        first_row = len(self.rows.record)
        namespaces = self._namespace_numbers(columns, batch)
        nodes, n_blocks = self._add_paths(batch, namespaces)
        self.rows.record.extend(base + number for number in batch.row_records)
        self.rows.started_us.extend(columns["started_us"])
        self.rows.node.frombytes(nodes.tobytes())
        self.rows.id_hash += batch.id_hashes
        self.rows.no_length += bytes(tokens is None for tokens in columns["prompt_tokens"])
        self.rows.prompt_tokens.extend(
            -1 if tokens is None else tokens for tokens in columns["prompt_tokens"]
        )
        self.text.add(batch.text, first_row, namespaces)
        self.rows.timeline.extend(
            -1 if name is None else self.timelines.setdefault(name, len(self.timelines))
            for name in columns["timeline"]
        )
        self._pair(columns, first_row)
        self.links.add_rows(columns, first_row)
        if any(columns["parent"]) or self.parents:
            self.parents += [(None, None)] * (first_row - len(self.parents))
            self.parents += zip(columns["request_id"], columns["parent"], strict=True)
        self.rows.rough += bytes(columns["rough_start"])
        self.rows.local += bytes(columns["local_clock"])
        self.rows.yearless += bytes(columns["yearless"])
        self.rows.untimed += bytes(columns["untimed"])
        self.rows.output_tokens.extend(-1 if n is None else n for n in columns["output_tokens"])
        self.rows.retry_hash += batch.retry_hashes
        self.rows.answered += batch.answered
        keyed = [
            ids >= 0 or tokens >= 0 for ids, tokens in zip(batch.id_counts, batch.token_counts, strict=True)
        ]
        self.conventions.add_rows(columns, keyed)
        self.zone_hints.update(
            round(hint / ZONE_STEP_US) for hint in columns["zone_hint_us"] if hint is not None
        )
        self.row_spill.add(
            [
                *(columns[name] for name in SPILLED),
                self.labels.add(columns["extras"]),
                namespaces,
                batch.block_sizes,
                n_blocks.tolist(),
                [size > 0 for size in batch.block_sizes],
            ]
        )

    def _add_plain(self, plain: PlainRows, base: int) -> None:
        n_rows, first_row = plain.counts.size, len(self.rows.record)
        scope = self._forced_scope or self._default_scope
        number = self.namespaces.number(Namespace(None, None, None, None, scope, plain.block_size))
        offsets = np.concatenate([[0], np.cumsum(plain.counts)]).astype(np.int64)
        nodes = self.forest.add(np.full(n_rows, number), offsets, None, plain.ids)
        self.rows.add_plain(base, nodes, plain)
        self.contents.add_unknown(n_rows)
        self.links.add_plain(first_row, n_rows)
        self.conventions.add_proven(n_rows)
        self.row_spill.add_batch(plain.spilled(ROW_SCHEMA, number))

    def _namespace_numbers(self, columns: dict[str, Any], batch: Batch) -> list[int]:
        numbers = []
        names = ("model", "adapter", "cache_salt", "namespace", "space", "scope")
        counts = (batch.block_sizes, batch.id_counts, batch.token_counts)
        identity = zip(*(columns[name] for name in names), *counts, strict=True)
        for model, adapter, salt, mapped, space, scope, block_size, n_ids, n_tokens in identity:
            if n_ids >= 0:
                kind = self._forced_scope or scope or self._default_scope
            elif n_tokens >= 0:
                kind = "tokens"
            else:
                kind = SCOPE if block_size else "none"
            inner = mapped if mapped is not None else (space if kind == "file" else None)
            numbers.append(self.namespaces.number(Namespace(model, adapter, salt, inner, kind, block_size)))
        return numbers

    def _add_paths(self, batch: Batch, namespaces: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last node and the number of full blocks of each row."""
        id_counts = np.array(batch.id_counts, np.int64)
        n_tokens = np.array(batch.token_counts, np.int64)
        has_tokens = n_tokens >= 0
        known = np.ones(n_tokens.size, np.bool_)
        known[[row for row, _, _ in batch.extra]] = False
        self.contents.add_tokens(tokens_of(batch), n_tokens, known)
        counts = np.maximum(id_counts, 0)
        low = np.frombuffer(batch.ids, np.uint64)
        high = None
        if has_tokens.any():
            assert batch.labels is not None
            token_high, token_low, block_offsets = batch.labels
            counts[has_tokens] = np.diff(block_offsets)
            is_token = np.repeat(has_tokens, counts)
            high, merged = np.zeros(is_token.size, np.uint64), np.empty(is_token.size, np.uint64)
            high[is_token], merged[is_token], merged[~is_token] = token_high, token_low, low
            low = merged
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        nodes = self.forest.add(np.array(namespaces, np.int64), offsets, high, low)
        return nodes, counts

    def _pair(self, columns: dict[str, Any], first_row: int) -> None:
        """Match the parts of requests logged in two: the first of either kind with the first of the other."""
        for row, (key, part) in enumerate(
            zip(columns["join"], columns["part"], strict=True), start=first_row
        ):
            is_answer = part == "answer"
            partner = -1
            if key is not None and part in _HALVES:
                waiting = self._unpaired.get((key, not is_answer))
                if waiting:
                    partner = waiting.pop(0)
                    self.rows.partner[partner] = row
                    if not waiting:
                        del self._unpaired[(key, not is_answer)]
                else:
                    self._unpaired.setdefault((key, is_answer), []).append(row)
            self.rows.partner.append(partner)
            self.rows.is_answer.append(is_answer)
