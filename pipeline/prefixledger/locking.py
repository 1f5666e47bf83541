"""Keeps two processes from writing into one workspace."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefixledger.errors import Place, UsageError
from prefixledger.workspace import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.workspace import Workspace

LOCK = ".lock"
"""Names the process that writes; others hold it shut while they do."""
_held: set[Path] = set()
"""What this process holds: a stage that runs inside a whole line finds its workspace held already."""


@contextmanager
def locked(workspace: Workspace) -> Iterator[None]:
    """Hold a workspace for one writer; the kernel lets go of it when the process ends, however it ends.

    What a killed writer left half done is swept away first.

    Args:
        workspace: Made if it does not exist.

    Raises:
        UsageError: Another process holds it, or the folder cannot be made.
    """
    root = workspace.root
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the workspace: {error.strerror}",
            place=Place(str(root)),
            hint="give another --workspace",
        ) from error
    key = root.resolve()
    if key in _held:
        yield
        return
    try:
        lock = (root / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write to the workspace: {error.strerror}",
            place=Place(str(root)),
            hint="give another --workspace",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise UsageError(
                f"another process ({lock.read().strip() or 'unknown'}) is writing to this workspace",
                place=Place(str(root)),
                hint="wait for it, or give another --workspace",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()} on {os.uname().nodename}\n")
        lock.flush()
        _held.add(key)
        try:
            sweep(workspace)
            yield
        finally:
            _held.discard(key)


def holder(workspace: Workspace) -> str | None:
    """Return the process that is writing to a workspace, or None; nothing is held."""
    path = workspace.root / LOCK
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return lock.read().strip() or "unknown"
    return None


def check_is_ours(workspace: Workspace) -> None:
    """Refuse a folder that somebody else filled.

    Raises:
        UsageError: It is not empty, and no stage has been there.
    """
    root = workspace.root
    if (
        root.is_dir()
        and not (root / LOCK).exists()
        and not workspace.manifest.exists()
        and any(root.iterdir())
    ):
        raise UsageError(
            "this folder is no workspace and not empty",
            place=Place(str(root)),
            hint="give another --workspace, or use it all the same: --force",
        )
