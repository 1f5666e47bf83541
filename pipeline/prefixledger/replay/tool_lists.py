"""Numbers the tools of prompts: as they were sent, and whatever their order and spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

_COLUMNS = ("kind", "source_line", "raw_hash", "canonical_hash")
_HASH_BYTES = 16


def number_tools(workspace: Workspace, chosen: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return int64[m] twice: numbers of the tools of each prompt as sent, and of the same in one order; -1 for none.

    Args:
        workspace: Holds the parts of prompts, one part a tool.
        chosen: The prompts, with ``source`` and ``source_line``.
    """
    numbers: dict[bytes, tuple[int, int]] = {}
    same: dict[bytes, int] = {}
    place: dict[tuple[str, int], tuple[int, int]] = {}
    for path in sorted(workspace.parts.glob("*.parquet")):
        for line, raw, canonical in _lists(path):
            number = numbers.get(raw + canonical)
            if number is None:
                ordered = sorted(
                    canonical[at : at + _HASH_BYTES] for at in range(0, len(canonical), _HASH_BYTES)
                )
                number = len(numbers), same.setdefault(b"".join(ordered), len(same))
                numbers[raw + canonical] = number
            place[path.stem, line] = number
    if not place:
        nobody = np.full(len(chosen), -1, np.int64)
        return nobody, nobody
    asked = zip(chosen["source"].to_pylist(), chosen["source_line"].to_pylist(), strict=True)
    found = np.array([place.get(where, (-1, -1)) for where in asked], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _lists(path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the line of each prompt of a source that has tools, and both digests of all of them, in their order.

    A group of rows is read at a time: a prompt of an agent has some 30 tools, 100,000 prompts 3 million.
    """
    file = pq.ParquetFile(path)
    left = None
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=list(_COLUMNS))
        table = table.filter(pc.equal(table["kind"], "tools")).drop_columns(["kind"])
        table = table if left is None else pa.concat_tables([left, table])
        line = table["source_line"].to_numpy()
        begins = np.flatnonzero(np.append(True, line[1:] != line[:-1])[: line.size]).tolist()
        last = group + 1 == file.num_row_groups
        if begins and not last:  # the next group may go on with the last prompt of this one
            left = table.slice(begins[-1])
        raw, canonical = (_joined(table[name]) for name in _COLUMNS[2:])
        for begin, end in zip(begins, [*begins[1:], *([line.size] if last else [])], strict=False):
            own = slice(begin * _HASH_BYTES, end * _HASH_BYTES)
            yield int(line[begin]), raw[own], canonical[own]


def _joined(column: pa.ChunkedArray) -> bytes:
    return b"".join(column.to_pylist())
