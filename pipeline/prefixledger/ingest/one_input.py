"""Reads one input from its first byte to its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prefixledger.errors import InputError
from prefixledger.ingest.block_size import check_fit
from prefixledger.ingest.chunks import Chunk, Chunker, Cut
from prefixledger.ingest.collect import Collected
from prefixledger.ingest.columnar import columnar_batches
from prefixledger.ingest.detect import BOM
from prefixledger.ingest.pieces import parse_piece
from prefixledger.ingest.ranges import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prefixledger.config.mapping import Mapping
    from prefixledger.engine import Engine
    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.container import Stream
    from prefixledger.ingest.detect import Detected
    from prefixledger.ingest.options import IngestOptions
    from prefixledger.ingest.reader import Context

MAX_DOCUMENT_BYTES: Final = 1 << 30
"""A document must fit into memory whole; JSONL need not."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """An input that was read to its end and is not yet settled.

    Attributes:
        source: Name of the source.
        collected: All of it.
        detected: What it is.
        stream: Its bytes, used up.
    """

    source: str
    collected: Collected
    detected: Detected
    stream: Stream


def read_input(
    stream: Stream,
    detected: Detected,
    options: IngestOptions,
    mapping: Mapping | None,
    *,
    aside: Path,
    engine: Engine,
    progress: Callable[[Stream, Collected], None],
    read: Iterator[Batch] | None = None,
) -> Parsed:
    """Parse all of an input; ``read`` is what was parsed of it already.

    Raises:
        InputError: It holds nothing that can be read.
        UsageError: Its block ids do not fit the block size.
    """
    scope = options.id_scope or (mapping.id_scope if mapping is not None else None)
    info = detected.reader.info
    collected = Collected(aside, info.name, info.id_scope, forced_scope=scope)
    for batch in read or batches_of(stream, detected, options.chunk_bytes, aside, engine):
        collected.add(batch)
        progress(stream, collected)
    collected.finish()
    if not collected.records.fate:
        why = stream.state.fault or "it holds no record"
        raise InputError(why, place=stream.source.place)
    sizes = {namespace.block_size for namespace in collected.namespaces.listed()} - {0}
    check_fit(collected.fit, detected.context, sizes, stream.source.place)
    return Parsed(stream.name, collected, detected, stream)


def batches_of(
    stream: Stream, detected: Detected, chunk_bytes: int, aside: Path, engine: Engine
) -> Iterator[Batch]:
    """Yield all of an input, parsed.

    Raises:
        InputError: It cannot be read to its end.
        UsageError: It lacks a column that the map names.
    """
    context = detected.context
    if detected.columnar is not None:
        path = _as_file(stream, aside)
        yield from columnar_batches(path, detected.columnar, context, stream.source.place, engine)
        if path == stream.source.path:
            stream.check_unchanged()
    elif context.document:
        yield from parse_piece(context, _document(stream))
    else:
        yield from batches(_chunks(stream, context, chunk_bytes), stream, context, engine)


def _chunks(stream: Stream, context: Context, chunk_bytes: int) -> Iterator[Chunk]:
    chunker: Chunker | None = None
    for block in stream.blocks():
        data = block
        if chunker is None:
            data = block.removeprefix(BOM)
            quoted = context.shape == "csv"
            chunker = Chunker(chunk_bytes, quoted=quoted, offset=len(block) - len(data))
        for at in range(0, len(data), chunk_bytes):
            yield from chunker.feed(data[at : at + chunk_bytes])
    if chunker is not None:
        yield from chunker.finish(cut=stream.state.fault is not None)


def _document(stream: Stream) -> Chunk:
    data = bytearray()
    for block in stream.blocks():
        data += block
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InputError(
                "one JSON document of more than 1 GiB",
                place=stream.source.place,
                hint="jq -c '.[]' FILE > FILE.jsonl",
            )
    text = bytes(data)
    whole = text.removeprefix(BOM)
    cut: Cut = "surely" if stream.state.fault else "perhaps"
    return Chunk(whole, 1, len(text) - len(whole), cut)


def _as_file(stream: Stream, aside: Path) -> Path:
    """Return the unpacked input as a file that can be read at any place; its digest is taken on the way."""
    if stream.source.path is not None and stream.state.raw_total is not None and not stream.state.layers:
        for _ in stream.blocks():
            pass
        return stream.source.path
    path = aside / "unpacked"
    with path.open("wb") as out:
        for block in stream.blocks():
            out.write(block)
    return path
