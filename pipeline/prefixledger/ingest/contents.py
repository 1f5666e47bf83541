"""What every prompt of an input is made of, piece by piece, whatever stands before each piece; no text is kept."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.forest_kernel import sums_down
from prefixledger.ingest.text.plan import MARK, split_header
from prefixledger.ingest.text.volatile import find_marks, masked, written
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.content_kernel import LENGTH_MASK, cut_pieces, name_pieces
from prefixledger.kernels.path_forest import PathForest
from prefixledger.kernels.paths import expand_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.text.finish import TextKeys
    from prefixledger.ingest.text.store import TextStore
    from prefixledger.ingest.text.volatile import Mark

    _Cut = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]

TOKEN_CUTS: Final = (8, 7, 8, 64)
"""Window, anchor bits, shortest and longest piece of token ids: 16 tokens on average."""
TEXT_CUTS: Final = (16, 31, 32, 256)
"""The same of text in bytes, 64 on average: some 16 tokens."""
KINDS: Final = ("tools", "system", "message")
_MESSAGE: Final = KINDS.index("message")
_NO_CUT: Final = (np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64))
_SYSTEM: Final = (b"system", b"developer")
MESSAGE_BYTES: Final = 1_024
"""Of a message no more is searched for what changes from call to call: clients put a time or a state at its beginning,
and most text of a log is messages."""
_GROUP_BYTES: Final = 1 << 20
"""Text that is widened to 64 bits at a time: 8 MB."""
_GROUP_TOKENS: Final = 1 << 22
"""Token ids that are widened to 64 bits at a time: 32 MB."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is known of a piece of text with marks besides its name.

    Attributes:
        mask_hi: High half of the name of its mask; equal masks differ in nothing but marks.
        mask_lo: Low half.
        marks: ``class:start:length:value`` of each mark, start and length in bytes, parted by ``;``.
    """

    mask_hi: int
    mask_lo: int
    marks: str


class ContentStore:
    """Prompts as paths over pieces, grown batch by batch: some 50 bytes for each distinct piece behind each beginning.

    Attributes:
        forest: The paths; token ids and parts of given length below root 0, text below 1 + its namespace.
        node: Last piece of each row, -1 where nothing of its content is known.
        pieces: Pieces of text that have marks, by name; all others are their own masks.
    """

    def __init__(self) -> None:
        """Begin an input."""
        self.forest = PathForest()
        self.node: array[int] = array("q")
        self.pieces: dict[tuple[int, int], Piece] = {}
        self._text_ends: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._kinds: list[tuple[NDArray[np.int64], NDArray[np.int8]]] = []

    def add_tokens(
        self, tokens: NDArray[np.unsignedinteger], counts: NDArray[np.int64], known: NDArray[np.bool_]
    ) -> None:
        """Take the next rows.

        Args:
            tokens: Token ids of the rows that have any, one behind the other.
            counts: int64[n], ids of each row, -1 where it has none.
            known: bool[n], rows whose ids say all of their content; an image does not lie in its ids.
        """
        node = np.full(counts.size, -1, np.int64)
        rows = np.flatnonzero(counts >= 0)
        if rows.size:
            offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64)
            group = offsets[:-1] // _GROUP_TOKENS
            for number in np.unique(group).tolist():
                chosen = np.flatnonzero(group == number)
                first, last = int(chosen[0]), int(chosen[-1]) + 1
                node[rows[first:last]] = self._walk(tokens, offsets[first : last + 1])
            node[rows[~known[rows]]] = -1
        self.node.frombytes(node.tobytes())

    def add_unknown(self, n_rows: int) -> None:
        """Take rows of whose content nothing is known."""
        self.node.frombytes(np.full(n_rows, -1, np.int64).tobytes())

    def add_parts(self, store: TextStore) -> None:
        """Take the rows whose parts were logged with their lengths, once all are known."""
        lengths = np.array([-1 if part.n_tokens is None else part.n_tokens for part in store.parts], np.int64)
        if not (lengths >= 0).any():
            return
        high, low = _part_names(b"".join([part.raw for part in store.parts]), lengths)
        for at, part in enumerate(store.parts):
            if part.masked is not None and part.marks:
                (mask_high,), (mask_low,) = _part_names(part.masked, np.zeros(1, np.int64))
                name = int(high[at]), int(low[at])
                self.pieces.setdefault(name, Piece(int(mask_high), int(mask_low), part.marks))
        code = {kind: number for number, kind in enumerate(KINDS)}
        kinds = np.array([code[part.kind] for part in store.parts], np.int8)
        forest = store.part_forest
        number = forest.label_lo.astype(np.int64)
        depth = sums_down(forest.parent, np.ones_like(forest.parent))
        whole = sums_down(forest.parent, (lengths[number] >= 0).astype(np.int64)) == depth
        rows, node = np.array(store.rows, np.int64), np.array(store.part_node, np.int64)
        held = np.frombuffer(self.node, np.int64)[rows] if rows.size else rows
        chosen = np.flatnonzero((node >= 0) & (held < 0))
        chosen = chosen[whole[node[chosen]]]
        counts = depth[node[chosen]]
        path = number[expand_paths(forest.parent, node[chosen], counts)]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        last = self.forest.add(np.zeros(chosen.size, np.int64), offsets, high[path], low[path])
        self._kinds.append((expand_paths(self.forest.parent, last, counts), kinds[path]))
        np.frombuffer(self.node, np.int64)[rows[chosen]] = last

    def add_text(self, store: TextStore, keys: TextKeys) -> None:
        """Take the rows whose keys are made of text, once those are known.

        Args:
            store: The text; its units are cut one by one.
            keys: How many tokens each beginning has.
        """
        forest = store.unit_forest
        parent, unit = np.asarray(forest.parent), forest.label_lo.astype(np.int64)
        if not parent.size:
            return
        cut, kinds = self._cut_units(store)
        counts = np.array([ends.size for ends, _, _ in cut], np.int64)
        end_tokens = keys.unit_tokens
        depth = np.asarray(sums_down(parent, np.ones_like(parent)))
        order = np.argsort(depth, kind="stable")
        last = np.empty(parent.size, np.int64)
        root = keys.unit_root
        for nodes in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
            above = parent[nodes]
            start = np.where(above >= 0, last[np.maximum(above, 0)], -2 - root[nodes])
            own = counts[unit[nodes]]
            offsets = np.concatenate([[0], np.cumsum(own)]).astype(np.int64)
            names = [cut[number] for number in unit[nodes].tolist()]
            high, low = (np.concatenate([name[half] for name in names]) for half in (1, 2))
            last[nodes] = self.forest.extend(start, offsets, high, low)
            before = np.where(above >= 0, end_tokens[np.maximum(above, 0)], 0)
            share = np.concatenate(
                [name[0] / max(int(name[0][-1]), 1) if name[0].size else name[0] for name in names]
            )
            each = np.repeat(np.arange(nodes.size), own)
            ends = before[each] + np.rint((end_tokens[nodes] - before)[each] * share).astype(np.int64)
            path = expand_paths(self.forest.parent, last[nodes], own)
            self._text_ends.append((path, ends))
            self._kinds.append((path, kinds[unit[nodes]][each]))
        rows = np.array(store.rows, np.int64)
        for row, found in zip(rows.tolist(), np.array(store.unit_node, np.int64).tolist(), strict=True):
            if found >= 0:
                self.node[row] = int(last[found])

    def end_tokens(self) -> NDArray[np.int64]:
        """Return int64[pieces], tokens from the start of the prompt to the end of each piece."""
        lengths = (self.forest.label_lo & np.uint64(LENGTH_MASK)).astype(np.int64)
        ends = np.asarray(sums_down(self.forest.parent, lengths)) if lengths.size else lengths
        for nodes, tokens in self._text_ends:
            ends[nodes] = tokens
        return ends

    def kinds(self) -> NDArray[np.int8]:
        """Return int8[pieces], index into ``KINDS`` of the part that each piece is in, -1 where that is not known."""
        found = np.full(len(self.forest), -1, np.int8)
        for nodes, kinds in self._kinds:
            found[nodes] = kinds
        return found

    def _walk(self, tokens: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        values = read_only(tokens[offsets[0] : offsets[-1]], np.uint64)
        counts, ends = cut_pieces(values, read_only(offsets - offsets[0], np.int64), *TOKEN_CUTS)
        high, low = name_pieces(values, _begins(ends), read_only(ends, np.int64))
        bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return self.forest.add(np.zeros(counts.size, np.int64), bounds, high, low)

    def _cut_units(self, store: TextStore) -> tuple[list[_Cut], NDArray[np.int8]]:
        """Return the end of each piece of every unit in bytes, and both halves of its name; and the kind of every unit."""
        cut: list[_Cut] = [_NO_CUT] * len(store.unit_lengths())
        kinds = np.empty(len(cut), np.int8)
        plain: dict[int, bytes] = {}
        held = 0
        for number in range(len(cut)):
            text = store.unit(number)
            kinds[number] = kind = _kind(split_header(text)[0])
            marks = find_marks(text, MESSAGE_BYTES if kind == _MESSAGE else None)
            if marks:
                cut[number] = self._cut_marked(text, marks)
                continue
            plain[number] = text  # most units are their own masks, and are cut many at a time
            held += len(text)
            if held >= _GROUP_BYTES:
                _cut_plain(plain, cut)
                plain, held = {}, 0
        _cut_plain(plain, cut)
        return cut, kinds

    def _cut_marked(self, text: bytes, marks: list[Mark]) -> _Cut:
        """Cut a text where its mask is cut, and keep what is known of its pieces."""
        raw = read_only(np.frombuffer(text, np.uint8), np.uint64)
        letters, behind = masked(text, marks)
        offsets = read_only([0, letters.size], np.int64)
        _, cuts = cut_pieces(read_only(letters, np.uint64), offsets, *TEXT_CUTS)
        ends = behind[cuts - 1]
        high, low = name_pieces(raw, _begins(ends), read_only(ends, np.int64))
        mask_high, mask_low = name_pieces(
            read_only(letters, np.uint64), _begins(cuts), read_only(cuts, np.int64)
        )
        owner = np.searchsorted(ends, [mark.start for mark in marks], side="right").tolist()
        begins = _begins(ends).tolist()
        told: dict[int, list[Mark]] = {}
        for mark, piece in zip(marks, owner, strict=True):
            told.setdefault(piece, []).append(mark)
        for at, inside in told.items():
            name = int(high[at]), int(low[at])
            if name not in self.pieces:
                shown = written(inside, begins[at])
                self.pieces[name] = Piece(int(mask_high[at]), int(mask_low[at]), shown)
        return ends, high, low


def _cut_plain(texts: dict[int, bytes], cut: list[_Cut]) -> None:
    """Cut texts without marks, and set them at their places."""
    if not any(texts.values()):
        return
    lengths = np.array([len(text) for text in texts.values()], np.int64)
    offsets = read_only(np.concatenate([[0], np.cumsum(lengths)]), np.int64)
    values = read_only(np.frombuffer(b"".join(texts.values()), np.uint8), np.uint64)
    counts, ends = cut_pieces(values, offsets, *TEXT_CUTS)
    high, low = name_pieces(values, _begins(ends), read_only(ends, np.int64))
    first = 0
    for number, begin, count in zip(texts, offsets.tolist(), counts.tolist(), strict=False):
        own = slice(first, first + count)
        cut[number] = ends[own] - begin, high[own], low[own]
        first += count


def _begins(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    return read_only(np.concatenate([[0], ends[:-1]]), np.int64)


def _kind(header: bytes) -> int:
    """Return the kind of a part by the header of its unit, -1 where it has none, as with a template."""
    if not header:
        return -1
    name = header.strip(MARK)
    return KINDS.index("system" if name in _SYSTEM else "tools" if name == b"tools" else "message")


def _part_names(digests: bytes, lengths: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return uint64[n] twice, the names of parts: their digests, and in the low bits their lengths in tokens."""
    halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
    short = np.minimum(lengths, LENGTH_MASK).astype(np.uint64)
    return halves[:, 0].astype(np.uint64), (halves[:, 1] & ~np.uint64(LENGTH_MASK)) | short
