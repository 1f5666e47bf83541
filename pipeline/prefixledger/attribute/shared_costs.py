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


def sharing(scenario: Scenario) -> pa.Table:
    """Return the pools in which everybody who asks pays: column pool."""
    pools = [
        number
        for number, pool in enumerate(scenario.pool)
        if scenario.pricing_of(pool).shared_writes == "per-read"
    ]
    return pa.table({"pool": pa.array(pools, pa.int32())})


def share(spend: pa.Table, touches: pa.Table) -> pa.Table:
    """Return the mart ``spend`` with the cost of every shared prefix split by the tokens asked of it.

    What a prefix cost, written, read or computed, is one sum; each pays the part of it that its tokens are of all tokens
    asked there. Parts are rounded down to 18 digits and the last payer has the rest, so that the sum stays what it was.

    Args:
        spend: As the statement makes it.
        touches: Who used which prefix; empty leaves everything as it is.
    """
    if not touches.num_rows:
        return spend
    moved: dict[tuple[str, str | None, str], Decimal] = {}
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
    return pa.Table.from_pylist([_after(row, moved) for row in spend.to_pylist()], schema=spend.schema)


def _prefix(row: dict[str, Any]) -> tuple[int, str, str]:
    return row["node"], row["field"], row["currency"]


def _after(row: dict[str, Any], moved: dict[tuple[str, str | None, str], Decimal]) -> dict[str, Any]:
    more = moved.get((row["field"], row["value"], row["currency"]), Decimal(0))
    return {
        **row,
        "input_cost": row["input_cost"] + more,
        "actual_cost": row["actual_cost"] + more,
        "saved_cost": row["saved_cost"] - more,
    }
