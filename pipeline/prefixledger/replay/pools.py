"""Gives every row to the first pool that matches it, and holds each pool to one block size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.config.registry import HOSTED_PROVIDERS, PROFILES
from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.replay.lookups import Lookups, Rows


def assign_pools(rows: Rows, scenario: Scenario) -> NDArray[np.int64]:
    """Return the pool of each row: the first that matches.

    Args:
        rows: All kept rows.
        scenario: Its pools, in order.

    Returns:
        int64[n], index of the pool; -1 where a row that asks no cache matches none.

    Raises:
        UsageError: A lookup matches no pool, or is a hosted provider's that no pool speaks for.
    """
    fields = sorted(
        {name for pool in scenario.pool if pool.match is not None for name in pool.match.fields}
        | {"provider"}
    )
    code, first = combinations(rows.table, fields)
    samples = rows.table.select(fields).take(pa.array(first)).to_pylist()
    taken = [scenario.pool_of(sample) for sample in samples]
    assigned = np.asarray([-1 if pool is None else pool for pool in taken], np.int64)[code]
    lost = np.flatnonzero((assigned < 0) & rows.is_lookup)
    if lost.size:
        raise UsageError(
            f"request {_name(rows, lost[0])} matches no pool of scenario {scenario.name!r} ({lost.size} such requests)",
            place=_place(rows, lost[0]),
            hint="add a last [[pool]] without match: it takes every other row",
        )
    hosted = np.asarray([_is_unspoken(sample, taken[n], scenario) for n, sample in enumerate(samples)])[code]
    strange = np.flatnonzero(hosted & rows.is_lookup)
    if strange.size:
        provider, model = (rows.table[name][int(strange[0])].as_py() for name in ("provider", "model"))
        raise UsageError(
            f"request {_name(rows, strange[0])} was served by {provider!r} as model {model!r}, and no profile follows the "
            "rules of that cache",
            place=_place(rows, strange[0]),
            hint='write profile = "…" under the [cache] that these rows fall to, or add a [[pool]] with '
            f'match = {{ provider = "{provider}" }}; profiles that exist: {", ".join(PROFILES)}',
        )
    return assigned


def replayed_rows(rows: Rows, scenario: Scenario) -> Rows:
    """Leave out of the lookups what falls to a pool that replays nothing: it is known only by what the log reports."""
    unreplayed = [n for n, pool in enumerate(scenario.pool) if not PROFILES[pool.cache.profile].replayed]
    if not unreplayed or not rows.is_lookup.any():
        return rows
    taken = np.isin(assign_pools(rows, scenario), unreplayed)
    return replace(rows, is_lookup=rows.is_lookup & ~taken)


def pool_block_size(pool: Pool, rows: Rows, lookups: Lookups, mine: NDArray[np.int64]) -> int:
    """Return the tokens per block of a pool's lookups.

    Args:
        pool: For its name.
        rows: For the names of requests.
        lookups: All lookups.
        mine: int64[k], those of the pool, at least one.

    Raises:
        UsageError: They differ.
    """
    sizes, first = np.unique(lookups.block_size[mine], return_index=True)
    if sizes.size > 1:
        examples = ", ".join(
            f"{size} (request {_name(rows, lookups.request_row[mine[at]])})"
            for size, at in zip(sizes.tolist(), first.tolist(), strict=True)
        )
        raise UsageError(
            f"pool {pool.name!r} has lookups with {sizes.size} block sizes: {examples}",
            hint="a cache has one block size: write one [[pool]] for each, matched by source_file, model or replica",
        )
    return int(sizes[0])


def combinations(table: pa.Table, fields: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct combinations of some columns; return the number of each row, and a first row of each."""
    code = np.zeros(table.num_rows, np.int64)
    for field in fields:
        column = table[field].combine_chunks().dictionary_encode(null_encoding="encode")
        if len(column.dictionary) <= 1:  # it tells no row from another, and most fields of most logs are such
            continue
        values = np.asarray(column.indices.to_numpy(zero_copy_only=False), np.int64)
        _, code = np.unique(code * (len(column.dictionary) + 1) + values, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return code, first


def _is_unspoken(sample: dict[str, object], pool: int | None, scenario: Scenario) -> bool:
    """Tell whether a hosted row fell to a pool that neither matches anything nor names its profile."""
    if pool is None or str(sample["provider"]).lower() not in HOSTED_PROVIDERS:
        return False
    chosen = scenario.pool[pool]
    return chosen.match is None and "profile" not in chosen.cache.model_fields_set


def _name(rows: Rows, row: int) -> str:
    return repr(rows.table["request_id"][int(row)].as_py())


def _place(rows: Rows, row: int) -> Place:
    return Place(rows.table["source_file"][int(row)].as_py(), rows.table["source_line"][int(row)].as_py())
