"""One hash for each output, whichever Python of this machine runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ingest_support import FIXTURES, tree
from support import ROOT

pytestmark = pytest.mark.packaging

OLDEST = (3, 11)
OF_THE_RUN = ("run.json", ".lock")
"""Files that tell of moments, processes and folders."""
RUNS = (
    ("demo", "-o", "demo.html", "--workspace", "demo"),
    ("report", *(str(FIXTURES / name) for name in ("sglang.jsonl", "dynamo.jsonl", "litellm.jsonl")),
     "-o", "fixtures.html", "--workspace", "fixtures"),
)  # fmt: skip


def _folders() -> list[Path]:
    """Return where commands are, and where pyenv keeps its versions."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *sorted(kept.glob("*/bin"))]


def _others() -> dict[tuple[int, int], Path]:
    """Return an interpreter of each other version that is new enough and starts."""
    found: dict[tuple[int, int], Path] = {}
    for path in (
        path for folder in _folders() if folder.is_dir() for path in sorted(folder.glob("python3.*"))
    ):
        named = re.fullmatch(r"python3\.(\d+)", path.name)
        if not named or not OLDEST <= (version := (3, int(named[1]))) != sys.version_info[:2]:
            continue
        asked = subprocess.run(
            [path, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.stdout.split() == [str(part) for part in version]:  # a shim of pyenv may say no
            found.setdefault(version, path)
    return found


def _environment(python: Path, folder: Path) -> Path:
    """Install what the project depends on, as pinned; return the interpreter."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install",
         "-c", ROOT / "constraints.txt", *wanted],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No matching distribution" in done.stderr or "NewConnectionError" in done.stderr:
        pytest.skip(f"the packages for {python.name} cannot be had here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "python"


def _outputs(python: Path, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "pipeline")}
    for arguments in RUNS:
        command = [python, "-W", "error::DeprecationWarning:prefixledger", "-m", "prefixledger", *arguments]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return {name: data for name, data in tree(folder).items() if Path(name).name not in OF_THE_RUN}


def test_every_python_of_this_machine_writes_the_same_bytes(tmp_path: Path) -> None:
    """Workspace, page, twin and tables of the demo, and of logs of engines and of a gateway."""
    others = _others()
    if not others:
        pytest.skip(f"no other Python from {OLDEST} on is on this machine")
    here = _outputs(Path(sys.executable), tmp_path / "here")
    assert len(here) > 120
    for version, python in others.items():
        name = "{}.{}".format(*version)
        found = _outputs(_environment(python, tmp_path / f"environment-{name}"), tmp_path / name)
        assert found.keys() == here.keys(), name
        assert [path for path, data in here.items() if found[path] != data] == [], name
