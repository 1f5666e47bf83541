"""A disk that is full or closed, a clock that jumps: a clear error or the right result, and nothing half written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, mooncake, tree, write_lines
from prefixledger import api
from prefixledger.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log whose requests fill more than 20 kB."""
    rows = [mooncake(10 * at, [at % 7, 100 + at], note=f"{at * 7919 % 100_003:x}") for at in range(3_000)]
    return write_lines(tmp_path / "log_blksz_16.jsonl", rows)


def _limited(limit_bytes: int, arguments: list[str]) -> int:
    """Run a command whose files may not grow above a size; a full disk in small."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        return run(arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("limit_bytes", [100, 5_000])
def test_a_full_disk_is_said_and_nothing_is_half_written(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], limit_bytes: int
) -> None:
    """At the lock, while rows are put aside, while they are written; with room the same command ends well."""
    command = ["ingest", str(log), "--workspace", str(tmp_path / "ws"), "--jobs", "1"]
    assert _limited(limit_bytes, command) == 2
    err = capsys.readouterr().err
    assert "cannot write" in err
    assert "free some space" in err
    assert "Traceback" not in err
    assert not [path for path in (tmp_path / "ws").rglob("*") if path.name.endswith((".part", "aside"))]
    assert run(command) == 0
    ingest(tmp_path / "whole", log, t0=None)
    left = {name: data for name, data in tree(tmp_path / "ws").items() if name != "run.json"}
    assert left == tree(tmp_path / "whole")


@pytest.mark.slow
def test_a_disk_that_fills_up_at_any_stage_is_said(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rising limits stop the report at one file after the other, and with room it is what it would have been."""

    def command(place: str) -> list[str]:
        folder = tmp_path / place
        return [
            "report",
            str(log),
            "--workspace",
            str(folder / "ws"),
            "-o",
            str(folder / "week.html"),
            "--jobs",
            "1",
        ]

    assert run(command("whole")) == 0
    whole = {name: data for name, data in tree(tmp_path / "whole").items() if not name.endswith("run.json")}
    largest = max(map(len, whole.values()))
    capsys.readouterr()
    stops = 0
    for limit_bytes in (1_000, 3_000, 10_000, 30_000, 100_000, largest // 2, largest - 1):
        if _limited(limit_bytes, command("small")) != 0:
            stops += 1
            err = capsys.readouterr().err
            assert "cannot" in err, err
            assert "fault" not in err, err
        assert not list((tmp_path / "small").rglob("*.part"))
    assert stops >= 5
    assert run(command("small")) == 0
    left = {name: data for name, data in tree(tmp_path / "small").items() if not name.endswith("run.json")}
    assert left == whole


def test_a_folder_that_may_not_be_written_to_is_said(tmp_path: Path) -> None:
    """By its name, with what to do, before anything is read."""
    root = tmp_path / "ws"
    root.mkdir()
    root.chmod(0o555)
    tmp_path.chmod(0o755)
    for above in list(tmp_path.parents)[:3]:
        above.chmod(above.stat().st_mode | 0o055)
    code = (
        "import os, sys\n"
        "from prefixledger.locking import locked\n"
        "from prefixledger.workspace import Workspace\n"
        "from prefixledger.errors import UsageError\n"
        "from pathlib import Path\n"
        "if os.getuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"  # root may write anywhere
        "try:\n    with locked(Workspace(Path(sys.argv[1]))):\n        print('held')\n"
        "except UsageError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stdout.startswith(f"{root}: cannot write to the workspace: Permission denied"), done.stderr
    assert "--workspace" in done.stdout


class _Jumping(datetime):
    """A clock that goes back a century at every look."""

    _year = 2500

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        cls._year -= 100
        return datetime(cls._year, 1, 1, tzinfo=tz)


@pytest.mark.slow
def test_a_clock_that_jumps_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the machine, nor the times of files whose own times are complete."""
    log = tmp_path / "dynamo.jsonl"
    log.write_bytes((FIXTURES / "dynamo.jsonl").read_bytes())
    made = []
    for at in (0, 4_000_000_000):
        folder = tmp_path / str(at)
        os.utime(log, (at, at))
        monkeypatch.setattr("prefixledger.running.datetime", _Jumping)
        api.report([log], workspace=folder / "ws", output=folder / "week.html", jobs=1)
        made.append({name: data for name, data in tree(folder).items() if name != "ws/run.json"})
        assert datetime.now(UTC).year < 2400
    assert made[0] == made[1]
