"""The books of the stretch just before a window, as long as the window, so that figures have something to move against."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.attribute.prices import price_tables, simulated_bills
from prefixledger.attribute.session import Session
from prefixledger.economics.rates import SLOT_US

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prefixledger.attribute.window import Window
    from prefixledger.config.scenario import Scenario
    from prefixledger.economics.bill import Bill

_STEPS = (
    "50_window/asked",
    "50_window/pieces",
    "60_marts/totals",
    "60_marts/usage",
    "60_marts/observed_book",
    "60_marts/billed_reads",
    "60_marts/billed_misses",
)

_LATE = 100
"""A log that begins in the first hundredth of a stretch holds it: at midnight on Monday nobody may have asked."""


@dataclass(frozen=True, slots=True)
class Before:
    """What the stretch before a window comes to; tables as in ``Marts``.

    Attributes:
        window: The stretch.
        bills: Money by the hits and misses of the replay.
        totals: By basis, and in all.
        usage: What the log says of its cache.
        observed_book: The observed book by cause.
    """

    window: Window
    bills: tuple[Bill, ...]
    totals: pa.Table
    usage: pa.Table
    observed_book: pa.Table


def stretch_before(folder: Path, window: Window) -> Window | None:
    """Return the stretch before a window; None where the log does not hold the whole of it, or no lookup in it.

    Args:
        folder: Of the replay.
        window: The window that it ends with.
    """
    earlier = replace(window, from_us=2 * window.from_us - window.to_us, to_us=window.from_us)
    started_us = pq.read_table(folder / "lookups.parquet", columns=["started_at"])["started_at"].cast(
        pa.int64()
    )
    inside = pc.and_(pc.greater_equal(started_us, earlier.from_us), pc.less(started_us, earlier.to_us))
    first_us = pc.min(started_us).as_py()
    late_us = (window.to_us - window.from_us) // _LATE
    if first_us is None or first_us > earlier.from_us + late_us or not pc.any(inside).as_py():
        return None
    return earlier


def before(
    books: Mapping[str, Path], requests: pa.Table, scenario: Scenario, earlier: Window, *, threads: int = 2
) -> Before:
    """Aggregate the stretch before a window.

    Args:
        books: Files of the replay by name.
        requests: Kept rows with their pools.
        scenario: What was replayed.
        earlier: See ``stretch_before``.
        threads: Threads of DuckDB.

    Raises:
        UsageError: A model in it has no rate.
    """
    parameters = {"from_us": earlier.from_us, "to_us": earlier.to_us, "slot_us": SLOT_US}
    with Session(threads, books) as session:
        session.bind({"requests": requests})
        session.run(("50_window/windowed", "50_window/uses"), parameters)
        prices = price_tables(session.table("uses"), scenario)
        session.bind({"prices": prices.prices, "cards": prices.cards})
        session.run(_STEPS, parameters)
        return Before(
            window=earlier,
            bills=simulated_bills(prices.used, session.table("billed_reads"), session.table("billed_misses")),
            totals=session.table("totals"),
            usage=session.table("usage"),
            observed_book=session.table("observed_book"),
        )
