"""Runs one command over a workspace: held by it alone, its clock apart from its results, and a full disk said plainly."""

from __future__ import annotations

import errno
import platform
import sys
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from prefixledger import __version__
from prefixledger.errors import Place, PrefixledgerError, UsageError
from prefixledger.locking import check_is_ours, locked
from prefixledger.mirror import publish
from prefixledger.workspace import RUN, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.engine import Engine
    from prefixledger.engine.times import TaskTimes
    from prefixledger.progress import Progress
    from prefixledger.workspace import Workspace

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def running(
    workspace: Workspace, verb: str, *, force: bool, times: TaskTimes | None = None
) -> Iterator[None]:
    """Hold the workspace, and leave the clock and the machine in ``run.json``, where nothing else has them.

    Args:
        workspace: The folder.
        verb: What runs.
        force: Whether to take a folder that somebody else filled.
        times: Of the tasks that it is cut into, when it ends.

    Raises:
        UsageError: Another process holds it, it belongs to somebody else, or it cannot be written to.
    """
    with ExitStack() as stack:
        stack.enter_context(_told(workspace))
        if not force:
            check_is_ours(workspace)
        stack.enter_context(locked(workspace))
        began, started = datetime.now(UTC), time.perf_counter()
        try:
            yield
        except PrefixledgerError:
            publish(workspace)  # what was refused is noted in it, and the rest is done
            raise
        write_json(
            workspace.root / RUN,
            {
                "verb": verb,
                "version": __version__,
                "started_at": began.isoformat(),
                "seconds": round(time.perf_counter() - started, 3),
                "python": platform.python_version(),
                "machine": f"{platform.system()} {platform.machine()}",
                "arguments": sys.argv[1:],
                "tasks": [] if times is None else [each.to_json() for each in times.summaries()],
                "tasks_run_again": 0 if times is None else times.again,
            },
        )
        publish(workspace)


@contextmanager
def tasks_on(
    engine: str, jobs: int, ray_address: str | None, task_memory: str | None, progress: Progress
) -> Iterator[Engine]:
    """Open what the tasks of all stages run on; of tasks that left this machine's processes say how long they took.

    Raises:
        UsageError: There is no such engine, it is not installed, or its options mean nothing.
    """
    from prefixledger.engine import open_engine  # noqa: PLC0415  # it starts processes and clusters, --help does not

    with open_engine(engine, jobs=jobs, ray_address=ray_address, task_memory=task_memory) as opened:
        yield opened
        if opened.remote:
            for line in opened.times.lines():
                progress.say(line)


@contextmanager
def _told(workspace: Workspace) -> Iterator[None]:
    """Turn what the disk refuses into an error that says so; readers have named what they cannot read by then.

    Raises:
        UsageError: The disk is full, or the folder may not be written to.
    """
    try:
        yield
    except OSError as error:
        hint = {
            **dict.fromkeys(
                _FULL, "free some space, or give another --workspace; the same command goes on from here"
            ),
            **dict.fromkeys(_CLOSED, "give another --workspace"),
        }.get(error.errno or 0)
        if hint is None:
            raise
        raise UsageError(
            f"cannot write: {_reason(error)}", place=Place(str(error.filename or workspace.root)), hint=hint
        ) from error


def _reason(error: OSError) -> str:
    """Return what the system says; Arrow raises the number with words of its own."""
    return errno.errorcode[error.errno or 0] if error.strerror is None else error.strerror
