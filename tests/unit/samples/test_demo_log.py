"""The demo goes on from what the same version of it left, and empties what another left."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from prefixledger import samples
from prefixledger.errors import UsageError
from prefixledger.progress import SILENT
from prefixledger.workspace import WORKSPACE_VERSION

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = {"schema_version": WORKSPACE_VERSION, "sources": [{"source": "a", "path": "story.jsonl"}]}


@pytest.fixture(autouse=True)
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the logs that were made; each is short."""
    made: list[Path] = []

    def write(path: Path) -> Path:
        made.append(path)
        path.write_text('{"id":"req-000000"}\n', encoding="utf-8")
        return path

    monkeypatch.setattr(samples, "generator", lambda _: SimpleNamespace(write=write))
    return made


def _left(folder: Path) -> Path:
    """Make a demo that read its log, and return what else is left of it."""
    samples.demo_log(folder, SILENT)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST), encoding="utf-8")
    result = folder / "replays" / "fleet" / "replay.json"
    result.parent.mkdir(parents=True)
    result.write_text("{}", encoding="utf-8")
    return result


def test_the_same_demo_keeps_what_is_there(tmp_path: Path, written: list[Path]) -> None:
    """The log is not written again, and results stay; by force both are made anew."""
    result = _left(tmp_path)
    log = samples.demo_log(tmp_path, SILENT)
    assert log == tmp_path / "logs" / "story.jsonl"
    assert result.is_file()
    assert written == [log]
    assert samples.demo_log(tmp_path, SILENT, force=True) == log
    assert not result.exists()
    assert written == [log, log]


@pytest.mark.parametrize("what", ["code", "old mark", "log", "no log", "manifest", "damaged"])
def test_what_is_not_as_it_left_it_is_emptied(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version, another log, a log that somebody else added: no result of those is in a later report."""
    result = _left(tmp_path)
    log, mark, manifest = (tmp_path / name for name in ("logs/story.jsonl", "demo.txt", "manifest.json"))
    if what == "code":
        monkeypatch.setattr(samples, "code_digest", lambda: "of another version")
    elif what == "old mark":
        mark.write_text(
            "prefixledger demo made this folder, and empties it when it runs again.\n", encoding="utf-8"
        )
    elif what == "log":
        log.write_text('{"id":"req-000001"}\n', encoding="utf-8")
    elif what == "no log":
        log.unlink()
    elif what == "manifest":
        more = [*MANIFEST["sources"], {"source": "b", "path": "other.jsonl"}]  # type: ignore[misc]
        manifest.write_text(json.dumps(MANIFEST | {"sources": more}), encoding="utf-8")
    else:
        manifest.write_text("{", encoding="utf-8")
    samples.demo_log(tmp_path, SILENT)
    assert not result.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "demo.txt", "logs"]


def test_a_demo_that_was_cut_off_can_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log is written, half of it is emptied; before the log is read, the log is kept."""

    def cut(path: Path) -> Path:
        path.write_text('{"id":"re', encoding="utf-8")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(samples, "generator", lambda _: SimpleNamespace(write=cut))
        with pytest.raises(KeyboardInterrupt):
            samples.demo_log(tmp_path, SILENT)
    log = samples.demo_log(tmp_path, SILENT)
    before = log.stat().st_ino
    assert log.read_text(encoding="utf-8") == '{"id":"req-000000"}\n'
    assert samples.demo_log(tmp_path, SILENT).stat().st_ino == before


@pytest.mark.parametrize("fault", ["", "raise SystemExit(1)", "raise OSError"])
def test_another_process_writes_it_where_there_is_work_meanwhile(
    fault: str, tmp_path: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that process fails, this one writes the log, over what is half there."""
    source = f"def write(path):\n    path.write_text('beside')\n    {fault}\n"
    (tmp_path / "story.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(samples, "resource_dir", lambda _: tmp_path)
    done: list[str] = []
    log = samples.demo_log(tmp_path / "demo", SILENT, meanwhile=lambda: done.append("meanwhile"))
    assert done == ["meanwhile"]
    assert log.read_text(encoding="utf-8") == ('{"id":"req-000000"}\n' if fault else "beside")
    assert written == ([log] if fault else [])
    assert samples.demo_log(tmp_path / "demo", SILENT, meanwhile=lambda: pytest.fail("it is there")) == log


def test_an_interruption_ends_the_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would write into a folder that the next demo makes anew."""
    source = "import os, time\ndef write(path):\n    path.with_name('pid').write_text(str(os.getpid()))\n    path.touch()\n    time.sleep(60)\n"
    (tmp_path / "story.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(samples, "resource_dir", lambda _: tmp_path)
    log = tmp_path / "demo" / "logs" / "story.jsonl"

    def interrupt() -> None:
        while not log.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        samples.demo_log(tmp_path / "demo", SILENT, meanwhile=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.with_name("pid").read_text(encoding="utf-8")), 0)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Also by force: nothing in it is touched."""
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    for force in (False, True):
        with pytest.raises(UsageError, match="a workspace of its own"):
            samples.demo_log(tmp_path, SILENT, force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
