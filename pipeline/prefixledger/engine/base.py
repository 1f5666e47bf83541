"""What a stage asks of an engine: to run one function on many items, and to hand the results back in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from prefixledger.engine.task import Done, run_task
from prefixledger.engine.times import TaskTimes
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import TracebackType

T = TypeVar("T")
R = TypeVar("R")

RETRIES = 2
"""How often a task is run again whose process died or whose objects were lost."""
AHEAD = 2
"""Times the workers: so many items are at work or wait for a slower one before them, and no more are read."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of task.

    Attributes:
        name: For the summary of times.
        doing: What a task does, behind "a process that".
        threads: Whether tasks share memory and let other threads run, so that on one machine they are threads.
        wide: Whether a task uses all cores itself, so that on one machine one runs at a time, in this process.
    """

    name: str
    doing: str
    threads: bool = False
    wide: bool = False


class LostError(Exception):
    """The process of a task died, or an object that it needs is gone; the task can be run again."""


@dataclass(slots=True)
class _Running:
    number: int
    item: Any
    tries: int = 0


class Engine(ABC):
    """Runs tasks.

    Attributes:
        workers: Tasks that run at a time.
        task_memory_bytes: What a task may take beyond what its process held before; None is no limit.
        times: How long tasks took.
    """

    remote = False
    """Whether tasks run apart even where one machine would do with this process."""

    def __init__(self, workers: int, task_memory_bytes: int | None = None) -> None:
        self.workers = workers
        self.task_memory_bytes = task_memory_bytes
        self.times = TaskTimes()
        self._shared: tuple[Work, object, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def map(
        self, work: Work, function: Callable[[Any, T], R], items: Iterable[T], shared: object = None
    ) -> Generator[R, None, None]:
        """Yield ``function(shared, item)`` for every item, in order; close it to give up the rest.

        Args:
            work: What the tasks are.
            function: Named in a module, so that other processes find it; it must depend on its arguments alone.
            items: Read as far ahead as there is work for; what one takes is held until its result is there.
            shared: The same for every task; each process gets it once.

        Raises:
            UsageError: A task needs more memory than it may take, or its process ended again and again.
        """
        for _, result in self._flow(work, function, items, shared, ordered=True):
            yield result

    def unordered(
        self, work: Work, function: Callable[[Any, T], R], items: Iterable[T], shared: object = None
    ) -> Iterator[tuple[int, R]]:
        """Yield the number of each item and its result as soon as it is there; see ``map``."""
        yield from self._flow(work, function, items, shared, ordered=False)

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    def _flow(
        self,
        work: Work,
        function: Callable[[Any, T], R],
        items: Iterable[T],
        shared: object,
        *,
        ordered: bool,
    ) -> Iterator[tuple[int, R]]:
        rest = iter(items)
        begun = list(islice(rest, 2))
        every = chain(begun, rest)
        here, first = self.here(work, len(begun)), 0
        while here or self.still_here(work, function):
            item = next(every, _END)
            if item is _END:
                return
            yield first, self._noted(work, run_task(function, shared, item))
            first += 1
        yield from self._apart(work, function, every, shared, ordered=ordered, first=first)

    def _apart(
        self,
        work: Work,
        function: Callable[[Any, T], R],
        items: Iterator[T],
        shared: object,
        *,
        ordered: bool,
        first: int,
    ) -> Iterator[tuple[int, R]]:
        """Keep the workers busy; results wait for the slowest before them, but not more than ``AHEAD`` times the workers."""
        most = AHEAD * self.workers
        held = self._held(work, shared)
        running: dict[Any, _Running] = {}
        done: dict[int, R] = {}
        sent = out = first
        more = True
        try:
            while True:
                while more and len(running) < most and sent - out < 2 * most:
                    item = next(items, _END)
                    if item is _END:
                        more = False
                        break
                    running[self._submit(work, function, held, item)] = _Running(sent, item)
                    sent += 1
                if not running:
                    return
                for handle in self._finished(work, running):
                    task = running.pop(handle)
                    try:
                        done[task.number] = self._noted(work, self._result(work, handle))
                    except LostError as lost:
                        task.tries += 1
                        if task.tries > RETRIES:
                            raise UsageError(
                                f"a process that {work.doing} ended before its work",
                                hint=self._why_lost(lost),
                            ) from lost
                        self.times.again += 1
                        held = self._held_again(work, shared, held)
                        running[self._submit(work, function, held, task.item)] = task
                for number in count(out) if ordered else sorted(done):
                    if number not in done:
                        break
                    yield number, done.pop(number)
                    out += 1
        finally:
            self._drop(running)

    def _noted(self, work: Work, done: Done) -> Any:
        self.times.add(work.name, done)
        return done.result

    @abstractmethod
    def here(self, work: Work, begun: int) -> bool:
        """Return whether this process does all of it; ``begun`` is how many items there are, 2 for more."""

    def still_here(self, work: Work, function: Callable[[Any, T], R]) -> bool:  # noqa: ARG002
        """Return whether this process does the next task of a kind that others are to do, since they are not there yet."""
        return False

    def _held(self, work: Work, shared: object) -> Any:
        """Share something, or find it shared already: several kinds of tasks in a row often share one log."""
        if self._shared is not None:
            last, known, held = self._shared
            if last == work and known is shared:
                return held
            self._unshare(last, held)
            self._shared = None
        held = self._share(work, shared)
        self._shared = (work, shared, held)
        return held

    def _held_again(self, work: Work, shared: object, held: Any) -> Any:  # noqa: ARG002  # not where nothing can be lost
        """Share the same once more after a loss; tasks that wait still find what was shared before."""
        again = self._share(work, shared)
        self._shared = (work, shared, again)
        return again

    @abstractmethod
    def _share(self, work: Work, shared: object) -> Any:
        """Make something known to all workers; return what a task finds it by."""

    @abstractmethod
    def _unshare(self, work: Work, held: Any) -> None:
        """Forget it."""

    @abstractmethod
    def _submit(self, work: Work, function: Callable[[Any, T], Any], held: Any, item: T) -> Any:
        """Start a task; return its handle."""

    @abstractmethod
    def _finished(self, work: Work, running: Iterable[Any]) -> list[Any]:
        """Wait for at least one handle; return all that are done."""

    @abstractmethod
    def _result(self, work: Work, handle: Any) -> Done:
        """Return what a task left.

        Raises:
            LostError: It can be run again.
            Exception: What the function raised.
        """

    @abstractmethod
    def _drop(self, running: Iterable[Any]) -> None:
        """Give up tasks whose results nobody wants."""

    @abstractmethod
    def _why_lost(self, lost: LostError) -> str:
        """Return what the user may do about a process that ends again and again."""


_END: Any = object()
