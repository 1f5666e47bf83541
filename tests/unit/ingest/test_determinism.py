"""The bytes of a workspace depend on the bytes of its inputs and the choices, and on nothing else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, mooncake, tree, write_lines

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "mooncake_blksz_16.jsonl",
    "bailian_blksz_16.jsonl",
    "dynamo.jsonl",
    "sglang.jsonl",
    "azure_lengths.csv",
]


def _mixed(folder: Path) -> Path:
    """A log with everything in it: rejects of both kinds, labels, duplicates, a stretch, a cut end."""
    draw = random.Random(5)
    rows: list[Any] = [
        mooncake(
            at,
            [draw.randrange(3), 10 + draw.randrange(9)],
            **({"kind": draw.choice("abc"), "n": at} if at % 400 > 200 else {}),
        )
        for at in range(1_500)
    ]
    rows[100:100] = [b"{", {"timestamp": 1}, mooncake(10**12 * 1.7, [1])]
    rows += rows[200:1_300]
    path = write_lines(folder / "mixed_blksz_16.jsonl", rows)
    path.write_bytes(path.read_bytes() + b'{"timest')
    return path


@pytest.mark.parametrize("name", [*NAMES, "mixed"])
def test_chunk_size_changes_no_byte(tmp_path: Path, name: str) -> None:
    """From one record at a time to the whole file at once."""
    path = _mixed(tmp_path) if name == "mixed" else FIXTURES / name
    trees = []
    for chunk_bytes in (1, 777, 100_000, 1 << 24):
        ingest(tmp_path / str(chunk_bytes), path, chunk_bytes=chunk_bytes)
        trees.append(tree(tmp_path / str(chunk_bytes)))
    assert trees[0]
    assert all(other == trees[0] for other in trees[1:])


def test_jobs_change_no_byte(tmp_path: Path) -> None:
    """One process or three, with several files in a call."""
    paths = [FIXTURES / name for name in NAMES]
    plan: dict[str, Any] = {"t0": 86_400_000_000, "chunk_bytes": 2_000}
    ingest(tmp_path / "one", *paths, _mixed(tmp_path), **plan)
    ingest(tmp_path / "three", *paths, _mixed(tmp_path), jobs=3, **plan)
    assert tree(tmp_path / "one") == tree(tmp_path / "three")
    assert len(tree(tmp_path / "one")) > 10


def test_the_same_call_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """Another folder, another process state, the same workspace."""
    for name in ("a", "b"):
        ingest(tmp_path / name, FIXTURES / "weka.json", FIXTURES / "sglang.jsonl")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_a_permutation_changes_order_and_source_only(tmp_path: Path) -> None:
    """Shuffled lines give the same rows with the same paths, sessions, labels and joins."""
    for name in ("bailian_blksz_16.jsonl", "dynamo.jsonl", "sglang.jsonl"):
        lines = (FIXTURES / name).read_bytes().splitlines()
        random.Random(3).shuffle(lines)
        shuffled = write_lines(tmp_path / name, lines)
        plain, mixed = (
            ingest(tmp_path / f"{name}.a", FIXTURES / name),
            ingest(tmp_path / f"{name}.b", shuffled),
        )
        local = {"source", "source_line", "source_node", "content_node", "namespace"}

        def rows(result: Any, local: set[str] = local) -> list[Any]:
            told = [
                ({k: v for k, v in row.items() if k not in local}, result.labels(row))
                for row in result.requests
            ]
            return sorted(told, key=lambda pair: pair[0]["request_id"])

        assert rows(plain) == rows(mixed)
