"""One hash for each output: whatever the processes, the seed of hashes, the zone and the folder."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ingest_support import FIXTURES, mooncake, tree, write_lines
from prefixledger.attribute.session import Session
from prefixledger.ingest.chunks import CHUNK_BYTES
from prefixledger.workspace import write_table
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

N_ROWS = 130_000
"""Names of 17 bytes: more than the 1 MiB at which Parquet gives a dictionary up, more rows than a thread's share."""


def _cut(table: pa.Table, rows: int) -> pa.Table:
    return pa.concat_tables([table.slice(first, rows) for first in range(0, table.num_rows, rows)])


def test_a_table_in_other_chunks_is_the_same_file(tmp_path: Path) -> None:
    """As DuckDB cuts it by its threads; and a table without rows still has its columns."""
    names = [f"request-{at % 80_000:09d}" if at % 7 else None for at in range(N_ROWS)]
    table = pa.table({"request_id": names, "tokens": range(N_ROWS)})
    for number, cut in enumerate((table, _cut(table, 2_048), _cut(table, 999))):
        write_table(tmp_path / f"{number}.parquet", cut)
    write_table(tmp_path / "none.parquet", table.slice(0, 0))
    none, (first, *others) = tree(tmp_path).pop("none.parquet"), list(tree(tmp_path).values())[:3]
    assert len(first) > 1 << 18
    assert [other == first for other in others] == [True, True]
    assert b"request_id" in none


def test_shares_of_turns_are_the_same_in_every_order() -> None:
    """A sum of fractions is not: threads add up what they have in the order in which they end."""
    draw = random.Random(3)
    rows = [(at % 50, at, draw.randrange(1, 999), draw.randrange(999)) for at in range(2_000)]
    talk, at, prompt, hit = zip(*rows, strict=True)
    words = pa.array([None] * len(rows), pa.string())
    found = []
    for order in (1, -1):
        asked = pa.table(
            {
                "request_row": at[::order], "started_at": pa.array(at[::order], pa.timestamp("s", "UTC")),
                "conversation": talk[::order], "prompt_tokens": prompt[::order], "hit_tokens": hit[::order],
                "observed_hit_tokens": pa.nulls(len(rows), pa.int64()),
                "release": pa.array(["v1"] * len(rows)), "client": words, "model": words, "replica": words, "tenant": words,
            }
        )  # fmt: skip
        with Session(2) as session:
            sessions = pa.table({"request_row": at, "session_id": words})
            session.bind({"asked": asked, "sessions": sessions})
            session.run(["85_investigate/pairs"])
            found.append(session.table("pairs").to_pylist())
    assert found[0] == found[1]
    assert found[0][0]["pairs"] == 1_950


def _run(folder: Path, arguments: Sequence[str], seed: str, zone: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pipeline"), "PYTHONHASHSEED": seed, "TZ": zone}
    command = [sys.executable, "-m", "prefixledger", *arguments]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


@pytest.mark.slow
def test_every_output_has_one_hash(tmp_path: Path) -> None:
    """The workspace, the page, its twin and the tables: of a log read in several chunks, of text, of hosted calls."""
    draw = random.Random(8)
    rows = [
        mooncake(
            20 * at,
            [draw.randrange(4), *range(10**12 + 10 * at, 10**12 + 10 * at + draw.randrange(44))],
            kind=draw.choice("abc"),
        )
        for at in range(24_000)
    ]
    long = write_lines(tmp_path / "log_blksz_16.jsonl", rows)
    assert long.stat().st_size > CHUNK_BYTES
    scenario = tmp_path / "small.toml"
    scenario.write_text('name = "small"\n[cache]\ncapacity = "3000 blocks"\n', encoding="utf-8")
    engines = [long, FIXTURES / "sglang.jsonl", FIXTURES / "dynamo.jsonl", "--scenario", scenario]
    hosted_and_text = [FIXTURES / "litellm.jsonl", FIXTURES / "vllm_text.log", "--year", "2026"]
    trees = []
    for jobs, seed, zone in (("1", "0", "UTC"), ("3", "77", "Asia/Kathmandu")):
        folder = tmp_path / f"jobs{jobs}"
        for name, given in (("engines", engines), ("others", hosted_and_text)):
            report = ["report", *map(str, given), "--t0", "2026-11-24T10:00:00Z", "--jobs", jobs]
            _run(folder / name, report, seed, zone)
        # run.json tells of moments, processes and folders.
        trees.append({name: data for name, data in tree(folder).items() if not name.endswith("/run.json")})
    assert len(trees[0]) > 120
    assert trees[0].keys() == trees[1].keys()
    assert [name for name, data in trees[0].items() if trees[1][name] != data] == []
