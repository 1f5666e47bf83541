"""Writes the table of parts: what each prompt was made of, without a word of it."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.ingest.forest_kernel import sums_down
from prefixledger.ingest.text.batch import PartFacts
from prefixledger.ingest.text.finish import request_of
from prefixledger.kernels.paths import expand_paths
from prefixledger.schema_contents import PARTS, TEXTS
from prefixledger.workspace import replacing, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.finish import Naming
    from prefixledger.ingest.settle import Settled
    from prefixledger.ingest.text.finish import TextKeys
    from prefixledger.ingest.text.store import TextStore
    from prefixledger.kernels.path_forest import PathForest
    from prefixledger.workspace import Workspace

GROUP_PARTS: Final = 1 << 18
"""Parts written at a time; a prompt is never split."""
_KEPT: Final = {
    "kind": "kind",
    "role": "role",
    "raw_hash": "raw",
    "canonical_hash": "canonical",
    "n_bytes": "n_bytes",
    "content_blocks": "content_blocks",
    "goes_on": "goes_on",
}
"""Columns, and the facts of a part that they hold."""


def write_parts(
    workspace: Workspace, naming: Naming, collected: Collected, settled: Settled, keys: TextKeys
) -> None:
    """Write the parts of all kept requests in order of the input, and their texts where those are to be kept.

    Args:
        workspace: Where to.
        naming: Names.
        collected: The input.
        settled: What of it is kept.
        keys: What text said of it.
    """
    store = collected.text
    request = request_of(collected)
    text_row = np.array(store.rows, np.int64)
    last = np.full(len(collected.rows.record), -1, np.int64)
    last[request[text_row]] = np.arange(text_row.size)  # of several parts of a request the last one is heard
    kept = np.flatnonzero(settled.alive & (last >= 0))
    if kept.size == 0:
        return
    marks = {(row, position): mark for row, position, mark in store.marks}
    schema = PARTS.arrow()
    used: set[int] = set()
    with ExitStack() as stack:
        part = stack.enter_context(replacing(workspace.parts / f"{naming.source}.parquet"))
        writer = stack.enter_context(pq.ParquetWriter(part, schema, compression="zstd"))
        depth = _depths(store.part_forest)
        node = np.array(store.part_node, np.int64)[last[kept]]
        counts = (
            np.where(node >= 0, depth[np.maximum(node, 0)], 0)
            if depth.size
            else np.zeros(kept.size, np.int64)
        )
        for chosen in _groups(counts):
            at = last[kept[chosen]]
            table, numbers = _table(naming, collected, keys, kept[chosen], at, counts[chosen], marks)
            writer.write_table(table)
            used.update(np.unique(numbers).tolist())
    if store.keeps_text:
        _write_texts(workspace, naming, collected, sorted(used))


def _write_texts(workspace: Workspace, naming: Naming, collected: Collected, numbers: list[int]) -> None:
    store = collected.text
    seen: dict[bytes, bytes] = {}
    for number in numbers:
        seen.setdefault(store.parts[number].raw, store.part_text(number))
    columns = [pa.array(list(seen), pa.binary(16)), pa.array(list(seen.values()), pa.binary())]
    write_table(workspace.texts / f"{naming.source}.parquet", pa.table(columns, schema=TEXTS.arrow()))


def _groups(counts: NDArray[np.int64]) -> Iterator[slice]:
    group = np.cumsum(counts) // GROUP_PARTS
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), counts.size]
    yield from (slice(begin, end) for begin, end in pairwise(cuts))


def _table(
    naming: Naming,
    collected: Collected,
    keys: TextKeys,
    rows: NDArray[np.int64],
    at: NDArray[np.int64],
    counts: NDArray[np.int64],
    marks: dict[tuple[int, int], str],
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the parts of some requests, and their numbers."""
    store, schema = collected.text, PARTS.arrow()
    begins = np.cumsum(counts) - counts
    numbers = expand_paths(store.part_forest.parent, np.array(store.part_node, np.int64)[at], counts)
    number = store.part_forest.label_lo.astype(np.int64)[numbers]
    owner = np.repeat(np.arange(rows.size), counts)
    position = np.arange(number.size) - begins[owner]
    first, n_tokens = _spans(collected, keys, at, counts, begins)
    words: list[str | None] = [None] * number.size
    if marks:
        places = zip(np.array(store.rows, np.int64)[at][owner].tolist(), position.tolist(), strict=True)
        words = [marks.get(place) for place in places]
        marked = np.array([word is not None for word in words], np.bool_)
        _set_logged(store, number, owner, first, n_tokens, marked)
    record = np.array(collected.rows.record, np.int64)[rows]
    line = record + 1 if naming.by_record else np.array(collected.records.line, np.int64)[record]
    distinct, which = np.unique(
        number, return_inverse=True
    )  # a part stands in every prompt of its conversation
    facts = zip(*(store.parts[one] for one in distinct.tolist()), strict=True)
    by_name = dict(zip(PartFacts._fields, facts, strict=False))  # no part at all has no facts
    kept = {
        name: pa.array(by_name.get(of, ()), schema.field(name).type).take(pa.array(which))
        for name, of in _KEPT.items()
    }
    columns = kept | {
        "source": pa.repeat(pa.scalar(naming.source), number.size),
        "source_line": pa.array(line[owner]),
        "part": pa.array(position, pa.int32()),
        "first_token": pa.array(first, mask=first < 0),
        "n_tokens": pa.array(n_tokens, mask=first < 0),
        "breakpoint": pa.array(words, pa.string()),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema), number


def _set_logged(
    store: TextStore,
    number: NDArray[np.int64],
    owner: NDArray[np.int64],
    first: NDArray[np.int64],
    n_tokens: NDArray[np.int64],
    marked: NDArray[np.bool_],
) -> None:
    """Fill in the first token and the tokens of parts whose lengths the log says, in place.

    Only of prompts with a cache mark: parts that are logged beside ids without any do not say where marks were.
    """
    length = np.array([-1 if part.n_tokens is None else part.n_tokens for part in store.parts], np.int64)[
        number
    ]
    partial = np.ones(int(owner.max(initial=-1)) + 1, np.bool_)
    partial[owner[marked]] = False
    partial[owner[length < 0]] = True
    logged = ~partial[owner]
    if not logged.any():
        return
    end = np.cumsum(np.where(logged, length, 0))
    begin = end - np.where(logged, length, 0)
    _, leads = np.unique(owner, return_index=True)
    first[logged] = (begin - begin[leads][np.cumsum(np.isin(np.arange(owner.size), leads)) - 1])[logged]
    n_tokens[logged] = length[logged]


def _spans(
    collected: Collected,
    keys: TextKeys,
    at: NDArray[np.int64],
    counts: NDArray[np.int64],
    begins: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first token and the tokens of each part, -1 where the pieces that were hashed are not the parts."""
    store = collected.text
    first, n_tokens = np.full(int(counts.sum()), -1, np.int64), np.zeros(int(counts.sum()), np.int64)
    if not keys.aligned:
        return first, n_tokens
    node = np.array(store.unit_node, np.int64)[at]
    depth = _depths(store.unit_forest)
    units = np.where(node >= 0, depth[np.maximum(node, 0)], 0) if depth.size else np.zeros_like(node)
    alone = np.flatnonzero((counts == 1) & (units > 0))
    first[begins[alone]], n_tokens[begins[alone]] = 0, keys.unit_tokens[node[alone]]
    alike = np.flatnonzero((counts == units) & (counts > 1))
    if alike.size:
        own_counts = counts[alike]
        own_begins = np.cumsum(own_counts) - own_counts
        end = keys.unit_tokens[expand_paths(store.unit_forest.parent, node[alike], own_counts)]
        start = np.concatenate([[0], end[:-1]])
        start[own_begins] = 0
        into = np.repeat(begins[alike] - own_begins, own_counts) + np.arange(end.size)
        first[into], n_tokens[into] = start, end - start
    return first, n_tokens


def _depths(forest: PathForest) -> NDArray[np.int64]:
    return np.asarray(sums_down(forest.parent, np.ones_like(forest.parent)))
