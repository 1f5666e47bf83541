"""Which of the requests before a moment still matter for the caches at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.index.kept_kernel import last_users
from prefixledger.index.load import load
from prefixledger.ingest.forest_kernel import rows_below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

_COLUMNS = ("source", "source_line", "started_at", "finished_at", "provider", "replica", "status")


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What stays when all before a moment is cut off.

    Attributes:
        lines: int64[k] of each source that keeps any, its lines that stay.
        removed: Requests that go.
        kept: Requests that stay.
        later: Of these, requests from the moment on.
    """

    lines: Mapping[str, NDArray[np.int64]]
    removed: int
    kept: int
    later: int


def kept_rows(workspace: Workspace, before_us: int, warm_up_us: int) -> KeptRows:
    """Return the requests that stay when all before a moment is cut off.

    What a cache holds is decided by the last use of every block, on every replica: so the last request to use a block
    stays, by start and by end, if any other of the log has that block, too. What only one request ever had takes room for
    a while and then nobody misses it: for as long as caches may need to turn over, all requests stay.

    Args:
        workspace: Indexed.
        before_us: The moment, microseconds since 1970.
        warm_up_us: The stretch before it of which all requests stay, microseconds.

    """
    index = load(workspace, columns=_COLUMNS, keys=False)
    table = index.requests
    started_us = table["started_at"].cast(pa.int64()).to_numpy()
    finished_us = pc.coalesce(table["finished_at"], table["started_at"]).cast(pa.int64()).to_numpy()
    last_block = table["last_block"].fill_null(-1).to_numpy()
    group = _groups(table)
    stays = started_us >= before_us - warm_up_us
    parent = index.forest.parent
    uses, _ = rows_below(parent, last_block, np.arange(last_block.size))
    earlier = (started_us < before_us) & (table["status"].to_numpy(zero_copy_only=False) != "failed")
    for times in (started_us, finished_us):
        rows = np.flatnonzero(earlier)
        order = rows[np.lexsort((-rows, -times[rows], group[rows]))]
        stays |= last_users(order, group, last_block, parent, uses)
    left = table.select(["source", "source_line"]).filter(pa.array(stays))
    source = left["source"].combine_chunks().dictionary_encode()
    line, code = left["source_line"].to_numpy(), source.indices.to_numpy()
    lines = {name: line[code == number] for number, name in enumerate(source.dictionary.to_pylist())}
    kept, later = int(stays.sum()), int((started_us >= before_us).sum())
    return KeptRows(lines, table.num_rows - kept, kept, later)


def _groups(table: pa.Table) -> NDArray[np.int64]:
    """Return int64[n], 1 or more: which provider and replica a row asked."""
    codes = [
        pc.fill_null(table[name], "").combine_chunks().dictionary_encode().indices.to_numpy()
        for name in ("provider", "replica")
    ]
    _, group = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.asarray(group, np.int64).reshape(-1) + 1
