"""Makes up conversations as they are logged, replays them, and returns what became of them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from prefixledger import api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BLOCK = 16
START = datetime(2026, 11, 20, 9, 59, tzinfo=UTC)
MAP = """
format = "jsonl"
block_size = {1}
[columns]
started_at = {{ from = "ts", unit = "iso" }}
request_id = "id"
tenant = "tenant"
session_id = "session"
model = "model"
cache_salt = "salt"
{0}
"""
WORDS = [
    "alpha",
    "river",
    "stone",
    "table",
    "green",
    "window",
    "paper",
    "light",
    "cloud",
    "engine",
    "market",
    "silver",
    "north",
    "garden",
    "simple",
]


def at(turn: int) -> datetime:
    """Return when a turn is asked, 37 s after the one before."""
    return START + timedelta(seconds=37 * turn)


def words(count: int, seed: str) -> str:
    """Return text that depends on the seed alone."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) + draw.choice(("", "s", "ed", "ing")) for _ in range(count))


def tools(tenant: str) -> list[dict[str, Any]]:
    """Return three tools."""
    return [
        {"name": f"tool_{n}", "description": words(40, f"{tenant}tool{n}"), "strict": True} for n in range(3)
    ]


def talk(
    tenant: str, system: Callable[[int, str], str], n_turns: int = 5, **more: Any
) -> list[dict[str, Any]]:
    """Return a conversation: each turn has the system text of its moment, all turns before, and a new question."""
    rows, history = [], []
    text = words(400, tenant)
    for turn in range(n_turns):
        history = [*history, {"role": "user", "content": words(20, f"{tenant}u{turn}")}]
        body = {"system": system(turn, text), "messages": [dict(message) for message in history]}
        rows.append(
            {
                "ts": at(turn).isoformat(),
                "tenant": tenant,
                "session": tenant,
                "body": body,
                "model": "m",
                **more,
            }
        )
        history = [*history, {"role": "assistant", "content": words(50, f"{tenant}a{turn}")}]
    return rows


def plain(_turn: int, text: str) -> str:
    """Return a system text that never changes."""
    return text


def replayed(
    folder: Path, rows: list[dict[str, Any]], path: str, block_size: int = BLOCK
) -> list[dict[str, Any]]:
    """Replay a log and return its misses with the tenant of each."""
    rows = sorted(rows, key=lambda row: row["ts"])
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "map.toml").write_text(MAP.format(path, block_size), encoding="utf-8")
    workspace = folder / "workspace"
    api.replay([folder / "log.jsonl"], map=folder / "map.toml", workspace=workspace, jobs=1)
    (file,) = (workspace / "replays").glob("*/misses.parquet")
    tenant = {row["id"]: row["tenant"] for row in rows}
    return [{"tenant": tenant[row["request_id"]], **row} for row in pq.read_table(file).to_pylist()]


def of(misses: list[dict[str, Any]], tenant: str) -> list[dict[str, Any]]:
    """Return what is blamed on changes in one conversation."""
    return [row for row in misses if row["tenant"] == tenant and row["cause"] == "key_changed"]
