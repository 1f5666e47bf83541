"""Reads the chunks of a log as tasks."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from prefixledger.engine.base import Work
from prefixledger.ingest.labels import with_labels
from prefixledger.ingest.pieces import ByteRange, chunk_of, digest_of, parse_piece
from prefixledger.ingest.plain import plain_fields, read_chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prefixledger.engine import Engine
    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.chunks import Chunk
    from prefixledger.ingest.container import Stream
    from prefixledger.ingest.reader import Context

PARSE = Work("read", "parses the log")
PLAIN = Work("read plain lines", "parses the log", threads=True)


def batches(chunks: Iterable[Chunk], stream: Stream, context: Context, engine: Engine) -> Iterator[Batch]:
    """Yield the batches of all chunks, in order.

    Chunks of plain lines are read by a kernel, in threads that share memory where they stay on this machine; what keeps the
    interpreter busy goes to processes.
    """
    # On one machine the bytes travel: the file may be rotated away while a task would look for it.
    rest = iter(ranges(chunks, stream) if engine.remote else chunks)
    begun = list(islice(rest, 2))
    read, work = read_piece, PLAIN
    if not engine.here(PARSE, len(begun)):
        first = read_piece(context, begun[0]) if plain_fields(context) else []
        yield from first
        if first:
            del begun[0]
        if not first or any(batch.plain is None for batch in first):
            read, work = parse_piece, PARSE
    for found in engine.map(work, read, chain(begun, rest), context):
        yield from found


def read_piece(context: Context, piece: Chunk | ByteRange) -> list[Batch]:
    """Turn one piece of a log into batches, runs of plain lines by a kernel; see ``parse_piece``."""
    return [with_labels(batch) for batch in read_chunk(chunk_of(piece), context)]


def ranges(chunks: Iterable[Chunk], stream: Stream) -> Iterator[Chunk | ByteRange]:
    """Yield chunks by their place where that is all a task needs: the file is plain, and the chunk is whole.

    Packed files can be read only from their beginning, so their pieces travel as bytes.
    """
    source = stream.source
    at = source.url or (None if source.path is None else str(source.path.resolve()))
    for chunk in chunks:
        if at is None or stream.state.raw_total is None or stream.state.layers or chunk.oversize_bytes:
            yield chunk
        else:
            yield ByteRange(
                replace(chunk, data=b""), at, str(source.place), len(chunk.data), digest_of(chunk.data)
            )
