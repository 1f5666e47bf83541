"""One task of reading a log: a chunk as bytes, or where its bytes lie, which the task then reads itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from prefixledger import objects
from prefixledger.errors import InputError, Place
from prefixledger.ingest.labels import with_labels
from prefixledger.ingest.parse import parse_chunk

if TYPE_CHECKING:
    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.chunks import Chunk
    from prefixledger.ingest.reader import Context


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A chunk whose bytes stay where they are.

    Attributes:
        chunk: The chunk without its data.
        at: The file, absolute, or the URL; every machine that runs tasks must see it there.
        place: How the user named it.
        length: Bytes from ``chunk.offset`` on.
        digest: Of these bytes as they were when the source was named after them.
    """

    chunk: Chunk
    at: str
    place: str
    length: int
    digest: bytes

    def read(self) -> Chunk:
        """Return the chunk with its bytes.

        Raises:
            InputError: They cannot be read here, or are no longer those that were seen first.
        """
        offset = self.chunk.offset
        try:
            if objects.is_url(self.at):
                data = objects.read_part(self.at, offset, self.length)
            else:
                with Path(self.at).open("rb") as file:
                    file.seek(offset)
                    data = file.read(self.length)
        except OSError as error:
            raise self._unread(error) from error
        if digest_of(data) != self.digest:
            raise InputError(
                "it was written to while it was read, or a worker sees another file there",
                place=Place(self.place),
                hint="wait until it is complete, then run the command again",
            )
        return replace(self.chunk, data=data)

    def _unread(self, error: OSError) -> InputError:
        if not objects.is_url(self.at):
            hint = f"on every machine of the cluster it must lie at {self.at}"
        elif isinstance(error, FileNotFoundError):
            return InputError(
                "it was deleted while it was read",
                place=Place(self.place),
                hint="put it back and run the command again, which goes on from the inputs that are complete",
            )
        else:
            hint = "every machine of the cluster needs the region, the endpoint and credentials of the store"
        return InputError(
            f"a worker cannot read it: {error.strerror or error}", place=Place(self.place), hint=hint
        )


def parse_piece(context: Context, piece: Chunk | ByteRange) -> list[Batch]:
    """Turn one piece of a log into batches, keys of token blocks included; nothing is compiled or loaded for plain lines."""
    return [with_labels(parse_chunk(chunk_of(piece), context))]


def chunk_of(piece: Chunk | ByteRange) -> Chunk:
    """Return a piece with its bytes."""
    return piece.read() if isinstance(piece, ByteRange) else piece


def digest_of(data: bytes) -> bytes:
    """Return 16 bytes that stand for others."""
    return blake3(data).digest(16)
