"""Cuts a replay into stretches that are attributed apart, and carries into each what it says of requests before it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

PART_PIECES = 300_000
"""Requests and rows of facts of a part: a quarter of a million pieces of prompts take DuckDB some 300 MB, and each part costs
0.1 s of planning."""
_BATCH_ROWS = 1 << 16
_NAMING = ("in_flight_lookup", "own_previous", "else_previous", "removed_by")
"""Columns of facts that name another lookup."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What parts are cut from; everything else of a replay is read stretch by stretch.

    Attributes:
        folder: Of the replay.
        requests: All kept rows; a row's number is its place.
        lookups: ``request_row`` and ``admitted_at`` of all lookups; a lookup's number is its place.
        pieces: int64[lookups], rows of facts of each.
        changed: What ``20_causes/changed`` found, by change.
        turns: Facts for rows with usage and no keys, by row.
        opener_row: int64[rows], the request that began the conversation of each; -1 where none can be told.
        key: uint64[blocks, 2], little-endian words of the keys of blocks.
        small: Tables that every part is given whole.
    """

    folder: Path
    requests: pa.Table
    lookups: pa.Table
    pieces: NDArray[np.int64]
    changed: pa.Table
    turns: pa.Table
    opener_row: NDArray[np.int64]
    key: NDArray[np.uint64]
    small: dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Cut:
    """One part.

    Attributes:
        rows: int64[k], its requests, ascending.
        end_lookup: The first lookup behind it; it has all those from the end of the part before.
    """

    rows: NDArray[np.int64]
    end_lookup: int


def cuts(whole: Whole, parts: int | None = None) -> tuple[Cut, ...]:
    """Cut a replay into stretches of time.

    The books stand in order of admission, segments of rows without keys behind all others and in order of arrival; so that
    the parts can be put one behind the other, a cut lies where the time moves on, and where all rows without keys that
    come before it arrived before those behind it. A log that has no such place is one part.

    Args:
        whole: The replay.
        parts: How many there should be; None for as many as have ``PART_PIECES`` each.
    """
    n = len(whole.requests)
    lookup = np.full(n, -1)
    lookup[whole.lookups["request_row"].to_numpy()] = np.arange(len(whole.lookups))
    weight = np.ones(n, np.int64)
    weight[lookup >= 0] += whole.pieces[lookup[lookup >= 0]]
    wanted = -(-int(weight.sum()) // PART_PIECES) if parts is None else parts
    if wanted < 2:  # noqa: PLR2004  # most logs: nothing to sort
        return (Cut(np.arange(n), len(whole.lookups)),)
    at_us = _admitted_us(whole)
    order = np.lexsort((np.arange(n), np.where(lookup < 0, len(whole.lookups), lookup), at_us))
    places = np.flatnonzero(_may_cut(at_us[order], np.where(lookup < 0, np.arange(n), -1)[order])) + 1
    before = np.cumsum(weight[order])
    aims = np.searchsorted(before, before[-1] * np.arange(1, wanted) / wanted)
    found = np.searchsorted(places, aims)
    ends = [0, *np.unique(places[found[found < places.size]]).tolist(), n]
    n_lookups = np.cumsum(lookup[order] >= 0)
    return tuple(Cut(np.sort(order[first:end]), int(n_lookups[end - 1])) for first, end in pairwise(ends))


def _admitted_us(whole: Whole) -> NDArray[np.int64]:
    logged = pc.coalesce(whole.requests["admitted_at"], whole.requests["started_at"])
    at_us = np.array(logged.cast(pa.int64()).to_numpy(), np.int64)
    at_us[whole.lookups["request_row"].to_numpy()] = whole.lookups["admitted_at"].cast(pa.int64()).to_numpy()
    return at_us


def _may_cut(at_us: NDArray[np.int64], alone: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each place but the last whether a part may end there; ``alone`` is the row of those without keys, else -1."""
    behind = np.where(alone < 0, np.iinfo(np.int64).max, alone)
    least_behind = np.minimum.accumulate(behind[::-1])[::-1]
    return np.asarray((at_us[:-1] < at_us[1:]) & (np.maximum.accumulate(alone)[:-1] < least_behind[1:]))


def parts_of(whole: Whole, found: tuple[Cut, ...]) -> Iterator[dict[str, pa.Table]]:
    """Yield the inputs of each part under the names that ``sql/`` calls them by; files are read once, as parts are asked for."""
    files = {
        name: _Stretches(whole.folder / f"{name}.parquet") for name in ("lookup_facts", "facts", "ladder")
    }
    for cut in found:
        yield _part(whole, cut, {name: file.upto(cut.end_lookup) for name, file in files.items()})


def _part(whole: Whole, cut: Cut, read: dict[str, pa.Table]) -> dict[str, pa.Table]:
    mine = np.zeros(len(whole.requests), np.bool_)
    mine[cut.rows] = True
    turns = whole.turns.filter(pa.array(mine[whole.turns["request_row"].to_numpy()]))
    changes = pc.unique(read["facts"]["change"])
    changed = whole.changed.filter(pc.is_in(whole.changed["change"], value_set=changes))
    facts = read["facts"]
    used = _distinct(*(facts[name] for name in _NAMING), changed["previous"])
    request_row = whole.lookups["request_row"].to_numpy()[used]
    named = _distinct(turns["previous_row"])
    opener = whole.opener_row[cut.rows]
    begun = pa.array(opener, mask=opener < 0)
    ids = whole.requests["request_id"]
    return {
        **whole.small,
        **read,
        "requests": _rows(whole.requests, cut.rows),
        "changed": changed,
        "turns": turns,
        "conversations": pa.table({"request_row": cut.rows, "conversation": ids.take(begun)}),
        "used_lookups": pa.table(
            {
                "lookup": used,
                "request_row": request_row,
                "request_id": ids.take(pa.array(request_row)),
                "admitted_at": whole.lookups["admitted_at"].take(pa.array(used)),
            }
        ),
        "named_requests": pa.table({"request_row": named, "request_id": ids.take(pa.array(named))}),
        "block_keys": _block_keys(
            whole.key, _distinct(facts["last_block"], read["lookup_facts"]["last_block"])
        ),
    }


def _rows(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return table.slice(int(rows[0]), rows.size)
    return table.take(pa.array(rows))


def _distinct(*columns: pa.ChunkedArray) -> NDArray[np.int64]:
    found = np.sort(np.concatenate([column.drop_null().cast(pa.int64()).to_numpy() for column in columns]))
    return found[np.diff(found, prepend=-1) > 0]  # np.unique hashes, which takes three times as long


def _block_keys(key: NDArray[np.uint64], block: NDArray[np.int64]) -> pa.Table:
    """Return the keys of blocks that end a segment, in hex."""
    text = np.ascontiguousarray(key[block], dtype="<u8").tobytes().hex().encode("ascii")
    offsets = np.arange(block.size + 1, dtype=np.int32) * 32
    keys = pa.StringArray.from_buffers(block.size, pa.py_buffer(offsets), pa.py_buffer(text))
    return pa.table({"block": block, "prefix_key": keys})


class _Stretches:
    """Reads a file that is in order of lookups from one end to the other, a stretch at a time."""

    def __init__(self, path: Path) -> None:
        file = pq.ParquetFile(path)
        self._batches = file.iter_batches(_BATCH_ROWS)
        self._rest = file.schema_arrow.empty_table()

    def upto(self, end_lookup: int) -> pa.Table:
        """Return the rows before a lookup that were not returned yet."""
        found = []
        while True:
            n = int(np.searchsorted(self._rest["lookup"].to_numpy(), end_lookup))
            found.append(self._rest.slice(0, n))
            self._rest = self._rest.slice(n)
            if len(self._rest):
                break
            batch = next(self._batches, None)
            if batch is None:
                break
            self._rest = pa.Table.from_batches([batch])
        return pa.concat_tables(found)
