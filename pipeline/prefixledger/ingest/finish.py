"""Turns rows as they were put aside into rows of ``requests``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.ingest.merge import Pieces, merged
from prefixledger.schema import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.settle import Settled

_TIME: Final = pa.timestamp("us", tz="UTC")
_TIMES: Final = {
    "admitted_at": "admitted_us",
    "first_token_at": "first_token_us",
    "finished_at": "finished_us",
}
_RENAMED: Final = {
    **_TIMES,
    "cached_tokens_observed": "cached_tokens",
    "cache_write_5m_tokens_observed": "cache_write_5m_tokens",
    "cache_write_1h_tokens_observed": "cache_write_1h_tokens",
    "cache_write_other_tokens_observed": "cache_write_other_tokens",
}
_ANSWER_KNOWS: Final = frozenset({"usage_state", "status", "weight", "extras"})
"""Never null, so that the answer's word is taken whatever the request said."""
_OF_PATH: Final = frozenset({"keyed", "n_blocks", "block_size", "namespace_number", "prompt_complete"})


@dataclass(frozen=True, slots=True)
class Naming:
    """What rows are called once the whole input is known.

    Attributes:
        source: Name of the source.
        label: ``source_file``.
        namespaces: Names of its namespaces, by number.
        labels: Fields of the envelope that are labels.
        zero_us: Added to all times.
        by_record: True where ``source_line`` is the number of the record, because some line holds several.
        sessions: Session of each row, where chains name them.
    """

    source: str
    label: str
    namespaces: tuple[str, ...]
    labels: frozenset[str]
    zero_us: int
    by_record: bool
    sessions: list[str | None] | None


def finished_rows(
    naming: Naming, collected: Collected, settled: Settled
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield kept rows in order of the input: int64[k] numbers, and a table of the columns of ``requests``.

    Args:
        naming: Names.
        collected: The input.
        settled: What of it is kept.
    """
    partner = np.array(collected.rows.partner, np.int64)
    pieces = Pieces(settled.leader)
    line = _lines(naming, collected)
    spilled = collected.row_spill.table()
    first = following = 0
    for batch in collected.row_spill.batches():
        first, following = following, following + batch.num_rows
        rows = np.flatnonzero(settled.alive[first:following]) + first
        if rows.size == 0:
            continue
        if pieces.any:
            members, begins = pieces.members(rows)
            held = merged(_taken(spilled, members, collected, settled), begins)
        else:
            kept = batch if rows.size == batch.num_rows else batch.take(pa.array(rows - first))
            held = _columns(kept, rows, collected, settled)
        if (partner[rows] >= 0).any():
            answers = np.where(partner[rows] >= 0, partner[rows], rows)
            held = _merged(held, _taken(spilled, answers, collected, settled))
        yield rows, _named(naming, settled, rows, held, line[rows])


def _taken(
    spilled: pa.Table, rows: NDArray[np.int64], collected: Collected, settled: Settled
) -> dict[str, pa.Array]:
    """Return some rows by column, their times shifted."""
    (batch,) = spilled.take(pa.array(rows)).combine_chunks().to_batches()
    return _columns(batch, rows, collected, settled)


def _columns(
    batch: pa.RecordBatch, rows: NDArray[np.int64], collected: Collected, settled: Settled
) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["prompt_tokens"] = pc.add(columns["prompt_tokens"], pa.array(settled.prompt_add[rows]))
    if collected.text_keys is not None:
        collected.text_keys.set_on(columns, rows)
    shift = pa.array(settled.shift_us[rows])
    for name in _TIMES.values():
        columns[name] = pc.add(columns[name], shift)
    return columns


def _merged(request: dict[str, pa.Array], answer: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return rows of requests logged in two parts: what the answer says, else what the request said."""
    merged = {}
    for name, said in answer.items():
        if name in _ANSWER_KNOWS:
            merged[name] = said
        elif name in _OF_PATH:
            merged[name] = pc.if_else(answer["keyed"], said, request[name])
        else:
            merged[name] = pc.coalesce(said, request[name])
    return merged


def _lines(naming: Naming, collected: Collected) -> NDArray[np.int64]:
    """Return int64[rows], ``source_line`` of each."""
    record = np.array(collected.rows.record, np.int64)
    return record + 1 if naming.by_record else np.array(collected.records.line, np.int64)[record]


def _named(
    naming: Naming,
    settled: Settled,
    rows: NDArray[np.int64],
    held: dict[str, pa.Array],
    line: NDArray[np.int64],
) -> pa.Table:
    numbers = pa.array(line).cast(pa.string())
    names = pc.binary_join_element_wise(pa.scalar(naming.label), numbers, ":")
    columns: dict[str, Any] = {
        "request_id": pc.coalesce(held["request_id"], names),
        "started_at": pa.array(settled.started_us[rows] + naming.zero_us).cast(_TIME),
        "labels": _labels(held["extras"], naming.labels),
        "bypassed": pc.fill_null(held["bypassed"], fill_value=False),
        "namespace": pa.array(naming.namespaces, pa.string()).take(held["namespace_number"]),
        "source_node": pa.array(settled.node[rows], mask=settled.node[rows] < 0),
        "content_node": pa.array(settled.content_node[rows], mask=settled.content_node[rows] < 0),
        "source": pa.repeat(pa.scalar(naming.source), rows.size),
        "source_file": pa.repeat(pa.scalar(naming.label), rows.size),
        "source_line": pa.array(line),
    }
    for ours, theirs in _TIMES.items():
        columns[ours] = pc.add(held[theirs], naming.zero_us).cast(_TIME)
    if naming.sessions is not None:
        by_chain = pa.array([naming.sessions[row] for row in rows.tolist()], pa.string())
        columns["session_id"] = pc.coalesce(held["session_id"], by_chain)
    schema = REQUESTS.arrow()
    arrays = [columns[f.name] if f.name in columns else held[_RENAMED.get(f.name, f.name)] for f in schema]
    return pa.table(arrays, schema=schema)


def _labels(extras: pa.MapArray, kept: frozenset[str]) -> pa.MapArray:
    """Return the maps without the fields that are no labels."""
    keys = extras.keys
    stays = np.asarray(
        pc.is_in(keys, pa.array(sorted(kept), pa.string())).to_numpy(zero_copy_only=False), np.bool_
    )
    passed = np.concatenate([[0], np.cumsum(stays)])
    offsets = passed[extras.offsets.to_numpy()].astype(np.int32)
    mask = pa.array(stays)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.filter(mask), extras.items.filter(mask))
