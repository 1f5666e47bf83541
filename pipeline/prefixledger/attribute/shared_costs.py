"""Shares what a prefix cost among all that asked for it, where a scenario does not leave it to who wrote it."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from prefixledger.economics.formulas import divide

if TYPE_CHECKING:
    from prefixledger.config.scenario import Scenario

_QUANTUM = Decimal(1).scaleb(-18)

Moved = dict[tuple[str, str | None, str], Decimal]
"""Heading, value, currency: what it pays more than what it read and wrote itself."""


def sharing(scenario: Scenario) -> pa.Table:
    """Return the pools in which everybody who asks pays: column pool."""
    pools = [
        number
        for number, pool in enumerate(scenario.pool)
        if scenario.pricing_of(pool).shared_writes == "per-read"
    ]
    return pa.table({"pool": pa.array(pools, pa.int32())})


def moved_costs(touches: pa.Table) -> Moved:
    """Return what each payer has to pay more, below 0 less, if the cost of every shared prefix is split by the tokens asked of it.

    What a prefix cost, written, read or computed, is one sum; each pays the part of it that its tokens are of all tokens
    asked there. Parts are rounded down to 18 digits and the last payer has the rest, so that the sum stays what it was.

    Args:
        touches: Who used which prefix; empty moves nothing.
    """
    moved: Moved = {}
    rows = sorted(touches.to_pylist(), key=_prefix)
    for (_, field, currency), group in groupby(rows, key=_prefix):
        payers = list(group)
        whole = sum((row["paid_cost"] for row in payers), Decimal(0))
        asked = sum(row["tokens"] for row in payers)
        left = whole
        for number, row in enumerate(payers, start=1):
            part = divide(whole * row["tokens"], Decimal(asked)).quantize(_QUANTUM, rounding=ROUND_DOWN)
            part = left if number == len(payers) else part
            left -= part
            key = (field, row["value"], currency)
            moved[key] = moved.get(key, Decimal(0)) + part - row["paid_cost"]
    return moved


def share(spend: pa.Table, moved: Moved) -> pa.Table:
    """Return the mart ``spend`` after ``moved_costs``."""
    if not moved:
        return spend
    return pa.Table.from_pylist([_after(row, moved) for row in spend.to_pylist()], schema=spend.schema)


def share_prefixes(prefixes: pa.Table, moved: Moved) -> pa.Table:
    """Return the mart ``prefixes`` after ``moved_costs``: what the users of each bear of the prefixes above it."""
    more = {(value, currency): cost for (field, value, currency), cost in moved.items() if field == "prefix"}
    if not more:
        return prefixes
    rows = zip(*(prefixes[name].to_pylist() for name in ("key", "currency", "borne_cost")), strict=True)
    borne = [
        None if cost is None else cost + more.get((key, currency), Decimal(0)) for key, currency, cost in rows
    ]
    place = prefixes.schema.get_field_index("borne_cost")
    field = prefixes.schema.field(place)
    return prefixes.set_column(place, field, pa.array(borne, field.type))


def _prefix(row: dict[str, Any]) -> tuple[int, str, str]:
    return row["node"], row["field"], row["currency"]


def _after(row: dict[str, Any], moved: Moved) -> dict[str, Any]:
    more = moved.get((row["field"], row["value"], row["currency"]), Decimal(0))
    return {
        **row,
        "input_cost": row["input_cost"] + more,
        "actual_cost": row["actual_cost"] + more,
        "saved_cost": row["saved_cost"] - more,
    }
