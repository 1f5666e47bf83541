"""When a call began and ended, from its envelope, its answer and the headers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import maybe_number
from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.times import check_order, span_us

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.exchange import Exchange
    from prefixledger.ingest.records import Row

STARTS: Final = (
    "started_at", "start_time", "request_start", "request_start_time", "request_created_at", "request_time",
    "request_timestamp", "requested_at", "received_at", "arrived_at", "arrival_time", "ts", "timestamp", "time",
    "created_at", "datetime", "logged_at", "@timestamp", "logging_time", "time_generated",
)  # fmt: skip
ENDS: Final = ("finished_at", "end_time", "ended_at", "completed_at", "response_created_at", "finish_time")
_SPANS: Final = (
    *((name, "ms") for name in (
        "latency_ms", "duration_ms", "elapsed_ms", "took_ms", "total_time_ms", "response_time_ms", "delay_ms",
        "request_duration_ms", "openai_processing_ms")),
    *((name, "s") for name in ("latency_s", "duration_s", "elapsed_s", "latency_seconds", "duration_seconds")),
)  # fmt: skip
_FIRSTS: Final = (("ttft_ms", "ms"), ("time_to_first_token_ms", "ms"), ("ttft_s", "s"), ("ttft", "s"))
_OWN: Final = ("created", "created_at", "createTime", "create_time")
TIME_NAMES: Final = frozenset({*STARTS, *ENDS, "date", *(name for name, _ in (*_SPANS, *_FIRSTS))})
"""Names of envelope fields that are read here."""


def set_times(row: Row, exchange: Exchange) -> None:
    """Set start and end: the envelope's, else the answer's own, else the date of its headers, else none.

    The envelope of an answer that was fetched later says when it was fetched, which is neither.

    Raises:
        BadRecordError: A time cannot be read, or the end lies before the start.
    """
    start, known = (None, True) if row.part == "answer" else _moment(exchange.envelope, STARTS)
    end, _ = _moment(exchange.envelope, ENDS)
    span = _span(exchange, _SPANS)
    answer = exchange.answer or {}
    if start is None and end is not None and span is not None:
        start, row.rough_start = end - span, True
    if start is None:
        start, known = _moment(answer, _OWN)
    if start is None and end is None:
        start, known = _moment(exchange.envelope, ("date",))
        row.rough_start = start is not None
    if start is None:
        start, row.rough_start = end, True
    row.rough_start = row.rough_start or row.part == "answer"
    row.untimed = start is None
    row.started_us = 0 if start is None else start
    row.local_clock = start is not None and not known
    row.finished_us = end if end is not None and start is not None else None
    if row.finished_us is None and span is not None:
        row.finished_us = row.started_us + span
    first = _span(exchange, _FIRSTS)
    row.first_token_us = None if first is None else row.started_us + first
    check_order(row.started_us, row.finished_us, "the end")


def _moment(held: Mapping[str, Any], names: tuple[str, ...]) -> tuple[int | None, bool]:
    """Return the first field that is a time; a number that is none, such as the ``request_time`` of nginx, is passed by.

    Raises:
        BadRecordError: Some field is there, and none is a time.
    """
    fault: BadRecordError | None = None
    for name in names:
        value = held.get(name)
        if value not in (None, "") and not isinstance(value, (dict, list, bool)):
            try:
                return moment_us(value, name)
            except BadRecordError as bad:
                fault = fault or bad
    if fault is not None:
        raise fault
    return None, True


def _span(exchange: Exchange, names: tuple[tuple[str, str], ...]) -> int | None:
    for name, unit in names:
        value = exchange.said(name)
        if isinstance(value, str) and value.replace(".", "", 1).isdecimal():
            value = float(value)
        number = maybe_number({name: value}, name) if not isinstance(value, str) else None
        if number is not None:
            return span_us(number, unit, name)
    return None
