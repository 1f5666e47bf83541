"""Recognises what was read before: request ids, and stretches of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.workspace import write_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

MIN_STRETCH: Final = 1_000
"""Fewer equal lines in a row are coincidence."""
_WINDOW: Final = MIN_STRETCH // 2
"""Earlier inputs are cut into windows of this size; a stretch twice as long holds a whole one, wherever it begins."""
_MAX_PLACES: Final = 16
"""Places remembered of one window: a log of equal lines would have it everywhere."""
_STEP: Final = 4_096
_TOLD_BITS: Final = 16
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_INVERSE: Final = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
_ID: Final = np.dtype([("hi", np.uint64), ("lo", np.uint64)])
_CALL: Final = np.dtype([*_ID.descr, ("at", np.int64)])
"""A call that was read: its id, and when it started."""
NO_START: Final = np.iinfo(np.int64).min
"""Start of a call whose start is not known."""


class Seen:
    """Hashes of the ids and lines of earlier inputs, kept beside the rows in ``seen/``."""

    def __init__(self, folder: Path, sources: Iterable[str]) -> None:
        """Read what earlier inputs left.

        Args:
            folder: The folder.
            sources: Names of the inputs that count.
        """
        self._folder = folder
        self._ids: list[NDArray[np.void]] = []
        self._lines: dict[str, NDArray[np.uint64]] = {}
        self._anchors: dict[int, list[tuple[str, int]]] = {}
        for source in sources:
            ids, lines = self._path("ids", source), self._path("lines", source)
            if ids.is_file():
                table = pq.read_table(ids)
                starts = table["at"].to_numpy() if "at" in table.column_names else None
                self._add_ids(_pairs(table["hi"].to_numpy(), table["lo"].to_numpy()), starts)
            if lines.is_file():
                self._add_anchors(source, pq.read_table(lines)["digest"].to_numpy())

    def forget(self, source: str) -> None:
        """Delete from disk what an input left; what was read from it in this call still counts."""
        self._path("ids", source).unlink(missing_ok=True)
        self._path("lines", source).unlink(missing_ok=True)

    def add(
        self,
        source: str,
        ids: NDArray[np.void],
        lines: NDArray[np.uint64],
        started_us: NDArray[np.int64] | None = None,
    ) -> None:
        """Remember an input, on disk too.

        Args:
            source: Its name.
            ids: (hi, lo)[n], hashes of its request ids.
            lines: uint64[m], hashes of its lines in order; empty where it has none.
            started_us: int64[n], when those requests started; None where that is not known.
        """
        if ids.size:
            starts = _starts(ids.size, started_us)
            write_table(self._path("ids", source), pa.table({"hi": ids["hi"], "lo": ids["lo"], "at": starts}))
            self._add_ids(ids, starts)
        if lines.size >= MIN_STRETCH:
            write_table(self._path("lines", source), pa.table({"digest": lines}), {"digest": "PLAIN"})
            self._add_anchors(source, lines)

    def known_ids(self, ids: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which of some ids an earlier input had.

        Args:
            ids: (hi, lo)[n].
        """
        return self.known_calls(ids)[0]

    def known_calls(self, ids: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of some ids an earlier input had, and when those calls started there.

        Args:
            ids: (hi, lo)[n].

        Returns:
            bool[n] and int64[n], microseconds since 1970, ``NO_START`` where that is not known.
        """
        known, started_us = np.zeros(ids.size, np.bool_), np.full(ids.size, NO_START)
        wanted = _calls(ids, started_us)
        for run in self._ids:
            at = np.minimum(np.searchsorted(run, wanted), run.size - 1)
            here = (run["hi"][at] == ids["hi"]) & (run["lo"][at] == ids["lo"])
            known |= here
            started_us[here] = run["at"][at[here]]
        return known, started_us

    def known_lines(self, lines: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which lines belong to a stretch of at least 1,000 that was seen before, here or in an earlier input.

        Args:
            lines: uint64[n], hashes of the lines in order.
        """
        known = np.zeros(lines.size, np.bool_)
        if lines.size < MIN_STRETCH:
            return known
        own = dict(self._anchors)
        for key, start in _anchors(lines):
            places = own.get(key, [])
            if len(places) < _MAX_PLACES:
                own[key] = [*places, ("", start)]
        windows = _window_hashes(lines)
        starts = _members(windows, np.fromiter(own, np.uint64, len(own)))
        at = 0
        for start in starts.tolist():
            if start < at:
                continue
            first, end = self._longest(lines, start, own[int(windows[start])])
            if end - first >= MIN_STRETCH:
                known[first:end] = True
                at = end
        return known

    def _longest(
        self, lines: NDArray[np.uint64], start: int, places: list[tuple[str, int]]
    ) -> tuple[int, int]:
        """Return the longest stretch around ``start`` that equals earlier lines."""
        best = (start, start)
        for source, there in places:
            earlier = lines if source == "" else self._lines[source]
            if source == "" and there >= start:
                continue
            back = _equal(lines[:start][::-1], earlier[:there][::-1])
            ahead = _equal(lines[start:], earlier[there:])
            if source == "":  # a stretch and its original share no line
                back = min(back, start - there)
                ahead = min(ahead, start - there - back)
            if ahead + back > best[1] - best[0]:
                best = (start - back, start + ahead)
        return best

    def _add_ids(self, ids: NDArray[np.void], started_us: NDArray[np.int64] | None) -> None:
        """Keep a few sorted runs, each at least twice as large as the next, so that adding stays cheap."""
        if ids.size == 0:
            return
        self._ids.append(np.sort(_calls(ids, _starts(ids.size, started_us))))
        while len(self._ids) > 1 and self._ids[-2].size < 2 * self._ids[-1].size:
            last = self._ids.pop()
            self._ids[-1] = np.sort(np.concatenate([self._ids[-1], last]))

    def _add_anchors(self, source: str, lines: NDArray[np.uint64]) -> None:
        self._lines[source] = lines
        for key, start in _anchors(lines):
            places = self._anchors.setdefault(key, [])
            if len(places) < _MAX_PLACES:
                places.append((source, start))

    def _path(self, kind: str, source: str) -> Path:
        return self._folder / kind / f"{source}.parquet"


def first_of_each(
    ids: NDArray[np.void], started_us: NDArray[np.int64], fullness: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Return which rows are the first of their id: the earliest, and among equal times the first in the file.

    Args:
        ids: (hi, lo)[n].
        started_us: int64[n].
        fullness: int64[n]; where given, the row with the most counts, and only at equal numbers the earliest.
    """
    rank = np.zeros_like(started_us) if fullness is None else -fullness
    order = np.lexsort((started_us, rank, ids["lo"], ids["hi"]))
    ordered = ids[order]
    first = np.ones(ids.size, np.bool_)
    first[order[1:]] = ordered[1:] != ordered[:-1]
    return first


def id_pairs(hashes: bytes | bytearray) -> NDArray[np.void]:
    """Return (hi, lo)[n] of hashes of 16 bytes each."""
    return np.frombuffer(hashes, _ID)


def count_identical(digests: NDArray[np.uint64]) -> int:
    """Return how many of some lines equal an earlier one of them."""
    ordered = np.sort(digests)  # ten times as fast as np.unique, which builds a set
    return int((ordered[1:] == ordered[:-1]).sum())


def _pairs(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.void]:
    pairs = np.empty(high.size, _ID)
    pairs["hi"], pairs["lo"] = high, low
    return pairs


def _calls(ids: NDArray[np.void], started_us: NDArray[np.int64]) -> NDArray[np.void]:
    calls = np.empty(ids.size, _CALL)
    calls["hi"], calls["lo"], calls["at"] = ids["hi"], ids["lo"], started_us
    return calls


def _starts(n: int, started_us: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return np.full(n, NO_START) if started_us is None else started_us


def _window_hashes(lines: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each window of ``_WINDOW`` lines: a polynomial modulo 2**64, shifted to begin at power 0."""
    n = lines.size
    power = np.cumprod(np.concatenate([[np.uint64(1)], np.full(n - 1, _FACTOR)]), dtype=np.uint64)
    inverse = np.cumprod(np.concatenate([[np.uint64(1)], np.full(n - 1, _INVERSE)]), dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lines * power, dtype=np.uint64)])
    count = n - _WINDOW + 1
    return np.asarray((sums[_WINDOW:] - sums[:count]) * inverse[:count])


def _anchors(lines: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Return hash and start of every window that begins at a multiple of its size."""
    if lines.size < _WINDOW:
        return []
    starts = range(0, lines.size - _WINDOW + 1, _WINDOW)
    return list(zip(_window_hashes(lines)[::_WINDOW].tolist(), starts, strict=True))


def _members(hashes: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where hashes are among those wanted; most are told by 16 of their bits, and only the rest is sorted."""
    marks = np.zeros(1 << _TOLD_BITS, np.bool_)
    shift = np.uint64(64 - _TOLD_BITS)
    marks[(wanted >> shift).view(np.int64)] = True
    perhaps = np.flatnonzero(marks[(hashes >> shift).view(np.int64)])
    return perhaps[np.isin(hashes[perhaps], wanted)]


def _equal(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """Return how many leading items are equal, looking no further than a step behind the first difference."""
    n = min(one.size, other.size)
    for start in range(0, n, _STEP):
        end = min(start + _STEP, n)
        differs = np.flatnonzero(one[start:end] != other[start:end])
        if differs.size:
            return start + int(differs[0])
    return n
