"""Which rows of a workspace ask a cache, as plain arrays in order of arrival."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.errors import NoLookupError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.index import Forest
    from prefixledger.replay.contents import Contents

NO_TIME = np.iinfo(np.int64).min
"""Stands for an absent time in arrays of microseconds."""


COLUMNS = (
    "request_id",
    "started_at",
    "admitted_at",
    "first_token_at",
    "finished_at",
    "provider",
    "model",
    "session_id",
    "tenant",
    "service_tier",
    "replica",
    "weight",
    "prompt_complete",
    "bypassed",
    "status",
    "usage_state",
    "keyed",
    "block_size",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens_observed",
    "cache_write_5m_tokens_observed",
    "cache_write_1h_tokens_observed",
    "cache_write_other_tokens_observed",
    "n_blocks",
    "source",
    "source_file",
    "source_line",
)
"""Columns of requests that every replay reads."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Every kept row of a workspace, in order of arrival (started_at, file, line).

    Attributes:
        table: The rows with all their columns.
        started_us: int64[n], microseconds since 1970.
        is_lookup: bool[n]: carries keys and reached the cache.
    """

    table: pa.Table
    started_us: NDArray[np.int64]
    is_lookup: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lookups:
    """The rows that ask a cache, in order of arrival.

    Attributes:
        request_row: int64[m], row of each in ``Rows``.
        started_us: int64[m], arrival, microseconds since 1970.
        admitted_us: int64[m], logged admission, ``NO_TIME`` where the log has none.
        first_token_us: int64[m], logged first output token, ``NO_TIME`` where the log has none.
        finished_us: int64[m], logged end, ``NO_TIME`` where the log has none.
        block_size: int64[m], tokens per block.
        prompt_tokens: int64[m].
        output_tokens: int64[m], -1 where the log has none.
        n_blocks: int64[m], full blocks that have a key.
        last_block: int64[m], block number of the last of them, -1 below one block.
        bypassed: bool[m], told the engine not to read its cache.
    """

    request_row: NDArray[np.int64]
    started_us: NDArray[np.int64]
    admitted_us: NDArray[np.int64]
    first_token_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    block_size: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    last_block: NDArray[np.int64]
    bypassed: NDArray[np.bool_]

    def __len__(self) -> int:
        return self.request_row.size


@dataclass(frozen=True, slots=True)
class Log:
    """Everything that is known of the traffic.

    Attributes:
        rows: Every kept row.
        lookups: Those that ask a cache.
        forest: The blocks of all of them.
        parts: Folder of the parts of prompts given as text; None where there is none.
        conversation: int64[rows], number of the conversation of each, -1 for none; None: not told apart.
        contents: What prompts are made of; None where no log says it.
    """

    rows: Rows
    lookups: Lookups
    forest: Forest
    parts: Path | None = None
    conversation: NDArray[np.int64] | None = None
    contents: Contents | None = None


def read_rows(table: pa.Table) -> Rows:
    """Sort out which rows are lookups.

    A failed call never reached the cache; one that was cut in mid-stream did. A row without keys has usage only.

    Args:
        table: The requests of an index, in order of arrival.

    Raises:
        NoLookupError: There is no row, or every row that carries keys or usage failed.
        UsageError: No row carries keys or usage.
    """
    if table.num_rows == 0:
        raise NoLookupError("the workspace holds no request", hint="ingest a log first")
    keyed = table["keyed"].to_numpy()
    reached = pc.not_equal(table["status"], "failed").to_numpy()
    is_lookup = keyed & reached
    has_usage = pc.equal(table["usage_state"], "present").to_numpy()
    if not (keyed | has_usage).any():
        raise UsageError(
            "nothing to replay: no row carries block hashes, token ids or text, nor what the service read from its cache, "
            "only lengths and times, so nothing says which tokens two prompts share",
            hint="log block hashes or token ids beside the lengths, or the cached tokens of each answer; without them no "
            "hit rate can be known",
        )
    if not (is_lookup | (has_usage & reached)).any():
        raise NoLookupError(
            "nothing to replay: every request that carries keys or usage failed before it reached a cache"
        )
    return Rows(table=table, started_us=_times(table, "started_at"), is_lookup=is_lookup)


def read_lookups(rows: Rows) -> Lookups:
    """Take the lookups out of the rows."""
    chosen = np.flatnonzero(rows.is_lookup)
    table = rows.table.select(
        [
            "admitted_at",
            "first_token_at",
            "finished_at",
            "block_size",
            "prompt_tokens",
            "output_tokens",
            "n_blocks",
            "last_block",
            "bypassed",
        ]
    ).take(pa.array(chosen))
    return Lookups(
        request_row=chosen,
        started_us=rows.started_us[chosen],
        admitted_us=_times(table, "admitted_at"),
        first_token_us=_times(table, "first_token_at"),
        finished_us=_times(table, "finished_at"),
        block_size=_integers(table, "block_size"),
        prompt_tokens=_integers(table, "prompt_tokens"),
        output_tokens=_integers(table, "output_tokens"),
        n_blocks=_integers(table, "n_blocks"),
        last_block=_integers(table, "last_block"),
        bypassed=table["bypassed"].to_numpy(),
    )


def number_sources(rows: Rows) -> NDArray[np.int64]:
    """Return int64[n], a number for the source of each row."""
    codes = rows.table["source"].combine_chunks().dictionary_encode().indices
    return np.asarray(codes.to_numpy(), np.int64)


def identities(table: pa.Table, last_key: NDArray[np.uint64]) -> list[bytes]:
    """Name each row by what it is, so that a seeded choice does not depend on other rows or on file names.

    A logged id is the name. An id that was made from file and line would change with the name of the file and
    the order of its lines, so such a row is named by arrival, length, last key and its number among equals.

    Args:
        table: Rows in order of arrival.
        last_key: uint64[n, 2], key of the last full block of each row, zeros below one block.
    """
    made = pc.equal(
        table["request_id"],
        pc.binary_join_element_wise(table["source_file"], table["source_line"].cast(pa.string()), ":"),
    ).to_numpy()
    started = _times(table, "started_at")
    tokens = _integers(table, "prompt_tokens")
    seen: dict[bytes, int] = {}
    names = []
    for row, request_id in enumerate(table["request_id"].to_pylist()):
        if not made[row]:
            names.append(b"id:" + request_id.encode())
            continue
        content = b"at:%d:%d:" % (started[row], tokens[row]) + last_key[row].tobytes()
        twin = seen.get(content, 0)
        seen[content] = twin + 1
        names.append(content + b":%d" % twin)
    return names


def stable_hash(name: bytes, seed: int) -> int:
    """Return 64 bits that depend on the name and the seed alone."""
    digest = hashlib.blake2b(name, digest_size=8, key=seed.to_bytes(16, "little", signed=True))
    return int.from_bytes(digest.digest(), "little")


def _times(table: pa.Table, name: str) -> NDArray[np.int64]:
    return _filled(table[name].cast(pa.int64()), NO_TIME)


def _integers(table: pa.Table, name: str) -> NDArray[np.int64]:
    return _filled(table[name].cast(pa.int64()), -1)


def _filled(column: pa.ChunkedArray, absent: int) -> NDArray[np.int64]:
    return np.array(pc.fill_null(column, pa.scalar(absent, pa.int64())).to_numpy(), np.int64)
