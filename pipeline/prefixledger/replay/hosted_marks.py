"""Up to where each prompt asks to be cached: the marks that it was sent with, else its last full block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.replay.block_numbers import ancestors, number_blocks
from prefixledger.replay.hosted import Marks

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.lookups import Log

UNKNOWN = -1
_COLUMNS = ("source_line", "part", "first_token", "n_tokens", "breakpoint")


@dataclass(frozen=True, slots=True)
class FoundMarks:
    """The marks of a pool's lookups.

    Attributes:
        marks: Where they stand.
        depth: int64[k], blocks from the start of the prompt down to each.
        sent: bool[m], whether the log shows the marks of the lookup; else it is cached to its last full block.
        ttls: Lifetimes that the marks name, in order.
    """

    marks: Marks
    depth: NDArray[np.int64]
    sent: NDArray[np.bool_]
    ttls: tuple[str, ...]


def find_marks(
    log: Log,
    chains: Chains,
    mine: NDArray[np.int64],
    block_size: int,
    *,
    implicit: bool,
    given_tokens: tuple[int, ...] = (),
) -> FoundMarks:
    """Find the marks of the lookups of one pool.

    A mark inside a block stands behind the last full block before it: where the block ends its key is known.

    Args:
        log: All lookups.
        chains: The forest, cut into chains.
        mine: int64[m], those of the pool.
        block_size: Tokens per block.
        implicit: Whether the end of a prompt is a mark also where others were sent, or none.
        given_tokens: Where else a prompt of which the log shows no marks has some, in tokens from its start.
    """
    known = log.lookups
    keyed = known.n_blocks[mine]
    sent = np.zeros(mine.size, np.bool_)
    parts = [_of_source(log, mine, rows, sent) for rows in _by_source(log, mine)]
    none = np.empty(0, np.int64)
    parts.append((none, none, none, np.empty(0, object)))
    owner, end, ordinal, words = (np.concatenate(column) for column in zip(*parts, strict=True))
    marked = np.asarray([word is not None for word in words], np.bool_)
    chosen = marked.copy()
    if implicit and owner.size:
        chosen |= np.append(owner[1:] != owner[:-1], True)
    blocks = np.minimum(end // block_size, keyed[owner])
    chosen &= blocks > 0
    automatic = np.flatnonzero(~sent & (keyed > 0))
    at_end = [(automatic, keyed[automatic])]
    for depth_blocks in sorted({tokens // block_size for tokens in given_tokens} - {0}):
        longer = automatic[keyed[automatic] > depth_blocks]
        at_end.append((longer, np.full(longer.size, depth_blocks)))
    owner = np.concatenate([owner[chosen], *(who for who, _ in at_end)])
    blocks = np.concatenate([blocks[chosen], *(where for _, where in at_end)])
    ordinal = np.concatenate([ordinal[chosen], np.full(owner.size - int(chosen.sum()), UNKNOWN)])
    order = np.lexsort((ordinal, blocks, owner))
    owner, blocks, ordinal = owner[order], blocks[order], ordinal[order]
    block = ancestors(chains, number_blocks(chains), known.last_block[mine][owner], blocks)
    offset = np.searchsorted(owner, np.arange(mine.size + 1)).astype(np.int64)
    named = {word.partition("/")[2] or "5m" for word in words[marked]} if not implicit else set()
    return FoundMarks(Marks(offset, block, ordinal), blocks, sent, tuple(sorted(named)))


def _by_source(log: Log, mine: NDArray[np.int64]) -> list[tuple[Path, NDArray[np.int64]]]:
    """Return the files of parts of the pool's sources, with the lookups of each."""
    if log.parts is None or not log.parts.is_dir():
        return []
    column = log.rows.table["source"].take(pa.array(log.lookups.request_row[mine]))
    encoded = column.combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(), np.int64)
    files = [
        (log.parts / f"{name}.parquet", code) for code, name in enumerate(encoded.dictionary.to_pylist())
    ]
    return [(path, np.flatnonzero(codes == code)) for path, code in sorted(files) if path.is_file()]


def _of_source(
    log: Log, mine: NDArray[np.int64], of: tuple[Path, NDArray[np.int64]], sent: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.object_]]:
    """Return owner, end in tokens, position and mark of every part of a source; tick the lookups that have parts."""
    path, rows = of
    lines = log.rows.table["source_line"].take(pa.array(log.lookups.request_row[mine[rows]])).to_numpy()
    order = np.argsort(lines, kind="stable")
    table = pq.read_table(path, columns=list(_COLUMNS))
    table = table.filter(pc.is_valid(table["first_token"]))
    line = table["source_line"].to_numpy()
    if rows.size == 0 or line.size == 0:
        none = np.empty(0, np.int64)
        return none, none, none, np.empty(0, object)
    at = np.searchsorted(lines[order], line).clip(max=rows.size - 1)
    ours = lines[order][at] == line
    owner = rows[order][at[ours]]
    sent[owner] = True
    end = (table["first_token"].to_numpy() + table["n_tokens"].to_numpy())[ours]
    position = table["part"].to_numpy()[ours].astype(np.int64) + 1
    words = table["breakpoint"].to_numpy(zero_copy_only=False)[ours]
    by_lookup = np.lexsort((position, owner))
    return owner[by_lookup], end[by_lookup], position[by_lookup], words[by_lookup]
