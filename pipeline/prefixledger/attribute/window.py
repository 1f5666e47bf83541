"""Which part of the log a report is about, and how finely its time is cut."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.config.units import datetime_us, us_datetime
from prefixledger.errors import UsageError
from prefixledger.workspace import pruned_before_us, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from prefixledger.workspace import Workspace

MOST_BUCKETS = 200
_SECOND_US = 1_000_000
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of arrivals.

    Attributes:
        from_us: First microsecond since 1970.
        to_us: First microsecond behind it.
        zone: IANA name of the time zone it was chosen in.
        relative: Whether times are offsets from the start of the log.
        why: ``last whole ISO week``, ``last whole ISO week with lookups`` where later ones hold none, ``whole log`` or
            ``as asked``.
    """

    from_us: int
    to_us: int
    zone: str = "UTC"
    relative: bool = False
    why: str = "whole log"


def default_window(
    workspace: Workspace, *, zone: str = "UTC", from_us: int | None = None, to_us: int | None = None
) -> Window:
    """Choose the window of a workspace from its manifest; see ``choose_window``."""
    manifest = read_manifest(workspace)
    read = [source for source in manifest["sources"] if source["first_at_us"] is not None]
    return choose_window(
        _begin(manifest, read, from_us),
        max((source["last_at_us"] for source in read), default=-1),
        relative=any(source["clock"] == "relative" for source in read),
        zone=zone,
        from_us=from_us,
        to_us=to_us,
        latest_before=partial(_latest_lookup, workspace),
    )


def whole_log(workspace: Workspace, *, from_us: int | None = None, to_us: int | None = None) -> Window:
    """Return the window from the first arrival of a workspace to its last, or as asked; see ``choose_window``."""
    manifest = read_manifest(workspace)
    read = [source for source in manifest["sources"] if source["first_at_us"] is not None]
    first_us = _begin(manifest, read, from_us)
    last_us = max((source["last_at_us"] for source in read), default=-1)
    begin = first_us if from_us is None else from_us
    return choose_window(first_us, last_us, from_us=begin, to_us=to_us)


def _begin(manifest: Mapping[str, Any], read: Sequence[Mapping[str, Any]], from_us: int | None) -> int:
    """Return the first moment that can be reported on: that of the log, or where it was cut off.

    Raises:
        UsageError: An earlier one is asked for.
    """
    cut_us = pruned_before_us(manifest)
    first_us = min((source["first_at_us"] for source in read), default=0)
    if cut_us is not None and from_us is not None and from_us < cut_us:
        raise UsageError(
            f"what lies before {_iso(cut_us)} was pruned",
            hint=f"give --from {_iso(cut_us)} or a later moment",
        )
    return first_us if cut_us is None else max(first_us, cut_us)


def choose_window(
    first_us: int,
    last_us: int,
    *,
    relative: bool = False,
    zone: str = "UTC",
    from_us: int | None = None,
    to_us: int | None = None,
    latest_before: Callable[[int], int | None] | None = None,
) -> Window:
    """Choose what a report covers.

    Args:
        first_us: First arrival in the log, microseconds since 1970.
        last_us: Last arrival.
        relative: Whether the clock of the log is relative: it has no weeks.
        zone: IANA name; weeks begin on Monday at midnight there.
        from_us: Begin as asked; None is the begin of the log.
        to_us: First microsecond behind the window as asked; None is the end of the log.
        latest_before: Returns when the last lookup before a moment arrived, None where there is none; without it
            every week is taken to hold some.

    Returns:
        What was asked for, else the last ISO week with lookups wholly between first and last arrival, else the whole
        log: a report on a week in which nothing arrived would be empty.

    Raises:
        UsageError: There is no such time zone, or the window ends before it begins.
    """
    try:
        where = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UsageError(f"there is no time zone {zone!r}", hint='write "UTC", "Europe/Berlin" …') from error
    if from_us is not None or to_us is not None:
        begin = first_us if from_us is None else from_us
        end = last_us + 1 if to_us is None else to_us
        if end <= begin:
            raise UsageError(
                f"the window ends ({_iso(end)}) before it begins ({_iso(begin)})",
                hint=f"the log runs from {_iso(first_us)} to {_iso(last_us)}",
            )
        return Window(begin, end, zone, relative, "as asked")
    monday = None if relative else _monday(last_us, where)
    if monday is not None:
        latest_us = None if latest_before is None else latest_before(datetime_us(monday))
        full = monday if latest_us is None else _monday(latest_us, where) + timedelta(days=7)
        begin, end = (datetime_us(at) for at in (full - timedelta(days=7), full))
        if begin >= first_us and (latest_us is not None or latest_before is None):
            why = "last whole ISO week" if full == monday else "last whole ISO week with lookups"
            return Window(begin, end, zone, relative, why)
    return Window(first_us, last_us + 1, zone, relative, "whole log")


def bucket_us(window: Window) -> int:
    """Return the width of the timeline's slices in microseconds: at most 200 of them, of a round length."""
    length_us = max(0, window.to_us - window.from_us)
    for step_s in _STEPS_S:
        if step_s * _SECOND_US * MOST_BUCKETS >= length_us:
            return step_s * _SECOND_US
    day_us = _STEPS_S[-1] * _SECOND_US
    return -(-length_us // (day_us * MOST_BUCKETS)) * day_us


def days(window: Window) -> pa.Table:
    """Return the days that a window touches, in its zone: columns day (ISO date) and from_us, in order of time.

    A day may have 23 or 25 hours. Days of a relative clock are counted from 1970-01-01.
    """
    zone = UTC if window.relative else ZoneInfo(window.zone)
    day = us_datetime(window.from_us).astimezone(zone).date()
    last = us_datetime(max(window.from_us, window.to_us - 1)).astimezone(zone).date()
    found: list[tuple[str, int]] = []
    while day <= last:
        found.append((day.isoformat(), datetime_us(datetime(day.year, day.month, day.day, tzinfo=zone))))
        day += timedelta(days=1)
    return pa.table(
        {
            "day": pa.array([name for name, _ in found], pa.string()),
            "from_us": pa.array([from_us for _, from_us in found], pa.int64()),
        }
    )


def _latest_lookup(workspace: Workspace, before_us: int) -> int | None:
    """Return when the last request before a moment arrived that has keys or usage and did not fail.

    Days are read from the last one back, so a log without holes costs one or two of them.
    """
    last_day = f"date={us_datetime(before_us - 1):%Y-%m-%d}"
    for folder in sorted(workspace.requests.glob("date=*"), reverse=True):
        if folder.name > last_day:
            continue
        found = [_latest_of(path, before_us) for path in sorted(folder.glob("*.parquet"))]
        known = [at_us for at_us in found if at_us is not None]
        if known:
            return max(known)
    return None


def _latest_of(path: Path, before_us: int) -> int | None:
    table = pq.ParquetFile(path).read(["started_at", "keyed", "usage_state", "status"])
    asks = pc.or_(table["keyed"], pc.equal(table["usage_state"], "present"))
    started_us = table["started_at"].cast(pa.int64())
    asks = pc.and_(asks, pc.not_equal(table["status"], "failed"))
    latest = pc.max(started_us.filter(pc.and_(asks, pc.less(started_us, before_us)))).as_py()
    return None if latest is None else int(latest)


def _monday(at_us: int, zone: tzinfo) -> datetime:
    """Return the midnight in that zone at which the ISO week of a moment begins."""
    local = us_datetime(at_us).astimezone(zone)
    return datetime(local.year, local.month, local.day, tzinfo=zone) - timedelta(days=local.weekday())


def _iso(at_us: int) -> str:
    return us_datetime(at_us).astimezone(UTC).isoformat().replace("+00:00", "Z")
