"""The verb ``compare``: two runs, or two periods, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefixledger.errors import InputError, Place, UsageError

if TYPE_CHECKING:
    from prefixledger.results import CompareResult


def compare(
    first: str | Path,
    second: str | Path,
    *,
    output: str | Path | None = None,
    force: bool = False,
) -> CompareResult:
    """Set two reports beside each other: what moved, whether that is good, and whether chance moves as much.

    Args:
        first: A workspace with a replay, which is taken over its default window; or the JSON twin of a kept report.
        second: The other one.
        output: An HTML page; None writes none.
        force: Replace a page that prefixledger did not write.

    Returns:
        The comparison, and where the page is.

    Raises:
        UsageError: One is neither, or a foreign file is in the way.
        InputError: One cannot be read.
    """
    from prefixledger.report.comparison import comparison
    from prefixledger.report.comparison_page import check_page, write_comparison
    from prefixledger.results import CompareResult

    page = None if output is None else Path(output)
    if page is not None:
        check_page(page, force=force)
    twins = (_twin(Path(first)), _twin(Path(second)))
    found = comparison(*twins)
    if page is not None:
        write_comparison(found, twins, (Path(first).name, Path(second).name), page)
    return CompareResult(found, page, twins)


def _twin(place: Path) -> dict[str, Any]:
    """Return a report as JSON values: read, or made of the replay that was asked for last."""
    if place.is_dir():
        return _of_workspace(place)
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
    return values


def _of_workspace(folder: Path) -> dict[str, Any]:
    from prefixledger import report
    from prefixledger.attribute.explain import choose_replay
    from prefixledger.attribute.window import default_window
    from prefixledger.replay.summary import from_json
    from prefixledger.report.twin import twin
    from prefixledger.running import running
    from prefixledger.workspace import Workspace

    workspace = Workspace(folder)
    name = choose_replay(workspace, None)
    kept = workspace.replay(name)
    summary = from_json(json.loads((kept / "summary.json").read_text(encoding="utf-8")), kept)
    with running(workspace, "compare", force=False):
        try:
            view = report.build(workspace, [summary], default_window(workspace))
        except FileNotFoundError as error:
            raise UsageError(
                f"the replay {name!r} lacks a file that this version reads: another version made it",
                place=Place(str(folder)),
                hint="run prefixledger replay again",
            ) from error
    return dict(twin(view))
