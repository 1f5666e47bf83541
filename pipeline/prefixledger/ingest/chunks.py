"""Cuts a stream into chunks of whole records, and a chunk into records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORD_BYTES: Final = 100_000_000
"""A record above this is rejected unread, so that one endless line cannot fill the memory."""
CHUNK_BYTES: Final = 8 << 20
_KEPT_OF_OVERSIZE = 600
_COUNTED_BYTES = 1 << 17
_LINE_END = ord("\n")
_NEAR_BYTES = 64  # most lines end in one byte of white space
_QUOTED_END = re.compile(rb'"|\n')
_PARTIAL = re.compile(rb"\S{10,40} (std(?:out|err)) P ")
_PART = re.compile(rb"\S{10,40} (std(?:out|err)) [PF] ?")
"""Kubernetes splits lines at 16 KiB: ``<time> stdout P <piece>`` … ``<time> stdout F <last piece>``."""

Cut = Literal["no", "perhaps", "surely"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole records in a row.

    Attributes:
        data: Their bytes, each record but perhaps the last with its line end.
        first_line: 1-based number of the first line.
        offset: Where it begins in the decompressed stream.
        cut: Whether the last record may have lost its end: ``perhaps`` where it has no line end, ``surely`` where
            the input is known to be cut.
        oversize_bytes: Above 0 where the chunk is one record of that size, of which only the beginning is kept.
        line_ends: Line ends in it; -1 where nobody counted them.
    """

    data: bytes
    first_line: int
    offset: int
    cut: Cut = "no"
    oversize_bytes: int = 0
    line_ends: int = -1


class Chunker:
    """Collects the pieces of a stream and gives them back as chunks of whole records."""

    def __init__(self, chunk_bytes: int, *, quoted: bool, line: int = 1, offset: int = 0) -> None:
        """Begin a stream.

        Args:
            chunk_bytes: Size to aim at; a chunk is larger where one record is.
            quoted: True for CSV, where a line end inside quotes ends no record.
            line: Number of the first line.
            offset: Bytes that lie before it.
        """
        self._chunk_bytes = chunk_bytes
        self._quoted = quoted
        self._line = line
        self._offset = offset
        self._blocks: list[bytes] = []
        self._held = 0
        self._end = 0
        self._join_at = chunk_bytes
        self._open_quote = False
        self._oversize = b""
        self._oversize_bytes = 0
        self._oversize_lines = 0

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """Take the next bytes of the stream and yield the chunks that are full."""
        if self._oversize_bytes:
            end = data.find(b"\n") + 1
            self._oversize_bytes += end or len(data)
            if not end:
                return
            yield self._take_oversize()
            data = data[end:]
        self._hold(data)
        while self._held >= self._join_at:
            whole, rest = self._cut()
            if whole and (first := _first_oversize(whole, quoted=self._quoted)):
                self._begin_oversize(whole[:first])
                self._oversize_lines -= 1  # its own end, which counts when it is taken
                yield self._take_oversize()
                self._let_go(b"")
                self._hold(whole[first:] + rest)
            elif whole:
                yield self._taken(whole, "no")
            elif self._held > MAX_RECORD_BYTES:
                self._begin_oversize(rest)
                self._let_go(b"")
            else:
                # What has no end yet is not looked at again before it has grown by half: it may grow to 100 MB.
                self._join_at = min(self._held + self._held // 2, MAX_RECORD_BYTES + 1)
                return

    def finish(self, *, cut: bool) -> Iterator[Chunk]:
        """Yield what is left; ``cut`` says that the stream is known to lack its end."""
        if self._oversize_bytes:
            yield self._take_oversize()
        whole, rest = self._cut()
        if whole:
            yield self._taken(whole, "no")
        if rest:
            yield self._taken(rest, "surely" if cut else "perhaps")

    def _hold(self, data: bytes) -> None:
        """Keep a block until a chunk is full, and note where the last record in it ends."""
        if not data:
            return
        if not self._quoted or (not self._open_quote and b'"' not in data):
            end = data.rfind(b"\n") + 1
        else:
            end = 0
            for match in _QUOTED_END.finditer(data):
                if match[0] == b'"':
                    self._open_quote = not self._open_quote
                elif not self._open_quote:
                    end = match.end()
        if end:
            self._end = self._held + end
        self._blocks.append(data)
        self._held += len(data)

    def _cut(self) -> tuple[bytes, bytes]:
        """Return whole records and the beginning of the next; where that is all there is, it stays held.

        Each byte is copied once, as the blocks are joined: only the one in which the last record ends is cut.
        """
        before, behind = self._blocks, []
        start = self._held
        while start > self._end:
            last = before.pop()
            start -= len(last)
            at = max(self._end - start, 0)
            behind.append(last[at:])
            if at:
                before.append(last[:at])
        whole, rest = b"".join(before), b"".join(reversed(behind))
        end = len(whole) if self._quoted else _whole(whole)
        if end < len(whole):
            whole, rest = whole[:end], whole[end:] + rest
        self._let_go(rest)
        return whole, rest

    def _let_go(self, rest: bytes) -> None:
        """Hold only what has no end of a record."""
        self._blocks, self._held, self._end, self._join_at = [rest], len(rest), 0, self._chunk_bytes

    def _taken(self, data: bytes, cut: Cut) -> Chunk:
        chunk = Chunk(data, self._line, self._offset, cut, line_ends=_count_line_ends(data))
        self._line += chunk.line_ends
        self._offset += len(data)
        return chunk

    def _begin_oversize(self, data: bytes) -> None:
        self._oversize = data[:_KEPT_OF_OVERSIZE]
        self._oversize_bytes = len(data)
        self._oversize_lines = _count_line_ends(data)
        self._open_quote = False

    def _take_oversize(self) -> Chunk:
        chunk = Chunk(self._oversize, self._line, self._offset, oversize_bytes=self._oversize_bytes)
        self._line += self._oversize_lines + 1
        self._offset += self._oversize_bytes
        self._oversize_bytes = 0
        return chunk


def _whole(data: bytes) -> int:
    """Step back from the end of some lines over those that are pieces of one which goes on behind them.

    Blank lines between them are stepped over, too: pieces are joined over those wherever a chunk ends.
    """
    end = at = len(data)
    while at:
        at = _text_end(data, at)
        start = data.rfind(b"\n", 0, at) + 1
        if _PARTIAL.match(data, start, min(end, start + 64)) is None:
            break
        end = at = start
    return end


def _text_end(data: bytes, end: int) -> int:
    """Return where the last text before a place ends; no byte is copied but the last few, unless those are all blank."""
    near = data[max(end - _NEAR_BYTES, 0) : end]
    text = near.rstrip()
    return end - len(near) + len(text) if text else len(data[:end].rstrip())


def _first_oversize(data: bytes, *, quoted: bool) -> int:
    """Return the bytes of the first record where it ends and is too long all the same, else 0."""
    if quoted or len(data) <= MAX_RECORD_BYTES:
        return 0
    first = data.find(b"\n") + 1
    return first if first > MAX_RECORD_BYTES else 0


def _count_line_ends(data: bytes) -> int:
    """Count them a piece at a time, in half the time that ``bytes.count`` takes."""
    held = np.frombuffer(data, np.uint8)
    pieces = (held[at : at + _COUNTED_BYTES] for at in range(0, len(data), _COUNTED_BYTES))
    return sum(int(np.count_nonzero(piece == _LINE_END)) for piece in pieces)


def lines(chunk: Chunk) -> Iterator[tuple[int, int, bytes]]:
    r"""Yield 1-based line, byte offset and bytes of each line that is not blank; only ``\n`` ends a line.

    A line that a container runtime split is put together again, under the number of its first piece.
    """
    split = b" stdout P " in chunk.data or b" stderr P " in chunk.data
    return _joined(_lines(chunk)) if split else _lines(chunk)


def _lines(chunk: Chunk) -> Iterator[tuple[int, int, bytes]]:
    offset = chunk.offset
    for number, raw in enumerate(chunk.data.split(b"\n"), start=chunk.first_line):
        if raw and not raw.isspace():
            yield number, offset, raw
        offset += len(raw) + 1


def _joined(split: Iterator[tuple[int, int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Join pieces that follow each other; where a line of another stream stands between, they stay what they are."""
    held: tuple[int, int, bytes] | None = None
    stream = b""
    for number, offset, raw in split:
        match = _PART.match(raw)
        if held is not None and match is not None and match[1] == stream:
            whole = (*held[:2], held[2] + raw[match.end() :])
        else:
            if held is not None:
                yield held
            whole = (number, offset, raw)
        if match is not None and _PARTIAL.match(raw):
            held, stream = whole, match[1]
        else:
            held = None
            yield (*whole[:2], _as_full(whole[2]))
    if held is not None:
        yield held


def _as_full(raw: bytes) -> bytes:
    """Return a line that was put together as one that never was split."""
    match = _PARTIAL.match(raw)
    return raw if match is None else raw[: match.end() - 2] + b"F" + raw[match.end() - 1 :]


def csv_records(chunk: Chunk) -> Iterator[tuple[int, int, bytes]]:
    """Yield first line, byte offset and bytes of each CSV record; a line end inside quotes belongs to it."""
    if b'"' not in chunk.data:
        yield from _lines(chunk)  # no runtime writes CSV, so nothing is put together
        return
    start, line, open_quote = 0, chunk.first_line, False
    for match in _QUOTED_END.finditer(chunk.data):
        if match[0] == b'"':
            open_quote = not open_quote
        elif not open_quote:
            raw = chunk.data[start : match.start()]
            if raw and not raw.isspace():
                yield line, chunk.offset + start, raw
            line += raw.count(b"\n") + 1
            start = match.end()
    if chunk.data[start:].strip():
        yield line, chunk.offset + start, chunk.data[start:]
