"""Parses chunks, here or in other processes; results come back in order either way."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING, Self

from prefixledger.errors import UsageError
from prefixledger.ingest.parse import parse_chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.chunks import Chunk
    from prefixledger.ingest.reader import Context


class Workers:
    """A pool that starts with the second chunk of an input: most inputs are one chunk, and a process costs 0.2 s.

    New interpreters are started, since a fork would copy the threads of Arrow and numba half-way through their work.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def parse(self, chunks: Iterable[Chunk], context: Context) -> Iterator[Batch]:
        """Yield the batch of each chunk, in order; no more than a few chunks are held at once.

        Raises:
            UsageError: A process ended before its work: it cannot import the script that calls us, or memory ran out.
        """
        if self._jobs == 1:
            for chunk in chunks:
                yield parse_chunk(chunk, context)
            return
        rest = iter(chunks)
        first = next(rest, None)
        if first is None:
            return
        second = next(rest, None)
        if second is None:
            yield parse_chunk(first, context)
            return
        try:
            yield from self._parallel([first, second], rest, context)
        except BrokenProcessPool as error:
            raise UsageError(
                "a process that parses the log ended before its work",
                hint="in a script, call prefixledger under if __name__ == '__main__', or give jobs=1; if the machine ran "
                "out of memory, jobs=1 needs less",
            ) from error

    def _parallel(self, begun: list[Chunk], rest: Iterator[Chunk], context: Context) -> Iterator[Batch]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn"))
        waiting: deque[Future[Batch]] = deque(
            self._pool.submit(parse_chunk, chunk, context) for chunk in begun
        )
        for chunk in rest:
            waiting.append(self._pool.submit(parse_chunk, chunk, context))
            if len(waiting) > self._jobs + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
