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

    from prefixledger.workspace import Workspace

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def running(workspace: Workspace, verb: str, *, force: bool) -> Iterator[None]:
    """Hold the workspace, and leave the clock and the machine in ``run.json``, where nothing else has them.

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
            },
        )
        publish(workspace)


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
