"""Aggregates the books of one replay over a window into the tables that a report is drawn from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from prefixledger.attribute.before import Before, before, stretch_before
from prefixledger.attribute.inputs import read_requests, read_scenario
from prefixledger.attribute.keeping import keeping
from prefixledger.attribute.prices import (
    costs_table,
    observed_bills,
    open_costs,
    price_tables,
    simulated_bills,
)
from prefixledger.attribute.session import Session
from prefixledger.attribute.shared_costs import moved_costs, share, share_prefixes, sharing
from prefixledger.attribute.window import Window, bucket_us, days
from prefixledger.economics.rates import SLOT_US
from prefixledger.errors import UsageError
from prefixledger.workspace import pruned_before_us, read_manifest, write_json, write_table

if TYPE_CHECKING:
    from decimal import Decimal
    from pathlib import Path

    from prefixledger.attribute.prices import CardUse
    from prefixledger.config.scenario import Scenario
    from prefixledger.economics.bill import Bill
    from prefixledger.workspace import Workspace

STEPS_BEFORE_PRICES = ("50_window/windowed", "50_window/uses")
STEPS = (
    "50_window/asked",
    "50_window/pieces",
    "60_marts/totals",
    "60_marts/left_out",
    "60_marts/failures",
    "60_marts/causes",
    "60_marts/details",
    "60_marts/changed_keys",
    "60_marts/timeline",
    "60_marts/by_replica",
    "60_marts/replica_slices",
    "60_marts/held_slices",
    "60_marts/balance",
    "60_marts/ages",
    "60_marts/by_draw",
    "60_marts/by_branch",
    "60_marts/by_field",
    "60_marts/rungs",
    "60_marts/usage",
    "60_marts/observed_book",
    "60_marts/gap",
    "60_marts/observed_hours",
    "60_marts/engine_hours",
    "60_marts/silent_writes",
    "60_marts/gaps",
    "60_marts/longer_lives",
    "60_marts/ttl_changes",
    "60_marts/keep_alive",
    "60_marts/owned",
    "60_marts/visits",
    "60_marts/unread",
    "60_marts/prefixes",
    "60_marts/struck",
    "60_marts/recovery",
    "60_marts/resets",
    "60_marts/billed_reads",
    "60_marts/billed_misses",
    "60_marts/billed_usage",
    "60_marts/paid",
    "60_marts/valued",
    "60_marts/spend",
    "60_marts/touches",
    "60_marts/billed_days",
    "60_marts/lengths",
    "60_marts/policy_days",
    "60_marts/disagreements",
)
CHECKS = ("70_checks/marts_close", "70_checks/draws_close", "70_checks/spend_closes")
_FILES = (
    "lookups", "segments", "observed", "events", "replicas", "shared", "lookup_shared", "kv_changes", "kv_lookups",
    "counters", "draws", "removals", "held",
)  # fmt: skip
_LAST_READ = {
    "50_window/asked": ("windowed",),
    "60_marts/prefixes": ("owned",),
    "60_marts/paid": ("pieces",),
    "60_marts/spend": ("unread", "paid"),
    "60_marts/touches": ("visits", "valued"),
}
"""Large tables, and the last statement that reads each: of a week of a million requests they are 1.5 GB together."""


@dataclass(frozen=True, slots=True)
class Marts:
    """What a window of one replay comes to; the columns of each table are in the header of its file in ``sql/60_marts``.

    Attributes:
        window: The window.
        bucket_us: Width of the slices of ``timeline``, microseconds.
        cards: The rate cards that apply, with the TTL that writes are made for.
        bills: Money by the hits and misses of the replay, one bill for each currency.
        observed_bills: Money by the usage that the log carries, of the requests that carry it.
        open_costs: What ``observed_bills`` may be higher by currency, where the log does not say for how long it wrote.
        totals: By basis, and in all.
        left_out: Requests that are no lookups, by reason.
        failures: Prompts that failed again and again.
        causes: Missed tokens by cause.
        details: Missed tokens by ``cause:detail``.
        changed_keys: Missed tokens by what made their keys new.
        timeline: By time.
        by_replica: By replica.
        replica_slices: By replica and slice of time.
        held_slices: By replica and slice of time, the memory that running requests held.
        balance: By pool, how even its load is.
        ages: By pool and time since the last use, what hits and what eviction takes.
        by_draw: By pool and seed, where a router draws.
        by_branch: By the rule of the router that decided.
        by_field: By tenant, model and other fields of the log.
        rungs: The ladder.
        usage: What the log says of its cache, in one row.
        observed_book: The observed book by cause, in one row.
        gap: Hits of the replay beside those that the service reports, in one row.
        observed_hours: The same by replica and hour.
        engine_hours: What engines said of their caches, by replica and hour.
        silent_writes: Models and tenants whose cache was written on a day and never read, by the usage in the log.
        gaps: Reads and writes by model and gap within a conversation.
        longer_lives: What each lifetime that can be had would write again, by model and rate card.
        ttl_changes: Models and tenants whose writes went from one lifetime to another.
        keep_alive: Calls that are said to keep prefixes alive, due and seen, by model and tenant.
        prefixes: By shared prefix.
        resets: By reset.
        recovery: By reset and minute around it.
        spend: Money in all, and by model, tenant, provider, service tier and day.
        billed_days: What the log holds of an invoice, by model and day.
        lengths: Reads by model and length of prompt.
        policy_days: Reads and writes as billed beside the replay, by model and day.
        disagreements: The requests in which they differ most.
        costs: ``bills`` and ``observed_bills`` as a table.
        before: The stretch before the window, as long as it is; None where the log does not hold it.
    """

    window: Window
    bucket_us: int
    cards: tuple[CardUse, ...]
    bills: tuple[Bill, ...]
    observed_bills: tuple[Bill, ...]
    open_costs: dict[str, Decimal]
    totals: pa.Table
    left_out: pa.Table
    failures: pa.Table
    causes: pa.Table
    details: pa.Table
    changed_keys: pa.Table
    timeline: pa.Table
    by_replica: pa.Table
    replica_slices: pa.Table
    held_slices: pa.Table
    balance: pa.Table
    ages: pa.Table
    by_draw: pa.Table
    by_branch: pa.Table
    by_field: pa.Table
    rungs: pa.Table
    usage: pa.Table
    observed_book: pa.Table
    gap: pa.Table
    observed_hours: pa.Table
    engine_hours: pa.Table
    silent_writes: pa.Table
    gaps: pa.Table
    longer_lives: pa.Table
    ttl_changes: pa.Table
    keep_alive: pa.Table
    prefixes: pa.Table
    resets: pa.Table
    recovery: pa.Table
    spend: pa.Table
    billed_days: pa.Table
    lengths: pa.Table
    policy_days: pa.Table
    disagreements: pa.Table
    costs: pa.Table
    before: Before | None = None


def marts(workspace: Workspace, name: str, window: Window, *, threads: int = 2) -> Marts:
    """Aggregate a window, and write each table to ``replays/<name>/marts/``.

    Args:
        workspace: Where the books are.
        name: Name of the scenario.
        window: A filter on arrivals.
        threads: Threads of DuckDB; the tables do not depend on it.

    Raises:
        UsageError: This scenario has no books, or a model in it has no rate.
        InternalError: Two cuts of the window do not sum to the same.
    """
    folder = workspace.replay(name)
    scenario = read_scenario(folder)
    books, requests = _books(folder), read_requests(workspace, scenario)
    with Session(threads, books) as session:
        session.bind({"requests": requests})
        result = _aggregate(session, scenario, window)
    cut_us = pruned_before_us(read_manifest(workspace))
    earlier = stretch_before(folder, window)
    if earlier is not None and (cut_us is None or earlier.from_us >= cut_us):
        result = replace(result, before=before(books, requests, scenario, earlier, threads=threads))
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, pa.Table):
            write_table(folder / "marts" / f"{field.name}.parquet", value)
    write_json(folder / "marts" / "window.json", {**asdict(window), "bucket_us": result.bucket_us})
    return result


def _aggregate(session: Session, scenario: Scenario, window: Window) -> Marts:
    bucket = bucket_us(window)
    parameters = {"from_us": window.from_us, "to_us": window.to_us, "bucket_us": bucket, "slot_us": SLOT_US}
    session.run(STEPS_BEFORE_PRICES, parameters)
    prices = price_tables(session.table("uses"), scenario)
    session.bind({"prices": prices.prices, "cards": prices.cards, "days": days(window)})
    session.bind({"sharing": sharing(scenario), "keeping": keeping(scenario)})
    for step in STEPS:
        session.run([step], parameters)
        for name in _LAST_READ.get(step, ()):
            session.drop(name)
    session.check(CHECKS)
    simulated = simulated_bills(prices.used, session.table("billed_reads"), session.table("billed_misses"))
    usage = session.table("billed_usage")
    observed = observed_bills(prices.used, usage)
    tables = {
        field.name: session.table(field.name) for field in fields(Marts) if f"60_marts/{field.name}" in STEPS
    }
    moved = moved_costs(session.table("touches"))
    tables["spend"] = share(tables["spend"], moved)
    tables["prefixes"] = share_prefixes(tables["prefixes"], moved)
    return Marts(
        window=window,
        bucket_us=bucket,
        cards=prices.used,
        bills=simulated,
        observed_bills=observed,
        open_costs=open_costs(prices.used, usage),
        costs=costs_table((("simulated", simulated), ("observed", observed))),
        **tables,
    )


def _books(folder: Path) -> dict[str, Path]:
    if not (folder / "lookups.parquet").is_file():
        raise UsageError(f"replay {folder.name!r} has no books", hint="run prefixledger replay again")
    return {file: folder / f"{file}.parquet" for file in _FILES}
