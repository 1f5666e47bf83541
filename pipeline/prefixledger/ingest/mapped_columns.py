"""Reads records of mapped logs as columns: the cells of many rows at a time, and whatever is odd left to the reader of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise, repeat
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prefixledger.ingest.batch import ROW_FIELDS, id_hash
from prefixledger.ingest.cells import NULLS, cell_bool, cell_count, cell_number, cell_text, cell_time_us, find
from prefixledger.ingest.fields import MAX_TEXT, MAX_TOKENS
from prefixledger.ingest.mapped_ids import IdLists
from prefixledger.ingest.overrides import LOGGED_MODEL, alias_of
from prefixledger.ingest.readers.mapped import COUNT_FIELDS, extras_of, prompt_parts, weight_of
from prefixledger.ingest.records import UNFORESEEN, BadRecordError, Row
from prefixledger.ingest.status import status_of
from prefixledger.ingest.text.part_lists import PartLists
from prefixledger.ingest.times import LAST_ABSOLUTE_US, MAX_SPAN_US, UNIT_US, span_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.plan import FieldPlan, MapPlan
    from prefixledger.ingest.reader import Context
    from prefixledger.ingest.taken_ids import TakenIds

_ABSENT: Final = Row(started_us=0, prompt_tokens=None)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


def in_columns(context: Context) -> bool:
    """Return whether the rows of an input can be read as columns at all."""
    plan = context.plan
    if plan is None or context.shape != "json" or context.document:
        return False
    return plan.path_kind != "text" or (plan.parts is None and context.text.template is None)


@dataclass(slots=True)
class MappedColumns:
    """Records of a mapped log.

    Attributes:
        records: The records; what is none is an empty one.
        context: The input.
        odd: bool[n], records that ``readers.mapped`` has to read one by one: every one that it may reject, and some
            that are merely rare. Of the others everything here is what it would have made of them.
        columns: Values by field of ``Row``; of fields that are not here every row has the default.
        ids: Block or token ids, where a map has any.
        parts: What prompts are made of, where a map has that.
        texts: Prompts as text, where a map has that.
    """

    records: list[dict[str, Any]]
    context: Context
    odd: NDArray[np.bool_]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    ids: IdLists | None = None
    parts: PartLists | None = None
    texts: list[Any] | None = None

    @classmethod
    def of(cls, values: Sequence[Any], context: Context, taken: TakenIds | None = None) -> MappedColumns:
        """Read records.

        Args:
            values: Any JSON values.
            context: An input that is ``in_columns``.
            taken: Ids of the records that are not in the values, which have an empty list in their place.
        """
        assert context.plan is not None
        odd = np.array([type(value) is not dict for value in values], np.bool_)
        found = cls([value if type(value) is dict else {} for value in values], context, odd)
        found._times(context.plan)
        found._names(context.plan)
        found._counts(context.plan)
        found._path(context.plan, taken)
        found._rest(context.plan)
        found._overrides()
        return found

    def runs(self) -> list[tuple[int, int]]:
        """Return where runs of records begin and end that are odd, or are not."""
        edges = np.flatnonzero(self.odd[1:] != self.odd[:-1]) + 1
        return list(pairwise([0, *edges.tolist(), self.odd.size]))

    def add_to(self, batch: Batch, begin: int, end: int) -> None:
        """Append some rows, none of which is odd, to a batch.

        Args:
            batch: The batch; the fates of the rows are not yet in it.
            begin: First row.
            end: Row behind the last.
        """
        n_rows, first = end - begin, len(batch.rows)
        record = len(batch.fates)
        keyed = np.zeros(n_rows, np.bool_)
        n_ids = n_tokens = np.full(n_rows, -1, np.int64)
        if self.ids is not None:
            if self.ids.kind == "block_ids":
                n_ids = self.ids.add_to(batch, begin, end)
            else:
                n_tokens = self.ids.add_to(batch, begin, end)
            keyed = self.ids.counts[begin:end] >= 0
        if self.parts is not None:
            self.parts.add_to(batch.text, begin, end, first, self.context.text)
        for at, parts in enumerate(self.texts[begin:end] if self.texts is not None else ()):
            if parts:
                started_us = self.columns["started_us"][begin + at]
                batch.text.add(first + at, parts, self.context.text, started_us, hashed=True)
                keyed[at] = True
        block_size = self.context.block_size or self.context.fallback_block_size
        batch.block_sizes.frombytes((keyed * block_size).astype(np.int64).tobytes())
        batch.id_counts.frombytes(n_ids.tobytes())
        batch.token_counts.frombytes(n_tokens.tobytes())
        batch.row_records.extend(range(record, record + n_rows))
        self._add_names(batch, begin, end)
        given = (self.columns.get(name) for name in ROW_FIELDS)
        defaults = (getattr(_ABSENT, name) for name in ROW_FIELDS)
        batch.rows.extend(
            zip(
                *(
                    repeat(default, n_rows) if column is None else column[begin:end]
                    for column, default in zip(given, defaults, strict=True)
                ),
                strict=True,
            )
        )

    def _add_names(self, batch: Batch, begin: int, end: int) -> None:
        n_rows = end - begin
        none = [None] * n_rows
        providers, requests = (
            self.columns[name][begin:end] if name in self.columns else none
            for name in ("provider", "request_id")
        )
        pairs = zip(providers, requests, strict=True)
        batch.id_hashes += b"".join([id_hash(self.context.format, *pair) for pair in pairs])
        batch.retry_hashes += bytes(16 * n_rows)
        batch.answered += bytes([request is not None for request in requests])

    def _times(self, plan: MapPlan) -> None:
        local = [False] * len(self.records)
        for name, column in plan.times:
            us, known = self._moments(column)
            if name == "started_at":
                self.odd |= [moment is None for moment in us]
                us = [0 if moment is None else moment for moment in us]
            if known is not None:
                local = [before or not one for before, one in zip(local, known, strict=True)]
            self.columns[{"started_at": "started_us"}.get(name, name.removesuffix("_at") + "_us")] = us
        self.columns["local_clock"] = local
        started = self.columns["started_us"]
        if plan.duration is not None:
            spans = self._spans(plan.duration)
            told = self.columns.get("finished_us", [None] * len(spans))
            self.columns["finished_us"] = [
                end if span is None else start + span
                for start, span, end in zip(started, spans, told, strict=True)
            ]
        for name in ("admitted_us", "first_token_us", "finished_us"):
            if name in self.columns:
                pairs = zip(started, self.columns[name], strict=True)
                self.odd |= [
                    later is not None and not 0 <= later - start <= MAX_SPAN_US for start, later in pairs
                ]

    def _moments(self, plan: FieldPlan) -> tuple[list[int | None], list[bool] | None]:
        """Return microseconds, and whether the zone of each is known; None: of all of them."""
        values = self._values(plan)
        there = [value for value in values if value is not None]
        us = _zoned(there) if plan.unit == "iso" else _whole_us(there, plan.unit, LAST_ABSOLUTE_US - 1)
        if us is not None:
            return _spread(us, values), None
        pairs = self._each(values, lambda value: cell_time_us(value, plan, plan.source))
        return [pair and pair[0] for pair in pairs], [pair is None or pair[1] for pair in pairs]

    def _spans(self, plan: FieldPlan) -> list[int | None]:
        values = self._values(plan)
        us = _whole_us([value for value in values if value is not None], plan.unit, MAX_SPAN_US)
        if us is not None:
            return _spread(us, values)
        return self._each(
            values, lambda value: span_us(cell_number(value, plan.source), plan.unit, plan.source)
        )

    def _names(self, plan: MapPlan) -> None:
        for name, column in plan.texts:
            if column.value is not None:
                self.columns[name] = [column.value] * len(self.records)
                continue
            values = self._values(column)
            usual = set(map(type, values)) <= {str, NoneType}
            if not usual or max(map(len, filter(None, values)), default=0) > MAX_TEXT:
                values = self._each(values, partial(cell_text, name=name, limit=MAX_TEXT))
            self.columns[name] = values

    def _counts(self, plan: MapPlan) -> None:
        for name, column in plan.counts:
            values = self._values(column)
            if name == "cached_tokens_observed":
                self.columns["usage_state"] = [
                    "present" if value is not None else "null" if find(record, column)[0] else "absent"
                    for record, value in zip(self.records, values, strict=True)
                ]
            there = [value for value in values if value is not None]
            usual = set(map(type, there)) <= {int}
            if not usual or (there and not (min(there) >= 0 and max(there) <= MAX_TOKENS)):
                values = self._each(values, partial(cell_count, name=column.source))
            self.columns[COUNT_FIELDS.get(name, name)] = values

    def _path(self, plan: MapPlan, taken: TakenIds | None) -> None:
        n_rows = len(self.records)
        complete = [True] * n_rows
        if plan.prompt_complete is not None:
            named = partial(cell_bool, name=plan.prompt_complete.source)
            said = self._each(self._values(plan.prompt_complete), named)
            complete = [value is None or value for value in said]
        if plan.bypassed is not None:
            named = partial(cell_bool, name=plan.bypassed.source)
            self.columns["bypassed"] = self._each(self._values(plan.bypassed), named)
        prompts = self.columns.get("prompt_tokens", [None] * n_rows)
        lengths = np.array([-1 if tokens is None else tokens for tokens in prompts], np.int64)
        whole = np.array(complete, np.bool_)
        has_prompt = lengths >= 0
        if plan.path is not None and plan.path_kind in ("block_ids", "token_ids"):
            self.ids = IdLists.of(self._values(plan.path), plan.path.source, plan.path_kind, self.odd, taken)
            if plan.path_kind == "block_ids":
                self.ids.check_blocks(lengths, whole, self.context, self.odd)
            else:
                has_prompt |= self.ids.counts >= 0
                whole, lengths = self.ids.check_tokens(lengths, whole, self.odd)
            if plan.images is not None:
                self.odd |= [value is not None for value in self._values(plan.images)]
        elif plan.path is not None and plan.path_kind == "text":
            self.texts = self._each(self._values(plan.path), partial(prompt_parts, name=plan.path.source))
            has_prompt |= [bool(parts) for parts in self.texts]
        if plan.parts is not None:
            most = lengths if self.ids is None else self.ids.most_tokens(lengths)
            self.parts = PartLists.of(self._values(plan.parts), most, self.odd)
            has_prompt |= self.parts.counts > 0
        self.odd |= ~has_prompt
        self.columns["prompt_complete"] = whole.tolist()
        self.columns["prompt_tokens"] = [None if tokens < 0 else tokens for tokens in lengths.tolist()]
        cached = self.columns.get("cached_tokens")
        if cached is not None:
            most = np.where(lengths < 0, MAX_TOKENS, lengths)
            self.odd |= np.array([tokens or 0 for tokens in cached]) > most

    def _rest(self, plan: MapPlan) -> None:
        if plan.weight is not None:
            weights = self._each(self._values(plan.weight), partial(weight_of, name=plan.weight.source))
            self.columns["weight"] = [1.0 if weight is None else weight for weight in weights]
        if plan.status is not None:
            outputs = self.columns.get("output_tokens", [None] * len(self.records))
            pairs = zip(self._values(plan.status), outputs, strict=True)
            self.columns["status"] = self._each(
                pairs, lambda pair: status_of(pair[0], produced=bool(pair[1]))
            )
        used = plan.fields
        others: dict[tuple[str, ...], bool] = {}
        extras = []
        for record in self.records:
            names = tuple(record)
            if others.setdefault(names, not used.issuperset(names)):
                extras.append(extras_of(record, used))
            else:
                extras.append({})
        self.columns["extras"] = extras

    def _overrides(self) -> None:
        overrides = self.context.overrides
        for name, value in overrides.named:
            self.columns[name] = [value] * len(self.records)
        models = self.columns.get("model")
        if overrides.aliases and models is not None:
            called = [model if model is None else alias_of(model, overrides.aliases) for model in models]
            for extras, model, alias in zip(self.columns["extras"], models, called, strict=True):
                if model != alias:
                    extras[LOGGED_MODEL] = model
            self.columns["model"] = called

    def _values(self, plan: FieldPlan) -> list[Any]:
        """Return a field of every record, see ``cells.find``."""
        if len(plan.steps) > 1:
            return [find(record, plan)[1] for record in self.records]
        source = plan.source
        values: list[Any] = [record.get(source) for record in self.records]
        types = set(map(type, values))
        if str in types:
            texts: list[Any] = (
                values if len(types) == 1 else [value for value in values if type(value) is str]
            )
            if not NULLS.isdisjoint(map(str.strip, texts)):
                values = [
                    None if type(value) is str and value.strip() in NULLS else value for value in values
                ]
        return values

    def _each(self, values: Any, convert: Callable[[Any], Any]) -> list[Any]:
        """Return values one by one; None stays, and what cannot be converted makes its record odd."""
        made: list[Any] = []
        for value in values:
            if value is None:
                made.append(None)
                continue
            try:
                made.append(convert(value))
            except (BadRecordError, *UNFORESEEN):
                self.odd[len(made)] = True
                made.append(None)
        return made


def _zoned(texts: list[Any]) -> list[int] | None:
    """Return times that all name their zone; None where one does not, or cannot be read."""
    try:
        moments = map(datetime.fromisoformat, texts)
        us = [(moment - _EPOCH) // _US for moment in moments]
    except (TypeError, ValueError, OverflowError):  # no text, no time, no zone
        return None
    return us if not us or (min(us) >= 0 and max(us) < LAST_ABSOLUTE_US) else None


def _whole_us(numbers: list[Any], unit: str, most_us: int) -> list[int] | None:
    """Return numbers in microseconds; None where one is no whole number, negative or above the most."""
    factor = UNIT_US.get(unit, 0)
    if not factor or not set(map(type, numbers)) <= {int}:
        return None
    if numbers and not (min(numbers) >= 0 and max(numbers) * factor <= most_us):
        return None
    return [number * factor for number in numbers]


def _spread(made: list[int], values: list[Any]) -> list[int | None]:
    """Return what was made of all values that are there, with None where none is."""
    if len(made) == len(values):
        return list(made)
    rest = iter(made)
    return [None if value is None else next(rest) for value in values]
