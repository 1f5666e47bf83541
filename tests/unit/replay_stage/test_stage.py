from __future__ import annotations

import json
import shutil

import pytest

from prefixledger.config.scenario import Cache, Fleet, Pool, Scenario, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay import run
from stage_support import SECOND, named, read, write_workspace

FILES = {
    "changes", "capacity_curve", "curve_surface", "capacity_marks", "curve_parts", "gaps", "held", "reuse", "events", "facts", "ladder", "lookup_facts", "lookup_shared", "removals", "replicas",
    "shared", "ttl_curve", "warmups", "draws", "kv_changes", "kv_lookups", "counters",
}  # fmt: skip


def _pool(**cache):
    fields = {name: cache.pop(name) for name in ("fleet", "in_flight", "match") if name in cache}
    return Scenario(pool=(Pool(cache=Cache(**{"profile": "vllm", **cache}), **fields),))


def _event(at_us, kind="restart", **fields):
    return named(0, at_us, kind, **fields).event


def _rows(count=12, **fields):
    return [
        {"at_us": n * SECOND, "ids": [1, 2, 10 + n % 3], "replica": f"r{n % 2}", **fields}
        for n in range(count)
    ]


def test_a_replay_is_a_folder_of_files_that_its_scenario_can_make_again(tmp_path):
    """All files are there, the dump of the scenario reads back to the same replay, and the books add up."""
    workspace = write_workspace(tmp_path, _rows())

    summary = run(workspace)

    assert summary.folder == workspace.replay("as-is")
    assert {path.stem for path in summary.folder.glob("*.parquet")} == FILES
    facts = read(summary, "lookup_facts")
    assert [row["lookup"] for row in facts] == list(range(12))
    assert summary.hit_tokens == 16 * sum(row["hit_blocks"] for row in facts) == 16 * 26
    assert summary.prompt_tokens == 12 * 49
    again = parse_scenario((summary.folder / "scenario.toml").read_text())
    assert run(workspace, again, force=True).hit_tokens == summary.hit_tokens
    assert not list(summary.folder.parent.glob(".*"))


def test_an_unchanged_replay_is_reused_and_a_stale_one_is_redone(tmp_path):
    """Same requests, scenario and code: nothing is done; anything else: everything is."""
    workspace = write_workspace(tmp_path, _rows())
    first = run(workspace)

    second = run(workspace)
    assert (first.reused, second.reused) == (False, True)
    assert second.hit_tokens == first.hit_tokens
    assert second.pools == first.pools

    assert not run(workspace, _pool(capacity="2 blocks")).reused
    assert not run(workspace).reused
    assert not run(workspace, force=True).reused

    (first.folder / "ladder.parquet").unlink()
    assert not run(workspace).reused

    write_workspace(tmp_path, _rows(13))
    assert not run(workspace).reused
    assert run(workspace).lookups == 13


def test_other_code_makes_a_replay_stale(tmp_path, monkeypatch):
    """A replay made by another version is not trusted."""
    workspace = write_workspace(tmp_path, _rows())
    run(workspace)
    monkeypatch.setattr("prefixledger.__version__", "0.0.0.test")

    assert not run(workspace).reused


def test_what_later_stages_derived_goes_with_a_stale_replay(tmp_path):
    """A file beside the replay that was made from the old one does not outlive it."""
    workspace = write_workspace(tmp_path, _rows())
    folder = run(workspace).folder
    (folder / "lookups.parquet").write_bytes(b"derived")

    run(workspace)
    assert (folder / "lookups.parquet").exists()
    run(workspace, force=True)
    assert not (folder / "lookups.parquet").exists()


def test_a_failed_replay_leaves_the_one_before(tmp_path):
    """An error in the scenario touches nothing."""
    workspace = write_workspace(tmp_path, _rows())
    before = run(workspace)

    with pytest.raises(UsageError):
        run(workspace, _pool(fleet=Fleet(replicas=7)))

    assert run(workspace).digest == before.digest


def test_replays_are_byte_identical(tmp_path):
    """Twice in a row, and in another folder under another name of the file."""
    rows = _rows(replica=None)
    first = run(write_workspace(tmp_path / "one", rows)).folder
    bytes_before = {path.name: path.read_bytes() for path in first.iterdir()}
    run(write_workspace(tmp_path / "one", rows), force=True)
    assert {path.name: path.read_bytes() for path in first.iterdir()} == bytes_before

    renamed = [{**row, "source_file": "other.jsonl"} for row in rows]
    second = run(write_workspace(tmp_path / "two", renamed)).folder
    for name in FILES:
        assert (second / f"{name}.parquet").read_bytes() == bytes_before[f"{name}.parquet"]


def test_random_routing_does_not_depend_on_the_name_of_the_file(tmp_path):
    """Rows without an id are known by what they hold."""
    scenario = _pool(fleet=Fleet(routing="random", replicas=3))
    chosen = []
    for name in ("a.jsonl", "b.jsonl"):
        rows = [
            {
                "at_us": n // 2,
                "ids": [n % 3],
                "request_id": f"{name}:{n + 1}",
                "source_file": name,
                "source_line": n + 1,
            }
            for n in range(30)
        ]
        summary = run(write_workspace(tmp_path / name, rows), scenario)
        chosen.append([row["replica"] for row in read(summary, "lookup_facts")])

    assert chosen[0] == chosen[1]
    assert set(chosen[0]) == {0, 1, 2}


def test_the_fingerprint_says_what_a_replay_was_made_from(tmp_path):
    """Digests of requests and index, scenario and code, and the version; no path, no time."""
    workspace = write_workspace(tmp_path / "here", _rows())
    stored = json.loads((run(workspace).folder / "fingerprint.json").read_text())

    assert set(stored["made_from"]) == {"workspace", "scenario", "code", "version", "digest"}
    shutil.move(tmp_path / "here", tmp_path / "there")
    moved = type(workspace)(tmp_path / "there")
    assert run(moved).reused
