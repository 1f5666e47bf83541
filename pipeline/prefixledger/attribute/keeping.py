"""Which pools have a client that is said to keep its prefixes alive by calls, and how often it makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from prefixledger.config.units import parse_duration_us

if TYPE_CHECKING:
    from prefixledger.config.scenario import Scenario

_SCHEMA = pa.schema([("pool", pa.int32()), ("interval_us", pa.int64()), ("most_calls", pa.int64())])


def keeping(scenario: Scenario) -> pa.Table:
    """Return the pools with such calls: columns pool, interval_us, most_calls (null: any number in a row).

    Lookups without keys are in no pool; where all pools that have calls have the same, theirs are told by these (pool null).
    """
    rows: list[tuple[int | None, int, int | None]] = [
        (number, interval_us, pool.cache.keep_alive_calls)
        for number, pool in enumerate(scenario.pool)
        if pool.cache.keep_alive is not None and (interval_us := parse_duration_us(pool.cache.keep_alive))
    ]
    told = {row[1:] for row in rows}
    if len(told) == 1:
        rows.append((None, *told.pop()))
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )
