"""Runs the generators of the sample logs, wherever the package keeps them, and makes the log of the demo."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError
from prefixledger.locking import LOCK, locked
from prefixledger.resources import resource_dir
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from types import ModuleType

    from prefixledger.progress import Progress

_DEMO_MARK = "demo.txt"


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


def fresh_story(folder: Path, progress: Progress) -> Path:
    """Make the log of the demo in a workspace of its own, after emptying it where a demo was before.

    Raises:
        UsageError: The folder holds something else.
    """
    mark = folder / _DEMO_MARK
    if not mark.is_file() and folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty, and the demo wants a workspace of its own",
            hint="prefixledger demo --workspace demo-workspace",
        )
    with locked(Workspace(folder)):
        # The mark is there before anything else and stays to the end: a demo that is cut off can run again.
        mark.write_text(
            "prefixledger demo made this folder, and empties it when it runs again.\n", encoding="utf-8"
        )
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (LOCK, mark.name):
                path.unlink()
    progress.phase("make up a week")
    (folder / "logs").mkdir()
    return Path(generator("story").write(folder / "logs" / "story.jsonl"))
