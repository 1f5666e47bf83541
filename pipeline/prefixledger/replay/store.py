"""Keeps a replay in its folder: whole or not at all, and never used once what it was made from has changed."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError

from prefixledger.config.scenario import Scenario
from prefixledger.errors import UsageError
from prefixledger.replay import summary
from prefixledger.workspace import write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from prefixledger.replay.summary import ReplaySummary

FINGERPRINT = "fingerprint.json"
SUMMARY = "summary.json"
SCENARIO = "scenario.toml"


def check_name(name: str) -> str:
    """Return a name that can also be that of a folder.

    Raises:
        UsageError: It cannot.
    """
    try:
        return Scenario(name=name).name
    except ValidationError as error:
        raise UsageError(
            f"{name!r} cannot name a replay",
            hint="it also names a folder: no slash, no dot in front, 1 to 100 letters",
        ) from error


def reuse(folder: Path, made_from: Mapping[str, str]) -> ReplaySummary | None:
    """Return the summary of the replay in a folder if it was made from exactly this, else None."""
    try:
        stored = json.loads((folder / FINGERPRINT).read_text(encoding="utf-8"))
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if stored.get("made_from") != made_from or not all((folder / name).is_file() for name in stored["files"]):
        return None
    return summary.from_json(found, folder)


def keep(
    folder: Path,
    made_from: Mapping[str, str],
    scenario_text: str,
    files: Mapping[str, pa.Table],
    found: ReplaySummary,
) -> None:
    """Put a replay in its folder, in the place of whatever was there.

    A folder beside it is filled first, so that a replay that is interrupted leaves the earlier one as it was;
    what later stages derived from the earlier one goes with it.

    Args:
        folder: Where it shall be.
        made_from: Its fingerprint.
        scenario_text: The scenario with every default.
        files: Name to table.
        found: Its summary.
    """
    with _replacing_folder(folder) as fresh:
        for name, table in files.items():
            write_table(fresh / name, table)
        (fresh / SCENARIO).write_text(scenario_text, encoding="utf-8")
        write_json(fresh / SUMMARY, summary.to_json(found))
        write_json(
            fresh / FINGERPRINT, {"made_from": dict(made_from), "files": sorted([*files, SCENARIO, SUMMARY])}
        )


@contextmanager
def _replacing_folder(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        fresh.mkdir()
        yield fresh
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    finally:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
