"""What block ids prove of a changed key, and no more: ids that mean the same everywhere, and ids that name content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from prefixledger import api

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 16
MAP = """
format = "jsonl"
block_size = 16
id_scope = "{0}"
[columns]
started_at = {{ from = "ts", unit = "s" }}
request_id = "id"
model = "model"
adapter = "adapter"
cache_salt = "salt"
namespace = "space"
prompt_tokens = "n"
block_ids = "ids"
"""


def ids(name: int, count: int) -> list[int]:
    """Return ids that no other name has."""
    return [1_000 * name + number for number in range(count)]


def blamed(folder: Path, rows: list[dict[str, Any]], scope: str) -> list[tuple[Any, ...]]:
    """Replay rows and return request, detail, tokens and the request before of what is blamed on changed keys."""
    folder.mkdir()
    for number, row in enumerate(rows):
        row |= {"id": f"q{number}", "ts": 1_790_000_000 + 60 * number, "n": len(row["ids"]) * BLOCK + 3}
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "map.toml").write_text(MAP.format(scope), encoding="utf-8")
    api.replay([folder / "log.jsonl"], map=folder / "map.toml", workspace=folder / "workspace", jobs=1)
    (file,) = (folder / "workspace" / "replays").glob("*/misses.parquet")
    names = ("request_id", "detail", "tokens", "previous_request_id")
    return [
        tuple(row[name] for name in names)
        for row in pq.read_table(file).to_pylist()
        if row["cause"] == "key_changed"
    ]


@pytest.mark.parametrize("scope", ["global", "file"])
def test_ids_of_global_scope_are_known_again_in_another_namespace(tmp_path: Path, scope: str) -> None:
    """The field that differs is named against the nearest prompt that had them; local ids prove nothing."""
    shared = ids(1, 20)
    rows: list[dict[str, Any]] = [
        {"model": "m", "ids": shared},
        {"model": "n", "ids": shared + ids(2, 3)},  # another model
        {"model": "m", "salt": "x", "ids": shared + ids(3, 4)},  # a salt, though a model had them last
        {"model": "m", "salt": "x", "ids": ids(4, 20)},  # new content there
        {"model": "m", "adapter": "a", "ids": shared[:2] + ids(5, 9)},  # two blocks prove nothing
        {"model": "m", "space": "z", "ids": shared[:5] + ids(6, 9)},
        {"model": "n", "ids": shared + ids(7, 3)},  # served there before
    ]
    expected = [
        ("q1", "model_changed", 20 * BLOCK, "q0"),
        ("q2", "namespace_split", 20 * BLOCK, "q0"),
        ("q5", "namespace_split", 5 * BLOCK, "q2"),
    ]
    assert blamed(tmp_path / scope, rows, scope) == (expected if scope == "global" else [])


def test_ids_of_content_are_known_again_behind_other_blocks(tmp_path: Path) -> None:
    """To the block: what is new before them is new; a block or two prove nothing, nor does new content at the tail."""
    shared = ids(1, 20)
    rows: list[dict[str, Any]] = [
        {"ids": ids(2, 1) + shared + ids(3, 2)},
        {"ids": ids(4, 1) + shared + ids(5, 2)},  # another first block
        {"ids": ids(4, 1) + shared + ids(6, 9)},  # new at the tail
        {"ids": ids(7, 1) + ids(6, 2) + ids(8, 3)},
        {"ids": ids(9, 6) + shared[5:10]},  # more is new than is known again
        {"ids": ids(10, 3) + shared[5:10]},
    ]
    assert blamed(tmp_path / "content", rows, "file") == [
        ("q1", "prefix_edited", 20 * BLOCK, "q0"),
        ("q5", "prefix_edited", 5 * BLOCK, "q4"),
    ]
