"""Fields that ``prefixledger export`` adds to the Mooncake and Bailian forms, so that a trace replays as its log did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import maybe_number, maybe_text, wrong_type
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.times import span_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.records import Row

SPANS: Final = {"queue_ms": "admitted_us", "ttft_ms": "first_token_us", "duration_ms": "finished_us"}
"""Milliseconds from the start of a request."""
NAMES: Final = ("replica", "provider", "model")
COMPLETE: Final = "prompt_complete"
WEIGHT: Final = "weight"
ADDED: Final = frozenset({*SPANS, *NAMES, COMPLETE, WEIGHT})


def set_added(row: Row, record: Mapping[str, Any]) -> None:
    """Read what an export added to a record; a trace of somebody else has none of it.

    Args:
        row: Changed in place.
        record: The record.

    Raises:
        BadRecordError: A value cannot be what its name says.
    """
    if ADDED.isdisjoint(record):
        return
    for name in NAMES:
        setattr(row, name, maybe_text(record, name))
    for name, field in SPANS.items():
        if record.get(name) is not None:
            setattr(row, field, row.started_us + span_us(record[name], "ms", name))
    complete = record.get(COMPLETE, True)
    if not isinstance(complete, bool):
        raise wrong_type(COMPLETE, complete, "true or false")
    row.prompt_complete = complete
    weight = maybe_number(record, WEIGHT)
    if weight is not None and weight <= 0:
        raise BadRecordError(f"absurd number: {WEIGHT} is {weight}")
    row.weight = 1.0 if weight is None else float(weight)
