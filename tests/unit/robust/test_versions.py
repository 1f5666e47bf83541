"""A workspace of another version is refused in so many words; what can be made again is made again."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, tree
from prefixledger import index
from prefixledger.cli.app import run
from prefixledger.errors import InputError
from prefixledger.schema import PATHS, REJECTS, REQUESTS
from prefixledger.schema_contents import CONTENTS, PARTS, PIECES, TEXTS
from prefixledger.schema_engines import KV_EVENTS, SERIES
from prefixledger.workspace import WORKSPACE_VERSION, Workspace

if TYPE_CHECKING:
    from pathlib import Path


COLUMNS_OF_VERSION = {4: "e3f57e561a2a60cd"}
"""What ``ingest`` leaves in a workspace, by the version that says so."""


def test_other_columns_are_another_version() -> None:
    """Who changes a table that ``ingest`` writes raises the version: rows of the old form are refused, not misread."""
    tables = (REQUESTS, PATHS, REJECTS, PARTS, TEXTS, CONTENTS, PIECES, KV_EVENTS, SERIES)
    columns = "\n".join(f"{table.arrow()}" for table in tables)
    digest = blake2b(columns.encode(), digest_size=8).hexdigest()
    assert COLUMNS_OF_VERSION[WORKSPACE_VERSION] == digest


def _edited(path: Path, **change: Any) -> None:
    held = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**held, **change}), encoding="utf-8")


@pytest.mark.parametrize("version", [0, WORKSPACE_VERSION + 1])
@pytest.mark.parametrize("sources", ["as now", "of a form that is not known"])
def test_another_version_of_a_workspace_is_refused(version: int, sources: str, tmp_path: Path) -> None:
    """By every verb that would read or add to it, whatever else of it changed; nothing is written over."""
    root = tmp_path / "ws"
    ingest(root, FIXTURES / "dynamo.jsonl")
    change = {} if sources == "as now" else {"sources": {"new": "form"}}
    _edited(root / "manifest.json", schema_version=version, **change)
    before = tree(root)
    with pytest.raises(
        InputError, match=f"of version {version}, and this prefixledger reads version {WORKSPACE_VERSION}"
    ):
        ingest(root, FIXTURES / "sglang.jsonl")
    with pytest.raises(InputError, match="new workspace"):
        index.update(Workspace(root))
    assert tree(root) == before


VERBS = {
    "ingest": ["ingest", str(FIXTURES / "sglang.jsonl"), "--workspace", "ws"],
    "replay": ["replay", "ws"],
    "report": ["report", "ws", "-o", "week.html"],
    "whatif": ["whatif", "ws", "--capacity", "10"],
    "investigate": ["investigate", "ws"],
    "explain": ["explain", "q1", "--workspace", "ws"],
    "diff": ["diff", "q1", "q2", "--workspace", "ws"],
    "compare": ["compare", "ws"],
    "compare two": ["compare", "ws", "ws"],
    "query": ["query", "SELECT 1", "--workspace", "ws"],
    "export": ["export", "ws", "-o", "trace.jsonl"],
    "doctor": ["doctor", "--workspace", "ws"],
}
"""Every verb that reads a workspace."""
_READS_LOGS = ("replay", "report", "whatif", "investigate")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            {"schema_version": 7},
            f"this workspace is of version 7, and this prefixledger reads version {WORKSPACE_VERSION}",
        ),
        ({"schema_version": 0, "sources": {"new": "form"}}, "this workspace is of version 0"),
        ({"sources": 3}, "the workspace is damaged"),
        (None, "the workspace is damaged"),
    ],
    ids=["later", "earlier", "odd", "cut off"],
)
def test_every_verb_refuses_a_workspace_that_it_cannot_read_by_exit_code_3(
    verb: str,
    manifest: dict[str, Any] | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And says the same, and what to do."""
    monkeypatch.chdir(tmp_path)
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "requests").mkdir()
    whole = {"schema_version": WORKSPACE_VERSION, "sources": [], "history": []}
    text = '{"schema' if manifest is None else json.dumps({**whole, **manifest})
    (ws / "manifest.json").write_text(text, encoding="utf-8")
    assert run(VERBS[verb]) == 3
    told = "".join(capsys.readouterr())
    assert " ".join(said.split()) in " ".join(told.split()).replace("│", "")
    assert "a new workspace" in " ".join(told.split())


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("ingest", "doctor", "compare two")])
def test_every_verb_refuses_what_is_no_workspace_by_exit_code_2(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is not there is a mistake of the command, not of a log."""
    monkeypatch.chdir(tmp_path)
    arguments = list(VERBS[verb])
    if verb in _READS_LOGS:  # they would take it for a folder of logs
        arguments.insert(1, "--workspace")
    assert run(arguments) == 2
    assert capsys.readouterr().err
    assert not (tmp_path / "ws").exists()


@pytest.mark.slow
def test_a_replay_of_another_version_is_made_again_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What replays makes it again, under the scenario that it was made under; what only reads it ends with exit code 3."""
    monkeypatch.chdir(tmp_path)
    ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl")
    (tmp_path / "small.toml").write_text("[cache]\ncapacity = '12 blocks'\n", encoding="utf-8")
    assert run(["replay", "ws", "--scenario", "small.toml", "-q"]) == 0
    mark = tmp_path / "ws" / "replays" / "small" / "fingerprint.json"
    made = mark.read_bytes()
    values = json.loads(made)
    values["made_from"]["version"] = "0.0.1"
    mark.write_text(json.dumps(values), encoding="utf-8")
    for arguments in (["explain", "any", "--workspace", "ws"], ["compare", "ws", "ws"]):
        assert run(arguments) == 3
        assert "other code made the replay 'small', of version 0.0.1" in capsys.readouterr().err
    assert run(["investigate", "ws", "-q"]) == 0
    assert mark.read_bytes() == made
    assert [path.name for path in (tmp_path / "ws" / "replays").iterdir()] == ["small"]


def test_a_report_of_another_form_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By what reads kept reports: its keys may mean something else."""
    (tmp_path / "week.html").write_text("", encoding="utf-8")
    values = {"schema_version": 2, "generator": "prefixledger 9", "timeline": {}}
    (tmp_path / "week.json").write_text(json.dumps(values), encoding="utf-8")
    twin = str(tmp_path / "week.json")
    for arguments in (["compare", twin, twin], ["index", str(tmp_path), "-o", str(tmp_path / "index.html")]):
        assert run(arguments) == 3
        assert (
            "week.json: this report is of form 2, and this prefixledger reads form 1"
            in capsys.readouterr().err
        )


def test_an_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    """To the byte what it was."""
    root = tmp_path / "ws"
    ingest(root, FIXTURES / "dynamo.jsonl")
    index.update(Workspace(root))
    made = tree(root)
    _edited(root / "index.json", schema_version=99)
    assert index.update(Workspace(root)).sources_added == 1
    assert tree(root) == made
