"""Restarts, flushes, deploys and scalings: from the scenario or from a file beside the log."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from prefixledger.config.registry import EVENT_KINDS
from prefixledger.config.toml_file import (
    Part,
    TomlFile,
    checked,
    must_exist,
    near_hint,
    read_toml,
    refusal,
    validated,
)
from prefixledger.config.units import datetime_us, parse_time_us, us_datetime
from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_DIGITS = re.compile(r"[0-9]{1,9}")


def _time(value: object) -> datetime:
    if isinstance(value, datetime):
        return us_datetime(datetime_us(value))
    if isinstance(value, str):
        return us_datetime(checked(parse_time_us, value))
    raise refusal(f"{value!r} is not a time", 'write 2026-11-24T10:00:00Z, or "+90s" on a relative clock')


class Event(Part):
    """Something that happened to caches at a moment.

    Attributes:
        at: When, UTC; a time without zone is UTC.
        kind: One of ``registry.EVENT_KINDS``.
        replica: Name or glob of the replicas it happened to; None means all of them.
        namespace: For ``deploy``: the version whose keys are used from then on.
        replicas: For ``scale``: how many replicas there are from then on.
        pool: Name or glob of the pools it concerns; None means all of them.
        note: Free text shown beside it.
        force: For ``flush``: also while requests run.
    """

    at: Annotated[datetime, BeforeValidator(_time)]
    kind: Annotated[str, BeforeValidator(lambda kind: must_exist(str(kind), EVENT_KINDS, "event kind"))]
    replica: str | None = None
    namespace: str | None = None
    replicas: Annotated[int, Field(ge=0)] | None = None
    pool: str | None = None
    note: str | None = None
    force: bool = False

    @property
    def at_us(self) -> int:
        """Microseconds since 1970."""
        return datetime_us(self.at)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Event:
        if (self.kind == "scale") != (self.replicas is not None):
            raise refusal(
                "kind 'scale', and only that, takes replicas", 'write: kind = "scale", replicas = 4'
            )
        if self.kind == "scale" and self.replica is not None:
            raise refusal("a scale event concerns the pool, not one replica", "leave replica out")
        if self.namespace is not None and self.kind != "deploy":
            raise refusal("only kind 'deploy' takes a namespace", "leave namespace out")
        if self.force and self.kind != "flush":
            raise refusal("only kind 'flush' takes force", "leave force out")
        return self


class _EventFile(Part):
    event: Annotated[tuple[Event, ...], Field(strict=False)] = ()


def in_order(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return events by time; equal times keep the order they were given in."""
    return tuple(sorted(events, key=lambda event: event.at_us))


def load_events(path: Path) -> tuple[Event, ...]:
    """Read ``--events``: TOML (``[[event]]``), CSV with a header, or JSON lines; the ending of the name decides.

    Keys are those of ``Event``; an empty CSV field is an absent one.

    Returns:
        The events in order of time.

    Raises:
        UsageError: The file cannot be read, or an event in it is wrong; the place is its line.
    """
    kind = path.suffix.lower()
    if kind == ".toml":
        file = read_toml(path)
        return in_order(validated(_EventFile, file, file.data).event)
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows}
    if kind not in readers:
        hint = near_hint(kind, (".toml", *readers), "endings that are read")
        raise UsageError(
            f"events in {path.suffix or 'a file without an ending'} are not read",
            place=Place(str(path)),
            hint=hint,
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror or error}", place=Place(str(path))) from error
    except UnicodeDecodeError as error:
        raise UsageError("it is not UTF-8 text", place=Place(str(path)), hint="save it as UTF-8") from error
    return in_order(tuple(_event(row, str(path), line) for line, row in readers[kind](text, str(path))))


def _event(row: dict[str, Any], path: str, line: int) -> Event:
    # One row is a document of its own, all of whose keys stand on the same line.
    places: dict[tuple[str | int, ...], tuple[int, int]] = {(key,): (line, 1) for key in row}
    file = TomlFile(path, row, places)
    try:
        return validated(Event, file, row)
    except UsageError as error:
        raise UsageError(error.message, place=Place(path, line), hint=error.hint) from None


def _csv_rows(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        if None in row:
            raise UsageError("this row has more fields than the header", place=Place(path, reader.line_num))
        filled: dict[str, Any] = {
            key.strip(): value.strip() for key, value in row.items() if value and value.strip()
        }
        if _DIGITS.fullmatch(filled.get("replicas", "")):
            filled["replicas"] = int(filled["replicas"])
        if filled.get("force", "").lower() in ("true", "false"):
            filled["force"] = filled["force"].lower() == "true"
        yield reader.line_num, filled


def _json_rows(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(
                f"it is not JSON: {error.msg}", place=Place(path, number, error.colno)
            ) from error
        if not isinstance(row, dict):
            raise UsageError("an event must be a JSON object", place=Place(path, number))
        yield number, {key: value for key, value in row.items() if value is not None}
