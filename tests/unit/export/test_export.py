"""A trace that was exported replays as its log did, and names nobody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.parquet as pq
import pytest
import zstandard

from ingest_support import write_lines
from prefixledger import api
from prefixledger.errors import InputError, UsageError
from prefixledger.export.salt import salted_ids

if TYPE_CHECKING:
    from pathlib import Path

NOON_S = 1_795_953_600
MAP = """format = "jsonl"
block_size = 4
[columns]
started_at = { from = "ts", unit = "s" }
finished_at = { from = "end", unit = "s" }
text = "prompt"
prompt_tokens = "tokens"
output_tokens = "out"
request_id = "id"
session_id = "session"
tenant = "tenant"
replica = "pod"
model = "model"
status = "status"
"""
SCENARIO = 'name = "s"\n[cache]\ncapacity = "24 blocks"\nttl = "40s"\n'
NAMES = ("acme", "session-", "pod-", "req-", "111122223333")


def log(folder: Path) -> Path:
    """Write a log of text: 3 tenants, sessions that grow, two pods, failed calls, rows without text, equal times."""
    rows: list[dict[str, Any]] = []
    for at in range(90):
        session, turn = at % 6, at // 6
        text = f"tenant acme-{session % 3} " + "".join(
            f"turn {session} {step} says things. " for step in range(turn)
        )
        row: dict[str, Any] = {
            "ts": NOON_S + at // 2 + (0.000_001 if at % 7 == 0 else 0.0), "end": NOON_S + at // 2 + 3.25,
            "prompt": text, "tokens": len(text) // 4 + at % 3, "out": 5, "id": f"req-{at}", "session": f"session-{session}",
            "tenant": f"acme-{session % 3}", "pod": f"pod-{'zyx'[at % 3]}", "status": 200,
            "model": "arn:aws:bedrock:eu:111122223333:m" if session % 2 else "qwen",
        }  # fmt: skip
        if at % 20 == 19:
            row["status"] = 500
        if at % 20 == 9:
            del row["prompt"]
        rows.append(row)
    return write_lines(folder / "log.jsonl", rows)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with the log and its replay."""
    (tmp_path / "map.toml").write_text(MAP)
    (tmp_path / "s.toml").write_text(SCENARIO)
    api.replay(
        [log(tmp_path)],
        workspace=tmp_path / "ws",
        map=tmp_path / "map.toml",
        scenario=[tmp_path / "s.toml"],
        jobs=1,
    )
    return tmp_path / "ws"


def lookups(workspace: Path) -> list[dict[str, Any]]:
    """Return what each lookup of the replay was."""
    columns = ["admitted_at", "replica", "prompt_tokens", "full_blocks", "cap_blocks", "hit_blocks"]
    rows: list[dict[str, Any]] = pq.read_table(
        workspace / "replays/s/lookup_facts.parquet", columns=columns
    ).to_pylist()
    first = rows[0]["admitted_at"]
    return [{**row, "admitted_at": row["admitted_at"] - first} for row in rows]


@pytest.mark.parametrize(
    ("form", "name"), [("mooncake", "t_blksz_4.jsonl.zst"), ("bailian", "t_blksz_4.jsonl.gz")]
)
def test_read_back_it_gives_the_same_replay(workspace: Path, tmp_path: Path, form: str, name: str) -> None:
    """Same hits, row by row: capacity, TTL, pinned memory, replicas and the unkeyed tails of prompts included."""
    done = api.export(workspace, output=tmp_path / name, form=form)
    assert (done.rows, done.block_size) == (81, 4)
    assert done.left_out == {"failed call": 4, "no keys": 5}
    api.replay([tmp_path / name], workspace=tmp_path / "back", scenario=[tmp_path / "s.toml"], jobs=1)
    ours = lookups(workspace)
    assert sum(row["hit_blocks"] for row in ours) > 100
    assert lookups(tmp_path / "back") == ours


def test_it_names_nobody(workspace: Path, tmp_path: Path) -> None:
    """No text, no tenant, no id, no account, no pod; the same workspace gives the same bytes, another one other ids."""
    api.export(workspace, output=tmp_path / "a.jsonl")
    api.export(workspace, output=tmp_path / "b.jsonl.zst")
    content = (tmp_path / "a.jsonl").read_bytes()
    assert (
        zstandard.ZstdDecompressor().stream_reader((tmp_path / "b.jsonl.zst").read_bytes()).read() == content
    )
    assert not any(name.encode() in content for name in (*NAMES, "turn", "says"))
    rows = [orjson.loads(line) for line in content.splitlines()]
    assert {row["replica"] for row in rows} == {"r0", "r1", "r2"}
    assert {row["model"] for row in rows} == {"qwen", "model-1"}
    assert {row["session_id"] for row in rows} == {f"s{number}" for number in range(6)}
    other = api.export(workspace, output=tmp_path / "c.jsonl", salt="pepper")
    salted = [orjson.loads(line)["hash_ids"] for line in other.path.read_bytes().splitlines()]
    assert {one for ids in salted for one in ids}.isdisjoint(one for row in rows for one in row["hash_ids"])
    assert [len(ids) for ids in salted] == [len(row["hash_ids"]) for row in rows]


def test_only_its_own_files_are_replaced(workspace: Path, tmp_path: Path) -> None:
    """An export may be repeated; a file of somebody else needs --force."""
    output = tmp_path / "trace.jsonl"
    api.export(workspace, output=output)
    api.export(workspace, output=output, form="bailian")
    output.write_text("mine\n")
    with pytest.raises(UsageError, match="did not write it"):
        api.export(workspace, output=output)
    assert output.read_text() == "mine\n"
    api.export(workspace, output=output, force=True)


def test_what_cannot_be_exported_is_said(workspace: Path, tmp_path: Path) -> None:
    """A form that does not exist, block sizes that differ, a workspace without keys."""
    with pytest.raises(UsageError, match="no form 'csv'"):
        api.export(workspace, output=tmp_path / "t", form="csv")
    with pytest.raises(UsageError, match="blocks of 5 tokens"):
        api.export(workspace, output=tmp_path / "t", block_size=5)
    api.ingest(
        [log(tmp_path / "other")],
        workspace=workspace,
        map=tmp_path / "map.toml",
        jobs=1,
        block_size=8,
        force=True,
    )
    rows = [{"ts": NOON_S, "end": NOON_S, "prompt": "abc " * 50, "tokens": 50, "id": "z", "pod": "p"}]
    more = write_lines(tmp_path / "more.jsonl", rows)
    api.ingest([more], workspace=workspace, map=tmp_path / "map.toml", jobs=1)
    with pytest.raises(UsageError, match="one block size") as caught:
        api.export(workspace, output=tmp_path / "t")
    assert caught.value.hint == "--block-size 8"
    assert api.export(workspace, output=tmp_path / "t", block_size=4).left_out["another block size"] == 81
    bare = write_lines(
        tmp_path / "bare.jsonl", [{"ts": NOON_S, "end": NOON_S, "tokens": 9, "id": "y", "pod": "p"}]
    )
    api.ingest([bare], workspace=tmp_path / "bare", map=tmp_path / "map.toml", jobs=1)
    with pytest.raises(InputError, match="no request of the workspace has keys"):
        api.export(tmp_path / "bare", output=tmp_path / "t2")
    assert not (tmp_path / "t2").exists()


def test_ids_differ_and_fit_into_63_bits() -> None:
    """Keyed by the salt, equal for equal keys, and positive in every language."""
    import numpy as np

    keys = np.random.default_rng(1).integers(0, 1 << 63, (500, 2), dtype=np.uint64)
    one, again, other = (salted_ids(keys, bytes([salt]) * 32) for salt in (1, 1, 2))
    assert (one == again).all()
    assert (one >= 0).all()
    assert np.unique(one).size == 500
    assert not set(one.tolist()) & set(other.tolist())


def test_a_short_name_says_how_to_read_it_back(workspace: Path, tmp_path: Path) -> None:
    """The forms do not say how many tokens a block has: the name does, or the user must."""
    plain = api.export(workspace, output=tmp_path / "trace.jsonl")
    assert any("--block-size 4" in note for note in plain.notes)
    named = api.export(workspace, output=tmp_path / "trace_blksz_4.jsonl")
    assert not any("--block-size" in note for note in named.notes)
    first = json.loads(named.path.read_text().splitlines()[0])
    assert list(first)[:4] == ["timestamp", "input_length", "output_length", "hash_ids"]
