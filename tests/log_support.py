"""What readers of logs make of a few records, and what tests say of times and maps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ingest_support import Result, ingest, write_lines

if TYPE_CHECKING:
    from pathlib import Path
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON_MS = 1_795_953_600_000  # 2026-11-29T12:00:00Z


NOON_S = 1_795_953_600
LENGTHS = 'started_at = { from = "ts", unit = "s" }\nprompt_tokens = "n"\n'


def micros(moment: datetime) -> int:
    """Return a moment as microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def ingest_rows(tmp_path: Path, rows: list[Any], name: str = "log.jsonl", **options: Any) -> Result:
    """Read a log of these rows."""
    return ingest(tmp_path / "ws", write_lines(tmp_path / name, rows), **options)


def map_plan(tmp_path: Path, text: str, name: str = "plan.toml") -> Path:
    """Write a map file."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
