"""Any CSV, Parquet or JSONL whose columns a map file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from prefixledger.ingest.cells import (
    cell_bool,
    cell_count,
    cell_ids,
    cell_images,
    cell_number,
    cell_parts,
    cell_text,
    cell_time_us,
    find,
)
from prefixledger.ingest.fields import MAX_TEXT, mapping
from prefixledger.ingest.json_text import loads
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, TextPart
from prefixledger.ingest.status import status_of
from prefixledger.ingest.times import check_order, span_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.plan import FieldPlan, MapPlan
    from prefixledger.ingest.reader import Context, Head

_MAX_LABEL: Final = 64
COUNT_FIELDS: Final = {
    "output_tokens": "output_tokens",
    "cached_tokens_observed": "cached_tokens",
    "cache_write_5m_tokens_observed": "cache_write_5m_tokens",
    "cache_write_1h_tokens_observed": "cache_write_1h_tokens",
    "cache_write_other_tokens_observed": "cache_write_other_tokens",
    "router_expected_tokens": "router_expected_tokens",
}


class MappedReader:
    """The map decides what a row has: token ids, block ids, text, or lengths alone."""

    info = FormatInfo(
        name="mapped",
        title="any JSONL, CSV or Parquet with a map file",
        shape="json",
        keys="as mapped",
        clock="absolute",
        id_scope="file",
        answers=("whatever its columns hold; see the map file",),
        lacks=("what no column holds",),
        fields=frozenset(),
        sample="token_ids.jsonl",
    )

    def recognise(self, head: Head) -> str | None:  # noqa: ARG002
        """Only a map file makes an input one of these."""
        return None

    def read(self, value: Any, context: Context) -> Row:
        """Turn one row into one row."""
        assert context.plan is not None
        return mapped_row(mapping(value), context.plan, columnar=context.shape == "table")


def mapped_row(record: Mapping[str, Any], plan: MapPlan, *, columnar: bool = False) -> Row:
    """Apply a map to one record.

    Args:
        record: The record, as a dict.
        plan: The map.
        columnar: True for Parquet and Arrow, where u64 may have been stored as negative i64.

    Raises:
        BadRecordError: A value is missing or cannot be what the map says it is.
    """
    row = Row(started_us=0, prompt_tokens=None)
    _set_times(row, record, plan)
    for name, field in plan.texts:
        text = _text(record, name, field)
        if text is not None:
            setattr(row, name, text)
    _set_counts(row, record, plan)
    _set_path(row, record, plan, columnar=columnar)
    if plan.parts is not None:
        parts = find(record, plan.parts)[1]
        length = len(row.token_ids) if row.prompt_tokens is None and row.token_ids else row.prompt_tokens
        row.text_parts = () if parts is None else cell_parts(parts, plan.parts.source, length)
    if plan.weight is not None:
        row.weight = weight_of(find(record, plan.weight)[1], plan.weight.source)
    if plan.status is not None:
        row.status = status_of(find(record, plan.status)[1], produced=bool(row.output_tokens))
    if row.prompt_tokens is None and row.token_ids is None and not row.text_parts:
        raise BadRecordError("missing field: prompt_tokens")
    row.extras = extras_of(record, plan.fields)
    return row


def _set_times(row: Row, record: Mapping[str, Any], plan: MapPlan) -> None:
    for name, field in plan.times:
        present, value = find(record, field)
        if value is None:
            if name == "started_at":
                raise BadRecordError(f"{'null' if present else 'missing'} field: {field.source}")
            continue
        us, known = cell_time_us(value, field, field.source)
        row.local_clock = row.local_clock or not known
        setattr(row, {"started_at": "started_us"}.get(name, name.removesuffix("_at") + "_us"), us)
    if plan.duration is not None:
        value = find(record, plan.duration)[1]
        if value is not None:
            length = cell_number(value, plan.duration.source)
            row.finished_us = row.started_us + span_us(length, plan.duration.unit, plan.duration.source)
    for name in ("admitted_us", "first_token_us", "finished_us"):
        check_order(row.started_us, getattr(row, name), name.replace("_us", "_at"))


def _text(record: Mapping[str, Any], name: str, field: FieldPlan) -> str | None:
    if field.value is not None:
        return field.value
    value = find(record, field)[1]
    return None if value is None else cell_text(value, name, MAX_TEXT)


def _set_counts(row: Row, record: Mapping[str, Any], plan: MapPlan) -> None:
    for name, field in plan.counts:
        present, value = find(record, field)
        if name == "cached_tokens_observed":
            row.usage_state = "present" if value is not None else "null" if present else "absent"
        if value is not None:
            setattr(row, COUNT_FIELDS.get(name, name), cell_count(value, field.source))


def _set_path(row: Row, record: Mapping[str, Any], plan: MapPlan, *, columnar: bool) -> None:
    if plan.prompt_complete is not None:
        value = find(record, plan.prompt_complete)[1]
        row.prompt_complete = value is None or cell_bool(value, plan.prompt_complete.source)
    if plan.bypassed is not None and (value := find(record, plan.bypassed)[1]) is not None:
        row.bypassed = cell_bool(value, plan.bypassed.source)
    if plan.path is None:
        return
    value = find(record, plan.path)[1]
    if value is None:
        return
    if plan.path_kind == "block_ids":
        row.block_ids = cell_ids(value, plan.path.source, signed=columnar)
    elif plan.path_kind == "token_ids":
        row.token_ids = cell_ids(value, plan.path.source)
        if plan.images is not None:
            images = find(record, plan.images)[1]
            row.images = () if images is None else cell_images(images, plan.images.source)
    else:
        row.text_parts = prompt_parts(value, plan.path.source)


def prompt_parts(value: Any, name: str) -> tuple[TextPart, ...]:
    """Return a prompt given as text, as a list of messages, or as the body of a request; also as JSON in a text."""
    found = value
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            found = loads(value)
        except orjson.JSONDecodeError:
            found = value
    if isinstance(found, list) and found and all(isinstance(one, dict) and "role" in one for one in found):
        return text_parts({"messages": found})
    if isinstance(found, dict) and any(
        isinstance(found.get(one), list) for one in ("messages", "contents", "input")
    ):
        return text_parts(found)
    text = cell_text(value, name, len(str(value)))
    return (TextPart("message", None, text.encode("utf-8", "surrogatepass")),)


def weight_of(value: Any, name: str) -> float:
    """Return how many requests a row stands for.

    Raises:
        BadRecordError: It is no number above zero.
    """
    if value is None:
        return 1.0
    weight = float(cell_number(value, name))
    if weight <= 0:
        raise BadRecordError(f"absurd number: {name} is {weight}")
    return weight


def extras_of(record: Mapping[str, Any], used: frozenset[str]) -> dict[str, Any]:
    """Return the fields that the map does not mention and that may become labels."""
    return {
        name: value
        for name, value in record.items()
        if name not in used
        and isinstance(value, (str, int))
        and value != ""
        and len(str(value)) <= _MAX_LABEL
    }
