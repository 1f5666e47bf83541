"""A workspace of another version is refused in so many words; what can be made again is made again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, tree
from prefixledger import index
from prefixledger.cli.app import run
from prefixledger.errors import InputError
from prefixledger.workspace import WORKSPACE_VERSION, Workspace

if TYPE_CHECKING:
    from pathlib import Path


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
    with pytest.raises(InputError, match=f"of version {version}, and this prefixledger reads version 1"):
        ingest(root, FIXTURES / "sglang.jsonl")
    with pytest.raises(InputError, match="new workspace"):
        index.update(Workspace(root))
    assert tree(root) == before


def test_a_workspace_of_another_version_ends_with_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says what to do."""
    ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl")
    _edited(tmp_path / "ws" / "manifest.json", schema_version=7)
    assert run(["replay", str(tmp_path / "ws")]) == 3
    assert "hint: ingest the logs into a new workspace" in capsys.readouterr().err


def test_an_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    """To the byte what it was."""
    root = tmp_path / "ws"
    ingest(root, FIXTURES / "dynamo.jsonl")
    index.update(Workspace(root))
    made = tree(root)
    _edited(root / "index.json", schema_version=99)
    assert index.update(Workspace(root)).sources_added == 1
    assert tree(root) == made
