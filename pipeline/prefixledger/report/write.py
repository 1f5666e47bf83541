"""Writes a report: the page, its JSON twin and the folder of tables, each whole or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefixledger.errors import Place, UsageError
from prefixledger.report.render import GENERATOR, html
from prefixledger.report.tables import tables
from prefixledger.report.twin import twin
from prefixledger.workspace import replacing, sweep_beside, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.report.view import ReportView

INDEX = "datapackage.json"
"""Lists the tables of the folder, written before them and after them; a folder with it is ours."""

_SUFFIXES = (".html", ".htm")
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Written:
    """Where a report is.

    Attributes:
        html: The page.
        json: Its twin.
        csv: The folder of tables.
        html_bytes: Size of the page.
        values: What the twin says.
    """

    html: Path
    json: Path
    csv: Path
    html_bytes: int
    values: dict[str, Any]


def write(view: ReportView, output: Path, *, force: bool = False, show_ids: bool = False) -> Written:
    """Write a report; what we wrote before is replaced.

    Args:
        view: The data.
        output: The page, ending in ``.html``; the twin and the tables go beside it, with the same stem.
        force: Also replace what somebody else wrote.
        show_ids: Give request ids whole.

    Raises:
        UsageError: The name does not fit, something of somebody else is in the way, or the place cannot be written.
    """
    written = check(output, force=force)
    values: dict[str, Any] = dict(twin(view, show_ids=show_ids))
    page = html(view, show_ids=show_ids)
    try:
        sweep_beside(written.html)
        sweep_beside(written.json)
        with replacing(written.html) as temporary:
            temporary.write_text(page, encoding="utf-8")
        write_json(written.json, values)
        _write_tables(written.csv, values, view.made.version)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written: {error.strerror or error}",
            place=Place(str(output)),
            hint="give another place with -o",
        ) from error
    return Written(written.html, written.json, written.csv, len(page.encode()), values)


def check(output: Path, *, force: bool = False) -> Written:
    """Say where a report would go, before any work is done.

    Raises:
        UsageError: See ``write``.
    """
    if output.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"{output.name!r} is no name for a report",
            place=Place(str(output)),
            hint="give a name that ends in .html; the .json and the .csv folder go beside it",
        )
    planned = Written(output, output.with_suffix(".json"), output.with_suffix(".csv"), 0, {})
    for path, ours in ((planned.html, _our_page), (planned.json, _our_twin), (planned.csv, _our_folder)):
        if not path.exists() and not path.is_symlink():
            continue
        if path.is_dir() != (path == planned.csv):
            kind = "a folder" if path.is_dir() else "a file"
            raise UsageError(
                f"{kind} of that name is in the way", place=Place(str(path)), hint="give another -o"
            )
        if not force and not ours(path):
            raise UsageError(
                "this was not written by prefixledger and is not replaced",
                place=Place(str(path)),
                hint="give another -o, or --force to replace it",
            )
    return planned


def _our_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'<meta name="generator" content="{GENERATOR}'.encode() in stream.read(_HEAD_BYTES)


def _our_twin(path: Path) -> bool:
    values = _read_json(path)
    return isinstance(values, dict) and "schema_version" in values and _made_by_us(values)


def _our_folder(path: Path) -> bool:
    values = _read_json(path / INDEX)
    held = (
        one for one in path.iterdir() if not (one.name.startswith(f".{INDEX}.") and one.suffix == ".part")
    )
    return not any(held) or (isinstance(values, dict) and _made_by_us(values))


def _made_by_us(values: dict[str, Any]) -> bool:
    return str(values.get("generator", "")).startswith(GENERATOR)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write_tables(folder: Path, values: dict[str, Any], version: str) -> None:
    """Write the tables, then the list of them; tables of an earlier report that are no more are removed."""
    found = [table for table in tables(values) if table.rows]
    before = _read_json(folder / INDEX)
    listed = before.get("resources", []) if isinstance(before, dict) else []
    index = {"name": "prefixledger-report", "generator": f"{GENERATOR} {version}"}
    resources = [
        {
            "path": table.name,
            "description": table.meaning,
            "fields": list(table.columns),
            "rows": len(table.rows),
        }
        for table in found
    ]
    folder.mkdir(parents=True, exist_ok=True)
    # First it says whose folder this is and what may be in it: the tables of a report that is cut off are still ours.
    new = [one for one in resources if one["path"] not in {old.get("path") for old in listed}]
    write_json(folder / INDEX, {**index, "resources": [*listed, *new]})
    for name in (INDEX, *(table.name for table in found)):
        sweep_beside(folder / name)
    for table in found:
        with replacing(folder / table.name) as temporary:
            temporary.write_bytes(table.text().encode())
    for name in sorted({str(one.get("path")) for one in listed} - {table.name for table in found}):
        if "/" not in name and name.endswith(".csv"):
            (folder / name).unlink(missing_ok=True)
    write_json(folder / INDEX, {**index, "resources": resources})
