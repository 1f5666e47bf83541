"""Reads inputs that no task can read a part of ahead, one task each: packed ones, tables, documents. They are settled one after the other."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prefixledger.engine import LocalEngine, Work
from prefixledger.errors import InputError
from prefixledger.ingest.container import Stream, Unpacking, head_digest
from prefixledger.ingest.one_input import batches_of
from prefixledger.workspace import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prefixledger.engine import Engine
    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.detect import Detected
    from prefixledger.ingest.sources import Source

WHOLE = Work("read whole files", "reads the log")


@dataclass(frozen=True, slots=True)
class WholeInput:
    """An input that a task reads whole.

    Attributes:
        number: Its place among the inputs of the call.
        source: Where it lies; every machine that runs tasks must see it there.
        detected: What it is.
        chunk_bytes: See ``IngestOptions``.
        raw_bytes: Its size, packed as it lies, when it was recognised.
        head: Digest of its beginning then.
        into: File for what is read, in a folder that all machines see.
    """

    number: int
    source: Source
    detected: Detected
    chunk_bytes: int
    raw_bytes: int | None
    head: str
    into: Path


@dataclass(frozen=True, slots=True)
class _Read:
    """What a task says of an input that it has read.

    Attributes:
        number: Its place among the inputs of the call.
        into: Its batches, pickled one after the other.
        name: See ``Stream``.
        n_bytes: Unpacked.
        state: What was found while unpacking.
    """

    number: int
    into: Path
    name: str
    n_bytes: int
    state: Unpacking


class ReadAhead:
    """Inputs of a call, a few of which are read at a time; what is read waits on disk."""

    def __init__(self, engine: Engine, inputs: Iterable[WholeInput]) -> None:
        """Begin with the first that is asked for.

        Args:
            engine: What reads them.
            inputs: In the order in which they are asked for.
        """
        self._results = engine.map(WHOLE, read_whole, inputs)
        self._next: _Read | None = None

    def batches(self, number: int, stream: Stream) -> Iterator[Batch] | None:
        """Return what was read of an input, and tell its stream; None where nobody was to read it.

        Args:
            number: Its place; numbers only rise.
            stream: It, opened and not read.

        Raises:
            InputError: It cannot be read, or was replaced meanwhile.
        """
        while self._next is None or self._next.number < number:
            if self._next is not None:  # it was recognised after all
                self._next.into.unlink(missing_ok=True)
            self._next = next(self._results, None)
            if self._next is None:
                return None
        if self._next.number > number:
            return None
        found, self._next = self._next, None
        stream.was_read(found.name, found.n_bytes, found.state)
        return _batches(found.into)

    def close(self) -> None:
        """Give up what nobody asks for any more."""
        self._results.close()


def read_whole(_shared: None, item: WholeInput) -> _Read:
    """Read an input, as would be done by one process alone, and leave its batches in a file.

    Raises:
        InputError: It cannot be read, or is not what was recognised.
    """
    stream = Stream(item.source)
    try:
        if (stream.state.raw_total, head_digest(stream)) != (item.raw_bytes, item.head):
            raise InputError(
                "it was written to while it was read, or a worker sees another file there",
                place=item.source.place,
                hint="wait until it is complete, then run the command again",
            )
        with (
            TemporaryDirectory(dir=item.into.parent) as aside,
            LocalEngine(1) as engine,
            replacing(item.into) as temporary,
            temporary.open("wb") as out,
        ):
            for batch in batches_of(stream, item.detected, item.chunk_bytes, Path(aside), engine):
                pickle.dump(batch, out, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        stream.close()
    return _Read(item.number, item.into, stream.name, stream.bytes, stream.state)


def _batches(path: Path) -> Iterator[Batch]:
    with path.open("rb") as file:
        path.unlink()  # it is read once, and its bytes stay until then
        while True:
            try:
                yield pickle.load(file)  # noqa: S301  # of a task of this command
            except EOFError:
                return
