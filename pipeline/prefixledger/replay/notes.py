"""What a reader of a replay must know about the log and the events, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.fleet import ALL, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.named_events import NamedEvent
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.pool_run import PoolRun


def log_notes(log: Log) -> Iterator[str]:
    """Say what the log lacks: rows that ask no cache, sampled rows, prompts of which only the head is known."""
    failed, unkeyed = count_others(log)
    if failed:
        yield f"{failed} failed calls never reached a cache and are no lookups"
    if unkeyed:
        yield f"{unkeyed} rows carry usage but no keys and cannot be looked up"
    chosen = log.rows.table.select(["weight", "prompt_complete"]).take(log.lookups.request_row)
    sampled = int((chosen["weight"].to_numpy() != 1.0).sum())
    if sampled:
        yield f"{sampled} lookups stand for a sample: reuse between requests that were not logged is missing, so hits are a lower bound"
    short = len(chosen) - int(chosen["prompt_complete"].to_numpy().sum())
    if short:
        yield f"of {short} lookups only the head of the prompt was logged; the rest has no keys and cannot hit"


def count_others(log: Log) -> tuple[int, int]:
    """Return how many rows failed with keys or without, and how many others carry no keys."""
    failed = np.asarray(log.rows.table["status"].to_numpy(zero_copy_only=False) == "failed")
    return int(failed.sum()), int((~log.rows.is_lookup & ~failed).sum())


def event_notes(fleets: Sequence[tuple[Pool, Fleet]], events: Sequence[NamedEvent]) -> Iterator[str]:
    """Tell of events that name nobody.

    A file beside the log may well name replicas that did not serve in it; a scenario that does is wrong.

    Raises:
        UsageError: An event of the scenario names no replica of any pool it concerns.
    """
    matched = {event_id for _, fleet in fleets for event_id in fleet.matched}
    for named in events:
        if named.event_id in matched:
            continue
        what = (
            f"event {named.event_id} ({named.event.kind}) names {named.event.replica or named.event.pool!r}"
        )
        if not named.from_file:
            names = [f"{pool.name}: {', '.join(r.name for r in fleet.replicas)}" for pool, fleet in fleets]
            raise UsageError(
                f"{what}, and there is no such replica", hint=f"replicas that exist: {'; '.join(names)}"
            )
        yield f"{what}, which is no replica of this log, and changes nothing"


def replica_notes(plans: Sequence[PoolPlan]) -> Iterator[str]:
    """Say which lookups name no replica, where the log is what places them."""
    for plan in plans:
        for number, replica in enumerate(plan.fleet.replicas):
            nameless = int((plan.replica == number).sum())
            if plan.fleet.membership is None and replica.name in (ALL, UNKNOWN) and nameless:
                yield (
                    f"pool {plan.pool.name!r}: {nameless} lookups name no replica and are taken to ask one cache, "
                    f"{replica.name}"
                )


def run_notes(runs: Sequence[PoolRun]) -> Iterator[str]:
    """Say what a replay left out: flushes that running requests stopped, prompts larger than the cache."""
    for run in runs:
        pool, profile = run.plan.pool.name, run.plan.pool.cache.profile
        for reset in run.ignored:
            replica = run.plan.fleet.replicas[reset.replica].name
            yield f"event {reset.event_id} (flush) changed nothing on {replica}: a request was running there"
        refused = int(run.log.refused.sum())
        if refused:
            yield f"pool {pool!r}: {refused} prompts are larger than the whole cache and were refused"
        if profile == "textbook":
            yield (
                f"pool {pool!r}: profile 'textbook' leaves holes in prefixes, so it has no capacity curve, and needed "
                "capacities are those of an LRU over prefixes; causes follow from last uses alone and the books close"
            )
        if run.plan.residence.mode != "none":
            yield (
                f"pool {pool!r}: residence is {run.plan.residence.mode}; ladder, curves and needed capacities are those "
                "of one request at a time"
            )
