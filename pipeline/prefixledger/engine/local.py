"""Tasks on this machine: in this process, in threads of it, or in processes beside it."""

from __future__ import annotations

import gc
import pickle
import tempfile
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prefixledger.engine.base import Engine, LostError, Work
from prefixledger.engine.task import BOUNDED_ENVIRONMENT, Done, environment, keep, run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HEAD_START_S: Final = 1.5
"""Processor seconds of tasks before others are asked: a process takes as long to start and to import what parses."""


class LocalEngine(Engine):
    """Processes start once tasks of a kind that needs them have taken 1.5 s here: most logs are read by then.

    New interpreters are started, since a fork would copy the threads of Arrow and numba half-way through their work. A limit
    of memory holds for a process, so with one every task has a process, also where a thread would do.
    """

    def __init__(self, workers: int, task_memory_bytes: int | None = None) -> None:
        """Start nothing yet."""
        super().__init__(workers, task_memory_bytes)
        self._processes: ProcessPoolExecutor | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shares = 0
        self._starting: list[Future[None]] | None = None

    def close(self) -> None:
        """End processes and threads."""
        for pool in (self._processes, self._threads):
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()
        self._processes = self._threads = self._folder = None

    def here(self, work: Work, begun: int) -> bool:
        """Return whether this process does all of it; see ``Engine``."""
        if self.task_memory_bytes is not None:
            return begun == 0
        return self.workers == 1 or work.wide or begun < 2  # noqa: PLR2004  # one item has nothing beside it

    def still_here(self, work: Work, function: Callable[[Any, Any], Any]) -> bool:
        """Return whether this process does the next task: at first, and then while the others start."""
        if self._in_threads(work) or self.task_memory_bytes is not None:
            return False
        if self.times.cpu_s(work.name) < HEAD_START_S:
            return True
        if self._starting is None:
            self._starting = [self._pool(work).submit(_ready, function) for _ in range(self.workers)]
        return not all(one.done() for one in self._starting)

    def _in_threads(self, work: Work) -> bool:
        return work.threads and self.task_memory_bytes is None

    def _share(self, work: Work, shared: object) -> Any:
        if self._in_threads(work) or shared is None:
            return shared
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="prefixledger-")
        self._shares += 1
        path = Path(self._folder.name) / str(self._shares)
        with path.open("wb") as out:
            pickle.dump(shared, out, protocol=pickle.HIGHEST_PROTOCOL)
        return path

    def _held_again(self, work: Work, shared: object, held: Any) -> Any:  # noqa: ARG002
        return held  # a file outlives processes

    def _unshare(self, work: Work, held: Any) -> None:
        if not self._in_threads(work) and isinstance(held, Path):
            held.unlink(missing_ok=True)

    def _submit(self, work: Work, function: Callable[[Any, Any], Any], held: Any, item: Any) -> Future[Done]:
        if self._in_threads(work):
            return self._pool(work).submit(run_task, function, held, item)
        given = (function, held, item, work.doing, self.task_memory_bytes)
        with environment({} if self.task_memory_bytes is None else BOUNDED_ENVIRONMENT):
            try:
                return self._pool(work).submit(_in_process, *given)
            except BrokenProcessPool:
                self._processes = None
                return self._pool(work).submit(_in_process, *given)

    def _pool(self, work: Work) -> Executor:
        if self._in_threads(work):
            self._threads = self._threads or ThreadPoolExecutor(self.workers)
            return self._threads
        if self._processes is None:
            workers = 1 if work.wide else self.workers
            self._processes = ProcessPoolExecutor(
                workers,
                mp_context=get_context("spawn"),
                initializer=gc.set_threshold,  # as seldom as here: rows are many, and cycles few
                initargs=gc.get_threshold(),
            )
        return self._processes

    def _finished(self, work: Work, running: Iterable[Future[Done]]) -> list[Future[Done]]:  # noqa: ARG002
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        return [handle for handle in running if handle in done]

    def _result(self, work: Work, handle: Future[Done]) -> Done:  # noqa: ARG002
        try:
            return handle.result()
        except BrokenProcessPool as error:
            raise LostError(str(error)) from error

    def _drop(self, running: Iterable[Future[Done]]) -> None:
        for handle in running:
            handle.cancel()

    def _why_lost(self, lost: LostError) -> str:  # noqa: ARG002
        return (
            "in a script, call prefixledger under if __name__ == '__main__', or give jobs=1; if the machine ran out of memory, "
            "jobs=1 needs less"
        )


def _ready(function: Callable[[Any, Any], Any]) -> None:
    """Import what a task needs, which finding the function did."""


def _in_process(
    function: Callable[[Any, Any], Any], held: Any, item: Any, doing: str, memory_bytes: int | None
) -> Done:
    shared = keep(str(held), lambda: pickle.loads(held.read_bytes())) if isinstance(held, Path) else held  # noqa: S301  # written by the process that started this one
    return run_task(function, shared, item, doing=doing, memory_bytes=memory_bytes)
