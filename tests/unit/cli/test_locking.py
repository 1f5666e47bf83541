"""Two runs never write into one workspace, and a foreign folder is left alone."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from prefixledger.errors import UsageError
from prefixledger.locking import check_is_ours, locked
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def test_a_held_workspace_refuses_a_second_run(tmp_path: Path) -> None:
    """Naming the process that holds it."""
    place = Workspace(tmp_path / "ws")
    code = (
        "import sys; from pathlib import Path; from prefixledger.locking import locked\n"
        "from prefixledger.workspace import Workspace\n"
        "with locked(Workspace(Path(sys.argv[1]))):\n    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(place.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=rf"another process \({holder.pid} on \S+\)"), locked(place):
        pytest.fail("two runs hold one workspace")
    holder.communicate("")
    with locked(place):
        pass


def test_a_killed_run_leaves_no_lock_behind(tmp_path: Path) -> None:
    """The kernel lets go of it."""
    place = Workspace(tmp_path)
    (tmp_path / ".lock").write_text("999999\n", encoding="utf-8")
    with locked(place):
        pass


def test_a_stage_inside_a_run_finds_its_workspace_held(tmp_path: Path) -> None:
    """The process that holds it may hold it again, and the first to come is the one that lets go."""
    place = Workspace(tmp_path)
    with locked(place):
        with locked(Workspace(tmp_path / "." / "")):
            pass
        code = (
            "import sys; from pathlib import Path; from prefixledger.locking import locked\n"
            "from prefixledger.workspace import Workspace\n"
            "with locked(Workspace(Path(sys.argv[1]))):\n    pass"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert "is writing to this workspace" in other.stderr


def test_a_foreign_folder_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    """One that is empty, missing, or was held before is not foreign."""
    place = Workspace(tmp_path)
    check_is_ours(place)
    check_is_ours(Workspace(tmp_path / "none"))
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="no workspace and not empty"):
        check_is_ours(place)
    with locked(place):
        pass
    check_is_ours(place)


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    """As where a file is in the way."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(UsageError, match="cannot make the workspace"),
        locked(Workspace(tmp_path / "file" / "ws")),
    ):
        pytest.fail("a workspace inside a file")
