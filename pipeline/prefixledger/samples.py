"""Runs the generators of the sample logs, wherever the package keeps them, and makes the log of the demo."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from hashlib import file_digest
from importlib.resources import as_file
from typing import TYPE_CHECKING

from prefixledger.errors import InputError, UsageError
from prefixledger.locking import LOCK, locked
from prefixledger.resources import code_digest, resource_dir
from prefixledger.workspace import Workspace, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from prefixledger.progress import Progress

_DEMO_MARK = "demo.txt"
_DEMO_LOG = "story.jsonl"
_DEMO_SAYS = """prefixledger demo made this folder. The same version goes on from what is here; another, or --force, empties it.
"""
_WRITES_ONE = "import pathlib, runpy, sys; runpy.run_path(sys.argv[1])['write'](pathlib.Path(sys.argv[2]))"
"""What another interpreter runs: a generator needs nothing of this package."""


def generator(name: str) -> ModuleType:
    """Load ``sample_traces/<name>.py``; data folders are no packages, so it is loaded by its path."""
    module_name = f"prefixledger_sample_{name}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    with as_file(resource_dir("sample_traces") / f"{name}.py") as path:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module  # dataclasses look their module up here
        spec.loader.exec_module(module)
    return module


def demo_log(
    folder: Path, progress: Progress, *, force: bool = False, meanwhile: Callable[[], None] | None = None
) -> Path:
    """Return the log of the demo in a workspace of its own, which keeps what the same demo left there.

    A folder is emptied where another version made the demo, where something in it is not as the demo left it, and by force.

    Args:
        folder: The workspace.
        progress: Told when the log is made.
        force: Make it anew.
        meanwhile: Done here while another process writes the log; None: this one writes it.

    Raises:
        UsageError: The folder holds something else.
    """
    mark = folder / _DEMO_MARK
    if not mark.is_file() and folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty, and the demo wants a workspace of its own",
            hint="prefixledger demo --workspace demo-workspace",
        )
    workspace = Workspace(folder)
    log = folder / "logs" / _DEMO_LOG
    with locked(workspace):
        code = code_digest()
        if not force and _goes_on(workspace, log, mark, code):
            return log
        # The mark is there before anything else and stays to the end: a demo that is cut off can run again.
        mark.write_text(_DEMO_SAYS, encoding="utf-8")
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (LOCK, mark.name):
                path.unlink()
        progress.phase("make up a week")
        log.parent.mkdir()
        if meanwhile is None or not _written_beside("story", log, meanwhile):
            generator("story").write(log)
        mark.write_text(_mark(code, log), encoding="utf-8")
    return log


def _written_beside(name: str, log: Path, meanwhile: Callable[[], None]) -> bool:
    """Write a log in another process while something is done here; return whether it is there, whole.

    For the demo that is 0.5 s on the second core, while this process imports for 1.4 s. Why it failed, the same work tells
    when it is done here: a disk is full, or this interpreter finds its libraries by means that another lacks.
    """
    with as_file(resource_dir("sample_traces") / f"{name}.py") as path:
        command = (sys.executable or "", "-c", _WRITES_ONE, str(path), str(log))
        try:
            silent = subprocess.DEVNULL
            child = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent)  # noqa: S603  # ours alone
        except OSError:
            return False
        try:
            meanwhile()
            return child.wait() == 0
        finally:
            child.kill()  # whoever interrupts this finds nothing that still writes
            child.wait()


def _goes_on(workspace: Workspace, log: Path, mark: Path, code: str) -> bool:
    """Return whether this version wrote the log, it is as it was, and the workspace holds no other."""
    if not log.is_file() or mark.read_text(encoding="utf-8") != _mark(code, log):
        return False
    try:
        sources = read_manifest(workspace)["sources"]
    except UsageError:
        return True  # cut off before the log was read
    except InputError:
        return False
    return [source["path"] for source in sources] == [_DEMO_LOG]


def _mark(code: str, log: Path) -> str:
    """Return what stands in a folder whose log is complete."""
    with log.open("rb") as file:
        digest = file_digest(file, "blake2b").hexdigest()[:32]
    return f"{_DEMO_SAYS}code {code}\nlog {digest}\n"
