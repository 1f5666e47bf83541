"""Parses chunks, here or beside; results come back in order either way."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Self, TypeVar

from prefixledger.errors import UsageError
from prefixledger.ingest.parse import parse_chunk
from prefixledger.ingest.plain import plain_fields, read_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from types import TracebackType

    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.chunks import Chunk
    from prefixledger.ingest.reader import Context

Result = TypeVar("Result")


class Workers:
    """Threads for chunks that a kernel reads, since they share memory; processes for what keeps the interpreter busy.

    They start with the second chunk of an input: most inputs are one chunk, and a process costs 0.2 s. New interpreters
    are started, since a fork would copy the threads of Arrow and numba half-way through their work.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pools: dict[str, Executor] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)

    def parse(self, chunks: Iterable[Chunk], context: Context) -> Iterator[Batch]:
        """Yield the batches of each chunk, in order; no more than a few chunks are held at once.

        Raises:
            UsageError: A process ended before its work: it cannot import the script that calls us, or memory ran out.
        """
        rest = iter(chunks)
        begun = list(islice(rest, 2))
        if self._jobs == 1 or len(begun) < 2:  # noqa: PLR2004
            for chunk in chain(begun, rest):
                yield from read_chunk(chunk, context)
            return
        if plain_fields(context):
            batches = read_chunk(begun.pop(0), context)
            yield from batches
            if all(batch.plain is not None for batch in batches):
                for batches in self._parallel("threads", read_chunk, chain(begun, rest), context):
                    yield from batches
                return
        try:
            yield from self._parallel("processes", parse_chunk, chain(begun, rest), context)
        except BrokenProcessPool as error:
            raise UsageError(
                "a process that parses the log ended before its work",
                hint="in a script, call prefixledger under if __name__ == '__main__', or give jobs=1; if the machine ran "
                "out of memory, jobs=1 needs less",
            ) from error

    def _parallel(
        self, kind: str, work: Callable[[Chunk, Context], Result], chunks: Iterable[Chunk], context: Context
    ) -> Iterator[Result]:
        pool = self._pools.get(kind)
        if pool is None:
            pool = self._pools[kind] = (
                ThreadPoolExecutor(self._jobs)
                if kind == "threads"
                else ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn"))
            )
        waiting: deque[Future[Result]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk, context))
            if len(waiting) > self._jobs + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
