"""Opens an input and unpacks gzip, zstd and bzip2, whatever its name says, in bounded memory."""

from __future__ import annotations

import bz2
import sys
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, Final

import zstandard
from blake3 import blake3

from prefixledger.errors import InputError
from prefixledger.ingest.opened import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prefixledger.ingest.sources import Source

_RAW_BLOCK: Final = 1 << 16
_OUT_BLOCK: Final = 1 << 20
_ZSTD_FIRST, _ZSTD_MOST = 1 << 8, 1 << 12
"""Compressed bytes given to zstd at once: what comes out is not limited otherwise, and 4 kB give 128 MB at worst."""
_MAX_WINDOW: Final = 1 << 31
_MAX_LAYERS: Final = 4
_SNIFFED: Final = 512
_HEAD_BYTES: Final = 1 << 16
_TAR_AT: Final = 257

_REFUSED: Final = (
    (b"PK\x03\x04", "it is a zip archive", "unzip it and give the folder"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive", "unpack it and give the folder"),
    (b"\xfd7zXZ\x00", "it is packed with xz", "xz -dc FILE | prefixledger … -"),
    (b"SQLite format 3\x00", "it is an SQLite database", "export the table as CSV or JSONL and give a --map"),
    (b"\xff\xfe", "it is UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"\xfe\xff", "it is UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE"),
    *(
        (
            bytes([0x80, version]),
            "it is a Python pickle, and loading a pickle runs the code in it",
            "export it as JSONL",
        )
        for version in range(2, 6)
    ),
)


@dataclass(slots=True)
class Unpacking:
    """What was found while unpacking.

    Attributes:
        layers: Names of the compressions, outermost first.
        fault: Why the input ends before its end, or None.
        raw_done: Bytes read so far, packed.
        raw_total: Packed size; None where it is unknown.
    """

    layers: list[str] = field(default_factory=list)
    fault: str | None = None
    raw_done: int = 0
    raw_total: int | None = None


class Stream:
    """The decompressed bytes of an input, once from front to end, with a look at the beginning."""

    def __init__(self, source: Source) -> None:
        """Open the input.

        Raises:
            InputError: It cannot be read, or is of a kind that is refused.
        """
        self.source = source
        self.state = Unpacking()
        self.bytes = 0
        self._digest = blake3()
        self._name = ""
        try:
            self._opened = opened(source)
            self.state.raw_total = self._opened.size
            self._blocks = _unpacked(_raw_blocks(self._opened.file, self.state), self.state)
            self._head = bytearray(next(self._blocks, b""))
        except OSError as error:
            raise InputError(f"cannot read it: {error.strerror or error}", place=source.place) from error
        self._refuse()

    def close(self) -> None:
        """Close the file; standard input is left open."""
        self._opened.close()

    @property
    def modified_us(self) -> int | None:
        """When the file was last written before it was opened, microseconds since 1970; None for standard input."""
        return self._opened.modified_us

    @property
    def version(self) -> tuple[int, ...] | None:
        """Tells apart what one path named at different times; None for standard input."""
        return self._opened.version

    def check_unchanged(self) -> None:
        """Make sure that the path still names the bytes that were read, for readers that open it themselves.

        Raises:
            InputError: It does not.
        """
        try:
            same = self._opened.version_now() == self.version
        except OSError:
            same = False
        if not same:
            raise InputError(
                "it was written to while it was read",
                place=self.source.place,
                hint="wait until it is complete, then run the command again",
            )

    def head(self, n_bytes: int) -> bytes:
        """Return at least the first ``n_bytes`` bytes, or all there are; nothing is used up."""
        while len(self._head) < n_bytes:
            block = next(self._blocks, None)
            if block is None:
                break
            self._head += block
        return bytes(self._head)

    def blocks(self) -> Iterator[bytes]:
        """Yield all bytes, in blocks.

        Raises:
            InputError: Reading failed on the way.
        """
        head, self._head = bytes(self._head), bytearray()
        try:
            if head:
                yield self._counted(head)
            for block in self._blocks:
                yield self._counted(block)
            if self._opened.is_shorter():
                self.state.fault = self.state.fault or "it was shortened while it was read"
            if self._opened.may_be_replaced:
                self.check_unchanged()
        except OSError as error:
            raise InputError(f"cannot read on: {error.strerror or error}", place=self.source.place) from error

    def was_read(self, name: str, n_bytes: int, state: Unpacking) -> None:
        """Take over what a task found that read all of it; nothing is left to read here."""
        self._name, self.bytes, self.state = name, n_bytes, state

    @property
    def name(self) -> str:
        """First 16 hex digits of the digest of all bytes yielded: the name of the source."""
        return self._name or self._digest.hexdigest()[:16]

    def _counted(self, block: bytes) -> bytes:
        self._digest.update(block)
        self.bytes += len(block)
        return block

    def _refuse(self) -> None:
        head = self.head(_SNIFFED)
        for magic, what, hint in _REFUSED:
            if head.startswith(magic):
                self.close()
                raise InputError(what, place=self.source.place, hint=hint)
        if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
            self.close()
            raise InputError(
                "it is a tar archive", place=self.source.place, hint="unpack it and give the folder"
            )


def head_digest(stream: Stream) -> str:
    """Return 32 hex digits that stand for the beginning of an input, by which one that was read before is looked for."""
    return blake2b(stream.head(_HEAD_BYTES)[:_HEAD_BYTES], digest_size=16).hexdigest()


def _raw_blocks(file: BinaryIO, state: Unpacking) -> Iterator[bytes]:
    """Yield a file as it was when it was opened: one that grows is read to where it ended then, whatever its speed."""
    most = state.raw_total or sys.maxsize  # files of the kernel say that they hold nothing
    while block := file.read(min(_RAW_BLOCK, most - state.raw_done)):
        state.raw_done += len(block)
        yield block


def _unpacked(blocks: Iterator[bytes], state: Unpacking) -> Iterator[bytes]:
    """Take off compressions until none is left; the first bytes decide, never the name."""
    for _ in range(_MAX_LAYERS):
        first = next(blocks, b"")
        while 0 < len(first) < 4 and (more := next(blocks, b"")):  # noqa: PLR2004  # the longest magic
            first += more
        blocks = _chained(first, blocks)
        layer = next((name for magic, name in _LAYERS if first.startswith(magic)), None)
        if layer is None:
            return blocks
        state.layers.append(layer)
        blocks = _frames(blocks, state, _DECODERS[layer])
    return blocks


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _frames(blocks: Iterator[bytes], state: Unpacking, make: Callable[[], _Decoder]) -> Iterator[bytes]:
    """Unpack one frame or member after the other; a fault ends the stream where it is."""
    decoder: _Decoder | None = None
    any_frame = False
    try:
        for block in blocks:
            data = block
            while data:
                if decoder is None:
                    data = data.lstrip(b"\0") if any_frame else data  # writers pad to whole sectors
                    if not data:
                        break
                    decoder, any_frame = make(), True
                yield from decoder.feed(data)
                data = decoder.rest
                if decoder.done:
                    decoder = None
    except (zlib.error, OSError, EOFError, zstandard.ZstdError, ValueError) as error:
        state.fault = state.fault or f"damaged: {error}"
        return
    if decoder is not None:
        state.fault = state.fault or "cut: the last frame has no end"


class _Decoder(ABC):
    """One frame: ``feed`` yields what comes out, ``done`` and ``rest`` tell what followed it."""

    done = False
    rest = b""

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress what follows."""


class _Gzip(_Decoder):
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._inner.decompress(data, _OUT_BLOCK)
            data = self._inner.unconsumed_tail
            if out:
                yield out
            if self._inner.eof or (not data and len(out) < _OUT_BLOCK):
                break
        self.done, self.rest = self._inner.eof, self._inner.unused_data


class _Bzip2(_Decoder):
    def __init__(self) -> None:
        self._inner = bz2.BZ2Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._inner.decompress(data, _OUT_BLOCK)
            data = b""
            if out:
                yield out
            if self._inner.eof or self._inner.needs_input:
                break
        self.done = self._inner.eof
        self.rest = self._inner.unused_data if self.done else b""


class _Zstd(_Decoder):
    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
        self._piece = _ZSTD_FIRST

    def feed(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            end = start + self._piece
            out = self._inner.decompress(data[start:end])
            if out:
                yield out
            if self._inner.eof:
                self.done = True
                self.rest = self._inner.unused_data + data[end:]
                return
            ratio = len(out) // self._piece
            self._piece = max(1, min(_ZSTD_MOST, 2 * self._piece, _OUT_BLOCK // (ratio + 1)))
            start = end
        self.rest = b""


_LAYERS: Final = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"))
_DECODERS: Final[dict[str, Callable[[], _Decoder]]] = {"gzip": _Gzip, "zstd": _Zstd, "bzip2": _Bzip2}
