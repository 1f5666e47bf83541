"""Brings every time of an input onto UTC: finds years that are not written, takes zones off, sets conversations apart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prefixledger.ingest.clock import conversation_offsets
from prefixledger.ingest.years import year_shifts
from prefixledger.ingest.zones import zone_offsets, zone_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected

ZONE_STEP_US: Final = 15 * 60 * 1_000_000
"""Time zones differ by multiples of 15 minutes."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """What is known of years and zones beside the log itself.

    Attributes:
        file_us: When the input was last written to; None for a pipe.
        year: Year of the first time without one, stronger than ``file_us``.
        zone: Zone of times without one, stronger than what the log tells.
    """

    file_us: int | None = None
    year: int | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Dated:
    """The times of an input, found.

    Attributes:
        shift_us: int64[rows], what to add to every time of a row.
        facts: What records say of the engine, with line and time.
        zone: What local times were read as, in words.
        years: What years were found, in words; empty where all were written.
    """

    shift_us: NDArray[np.int64]
    facts: tuple[dict[str, Any], ...]
    zone: str
    years: str


def date_rows(collected: Collected, calendar: Calendar) -> Dated:
    """Find what to add to the times of an input.

    Args:
        collected: The input.
        calendar: What is known beside it.

    Raises:
        ValueError: It has times without a year, and nothing tells it.
    """
    rows, told = collected.rows, collected.links.facts
    record = np.array(rows.record, np.int64)
    logged = np.array(rows.started_us, np.int64)
    yearless = np.flatnonzero(np.frombuffer(bytes(rows.yearless), np.bool_))
    dated = [number for number, fact in enumerate(told) if fact.yearless and fact.at_us is not None]
    times = np.concatenate([logged[yearless], np.array([told[number].at_us for number in dated], np.int64)])
    places = np.concatenate([record[yearless], np.array([told[number].record for number in dated], np.int64)])
    order = np.argsort(places, kind="stable")
    found = np.zeros_like(times)
    found[order] = year_shifts(times[order], file_us=calendar.file_us, first_year=calendar.year)
    years = np.zeros_like(logged)
    years[yearless] = found[: yearless.size]
    local = np.frombuffer(bytes(rows.local), np.bool_)
    hint_us = _zone_us(collected)
    offsets = _offsets(logged + years, local, calendar.zone, hint_us)
    apart = conversation_offsets(np.array(rows.timeline, np.int64), collected.timelines)
    facts = []
    shift_of = dict(zip(dated, found[yearless.size :].tolist(), strict=True))
    for number, fact in enumerate(told):
        at_us = fact.at_us
        if at_us is not None and fact.yearless:
            at_us += shift_of[number]
        if at_us is not None and fact.local:
            at_us -= int(_offsets(np.array([at_us]), np.ones(1, np.bool_), calendar.zone, hint_us)[0])
        facts.append({**fact.said, "line": collected.records.line[fact.record], "at_us": at_us})
    return Dated(
        shift_us=apart + years - offsets,
        facts=tuple(facts),
        zone=_zone_words(collected, calendar.zone, hint_us),
        years=_year_words(times + found, calendar.year),
    )


def _offsets(
    local_us: NDArray[np.int64], is_local: NDArray[np.bool_], zone: str | None, hint_us: int
) -> NDArray[np.int64]:
    offsets = np.where(is_local, hint_us, 0)
    if zone is not None and is_local.any():
        offsets[is_local] = zone_offsets(local_us[is_local], zone)
    return offsets


def _zone_us(collected: Collected) -> int:
    """Return local time less UTC, as most of the rows say that know both."""
    hints = collected.zone_hints
    return min((-n, step) for step, n in hints.items())[1] * ZONE_STEP_US if hints else 0


def _zone_words(collected: Collected, zone: str | None, hint_us: int) -> str:
    if zone is not None:
        return f"{zone}, as asked"
    return zone_text(hint_us) + (
        ", by comparison with unix times" if collected.zone_hints else " (--zone says otherwise)"
    )


def _year_words(times_us: NDArray[np.int64], asked: int | None) -> str:
    if times_us.size == 0:
        return ""
    first, last = (datetime.fromtimestamp(int(us) / 1e6, UTC).year for us in (times_us.min(), times_us.max()))
    span = str(first) if first == last else f"{first} to {last}"
    return span + (", as asked" if asked is not None else ", by the time of the file (--year says otherwise)")
