"""The verb that looks an installation and a workspace over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prefixledger import api
from prefixledger.cli import app
from prefixledger.locking import locked
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Replay 20 requests of 2 blocks."""
    folder = tmp_path_factory.mktemp("doctor")
    log = folder / "log.jsonl"
    rows = [{"timestamp": n, "input_length": 1024, "output_length": 1, "hash_ids": [0, n]} for n in range(20)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    api.replay([log], workspace=folder / "w")
    return Workspace(folder / "w")


def _states(workspace: Workspace) -> dict[str, str]:
    return {check.subject: check.state for check in api.doctor(workspace=workspace.root)}


def test_a_whole_workspace_is_well(made: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong after a replay, and the exit code says so."""
    states = _states(made)
    assert "wrong" not in states.values()
    assert (states["source log.jsonl"], states["index"], states["replay as-is"]) == ("ok", "ok", "ok")
    assert app.run(["doctor", "--workspace", str(made.root), "--json"]) == 0
    assert {one["subject"] for one in json.loads(capsys.readouterr().out)} == set(states)


def test_books_that_do_not_close_are_wrong(made: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """One invented token in a file of the books is found, named, and ends with exit 3."""
    path = made.replay("as-is") / "lookups.parquet"
    kept = path.read_bytes()
    table = pq.read_table(path)
    at = table.column_names.index("hit_tokens")
    more = pa.array(
        [value + (row == 3) for row, value in enumerate(table["hit_tokens"].to_pylist())], pa.int64()
    )
    pq.write_table(table.set_column(at, table.schema.field(at), more), path)
    try:
        assert app.run(["doctor", "--workspace", str(made.root)]) == 3
        assert "replay as-is" in capsys.readouterr().err
    finally:
        path.write_bytes(kept)


def test_a_lost_table_and_a_killed_run_are_told(made: Workspace) -> None:
    """Rows that the manifest counts but no file holds are wrong; half a file of a killed run is worth a note."""
    (path,) = made.requests.glob("*/*.parquet")
    left = path.with_name(".x.parquet.1.part")
    moved = path.rename(path.with_suffix(".moved"))
    left.write_bytes(b"half")
    try:
        states = _states(made)
        assert (states["source log.jsonl"], states["leftovers"]) == ("wrong", "note")
    finally:
        moved.rename(path)
        left.unlink()


def test_nothing_is_written_and_no_workspace_is_no_fault(tmp_path: Path) -> None:
    """A doctor who is called before the first run finds the installation alone, and leaves no trace."""
    states = _states(Workspace(tmp_path / "none"))
    assert states["kernels"] == "ok"
    assert "wrong" not in states.values()
    assert not any(tmp_path.iterdir())


def test_a_writer_is_named(made: Workspace) -> None:
    """Who holds the workspace stands in its lock."""
    with locked(made):
        assert _states(made)["lock"] == "note"
    assert _states(made)["lock"] == "ok"
