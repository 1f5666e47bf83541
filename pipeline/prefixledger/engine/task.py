"""One task, wherever it runs: bounded in memory, timed, with what it shares with others kept from task to task."""

from __future__ import annotations

import os
import resource
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BOUNDED_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""For processes whose tasks are bounded: Arrow's own allocator takes 1 GiB at once to read any table, and looks here when it begins."""
_kept: dict[str, Any] = {}
"""What the last task of this process was given to share; tasks of one stage follow each other."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that ended well.

    Attributes:
        result: What its function returned.
        seconds: How long it took by the clock.
        cpu_s: Processor seconds of its process meanwhile.
        place: Process that it ran in.
    """

    result: Any
    seconds: float
    cpu_s: float
    place: str


def run_task(
    function: Callable[[Any, Any], Any],
    shared: object,
    item: object,
    *,
    doing: str = "works",
    memory_bytes: int | None = None,
) -> Done:
    """Call a function.

    Args:
        function: What is called.
        shared: Its first argument.
        item: Its second.
        doing: What it does, for the error.
        memory_bytes: What it may take beyond what this process holds now.

    Raises:
        UsageError: It needs more memory.
    """
    began, cpu = time.perf_counter(), time.process_time()
    with bounded(memory_bytes, doing):
        result = function(shared, item)
    return Done(
        result,
        time.perf_counter() - began,
        time.process_time() - cpu,
        f"{os.uname().nodename}:{os.getpid()}",
    )


def keep(name: str, load: Callable[[], Any]) -> Any:
    """Return what is shared under a name, loaded once a process; what was shared before it is let go."""
    if name not in _kept:
        _kept.clear()
        _kept[name] = load()
    return _kept[name]


@contextmanager
def bounded(memory_bytes: int | None, doing: str) -> Iterator[None]:
    """Let this process take so much memory and no more.

    The limit is on private memory that can be written to (``RLIMIT_DATA``): files that are mapped and shared objects do not
    count. What allocates beyond it fails at once, so that a task that is too large ends before the machine does.

    Raises:
        UsageError: More was needed.
    """
    if memory_bytes is None:
        yield
        return
    _load_libraries()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_bytes() + memory_bytes
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    except Exception as error:
        if not _out_of_memory(error):
            raise
        raise UsageError(
            f"a task that {doing} needs more than the {memory_bytes / (1 << 20):,.0f} MiB that it may take",
            hint="give more by --task-memory; what is done is kept, and the same command goes on from there",
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _load_libraries() -> None:
    """Load what tasks use and what is no work of theirs: 100 MiB, and a BLAS that gets no memory waits for it for ever."""
    import numba.core.registry  # noqa: PLC0415  # tasks without a limit load what they use
    import pyarrow.parquet  # noqa: F401, PLC0415
    import scipy.linalg  # noqa: F401, PLC0415

    numba.core.registry.cpu_target.target_context.refresh()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables that are not set, for processes that are started meanwhile."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _data_bytes() -> int:
    """Return the private writable memory of this process, as the kernel counts it against the limit."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0  # a kernel without it enforces nothing either


def _out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; DuckDB has an exception of its own for it, and Arrow fails to start threads."""
    told = type(error).__name__ == "OutOfMemoryException" or "Failed to launch worker thread" in str(error)
    return isinstance(error, MemoryError) or told
