"""The verb ``compare``: two runs, or two periods, side by side."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from prefixledger.errors import InputError, Place, UsageError
from prefixledger.mirror import workspace_at
from prefixledger.objects import is_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.attribute.window import Window
    from prefixledger.results import CompareResult
    from prefixledger.workspace import Workspace

    Period = tuple[int | None, int | None]
    """First microsecond, and first behind; None as for a report."""
    Twins = tuple[dict[str, Any], dict[str, Any]]

MOST_PERIODS = 2


def compare(
    first: str | Path,
    second: str | Path | None = None,
    *,
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    tz: str = "UTC",
    output: str | Path | None = None,
    force: bool = False,
) -> CompareResult:
    """Set two reports beside each other: what moved, whether that is good, and whether chance moves as much.

    Args:
        first: A workspace with a replay, or the JSON twin of a kept report.
        second: The other one; None compares two periods of the first, which is a workspace then: the period and the one
            before it that is as long.
        from_: First moment of the period, ISO 8601; of two, that of each. Without any it is the default window of a
            workspace.
        to: First moment after the period, or after each; None is the end of the log.
        tz: Zone of the default window, and of times that name none.
        output: An HTML page; None writes none.
        force: Replace a page that prefixledger did not write.

    Returns:
        The comparison, and where the page is.

    Raises:
        UsageError: One is neither, a period cannot be used, or a foreign file is in the way.
        InputError: One cannot be read, or is of another version.
    """
    from prefixledger.report.comparison import comparison
    from prefixledger.report.comparison_page import check_page, write_comparison
    from prefixledger.results import CompareResult

    page = None if output is None else Path(output)
    if page is not None:
        check_page(page, force=force)
    periods = _periods(from_, to, tz)
    asked = (first, first if second is None else second)
    places = tuple(workspace_at(one).root if is_url(one) else Path(one) for one in asked)
    if second is None:
        twins = _of_periods(places[0], periods, tz)
    else:
        each = (periods * 2)[:2] or [(None, None)] * 2
        twins = (_twin(places[0], each[0], tz), _twin(places[1], each[1], tz))
    found = comparison(*twins)
    if page is not None:
        names = tuple(str(one).rstrip("/").rpartition("/")[2] for one in asked)
        write_comparison(found, twins, (names[0], names[1]), page)
    return CompareResult(found, page, twins)


def _periods(from_: str | Sequence[str], to: str | Sequence[str], tz: str) -> list[Period]:
    """Return what was asked for, as microseconds.

    Raises:
        UsageError: There are more than two, a time or the zone is none, or two begin and only one ends.
    """
    from prefixledger.config.units import parse_time_us

    begins, ends = ([given] if isinstance(given, str) else list(given) for given in (from_, to))
    most = max(len(begins), len(ends))
    if most > MOST_PERIODS or (most == MOST_PERIODS and len(begins) != len(ends)):
        raise UsageError(
            f"{len(begins)} times --from and {len(ends)} times --to are not two periods",
            hint="give each once for one period, or each twice: --from A --to B --from C --to D",
        )
    try:
        zone = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {tz!r}", hint='write "UTC", "Europe/Berlin" …') from error
    firsts, lasts = ([parse_time_us(text, zone) for text in texts] for texts in (begins, ends))
    return list(zip_longest(firsts, lasts))


def _of_periods(folder: Path, periods: list[Period], tz: str) -> Twins:
    """Return two periods of one workspace.

    Raises:
        UsageError: It is no workspace, or the log does not hold the period before the one that was asked for.
    """
    from prefixledger.attribute.window import default_window, whole_log
    from prefixledger.workspace import Workspace

    if not folder.is_dir():
        raise UsageError(
            "one report has one period", place=Place(str(folder)), hint="name a workspace, or a second report"
        )
    workspace = Workspace(folder)
    if len(periods) == MOST_PERIODS:
        return _of_workspace(workspace, periods[0], tz), _of_workspace(workspace, periods[1], tz)
    _check_replayed(workspace)
    from_us, to_us = periods[0] if periods else (None, None)
    stretch = default_window(workspace, zone=tz, from_us=from_us, to_us=to_us)
    log = whole_log(workspace)
    begin_us = _as_long_before(stretch, tz)
    if begin_us < log.from_us:
        raise UsageError(
            f"the log begins at {_told(log.from_us)}: it does not hold the period before {_told(stretch.from_us)} that is as long",
            hint="name both periods: --from A --to B --from C --to D",
        )
    before = (begin_us, stretch.from_us)
    return _of_workspace(workspace, before, tz), _of_workspace(
        workspace, (stretch.from_us, stretch.to_us), tz
    )


def _as_long_before(stretch: Window, tz: str) -> int:
    """Return where the period before begins: as many days earlier in local time where it is whole days, for days may have 23 hours."""
    from prefixledger.config.units import datetime_us, us_datetime

    zone = ZoneInfo(tz)
    begin, end = (
        us_datetime(at).astimezone(zone).replace(tzinfo=None) for at in (stretch.from_us, stretch.to_us)
    )
    return datetime_us((begin - (end - begin)).replace(tzinfo=zone))


def _told(at_us: int) -> str:
    from prefixledger.report.numbers import iso

    return iso(at_us)


def _twin(place: Path, period: Period, tz: str) -> dict[str, Any]:
    """Return a report as JSON values: read, or made of the replay that was asked for last."""
    if place.is_dir():
        from prefixledger.workspace import Workspace

        return _of_workspace(Workspace(place), period, tz)
    if period != (None, None):
        raise UsageError(
            "a report that is kept has its period",
            place=Place(str(place)),
            hint="leave out --from and --to, or name workspaces",
        )
    from prefixledger.report.twin import check_form

    try:
        values = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"it cannot be read: {error.strerror or error}",
            place=Place(str(place)),
            hint="name a workspace, or the .json beside a report",
        ) from error
    except ValueError as error:
        raise InputError(
            "it is no JSON", place=Place(str(place)), hint="name the .json beside a report"
        ) from error
    if not isinstance(values, dict) or "schema_version" not in values or "timeline" not in values:
        raise UsageError(
            "it is not the JSON twin of a report",
            place=Place(str(place)),
            hint="name the .json beside a report",
        )
    check_form(values, place)
    return values


def _check_replayed(workspace: Workspace) -> None:
    """Refuse a workspace without a replay before its window is looked for.

    Raises:
        UsageError: It has none.
    """
    from prefixledger.attribute.explain import choose_replay

    choose_replay(workspace, None)


def _of_workspace(workspace: Workspace, period: Period, tz: str) -> dict[str, Any]:
    from prefixledger.attribute.explain import choose_replay
    from prefixledger.attribute.window import default_window
    from prefixledger.replay.summary import from_json
    from prefixledger.report import stage as report
    from prefixledger.report.twin import twin
    from prefixledger.running import running

    name = choose_replay(workspace, None)
    kept = workspace.replay(name)
    summary = from_json(json.loads((kept / "summary.json").read_text(encoding="utf-8")), kept)
    with running(workspace, "compare", force=False):
        try:
            stretch = default_window(workspace, zone=tz, from_us=period[0], to_us=period[1])
            view = report.build(workspace, [summary], stretch)
        except FileNotFoundError as error:
            raise InputError(
                f"the replay {name!r} lacks some of its files",
                place=Place(str(workspace.root)),
                hint="run prefixledger replay again",
            ) from error
    return dict(twin(view))
