"""Settles, before anything is replayed, which lookup asks which replica of which pool, and under what rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.errors import UsageError
from prefixledger.replay.adapter_notes import adapter_notes
from prefixledger.replay.fleet import logged_fleet, logged_names, made_fleet
from prefixledger.replay.hosted_scopes import hosted_scopes
from prefixledger.replay.moved import moved_notes
from prefixledger.replay.notes import (
    event_notes,
    late_event_notes,
    log_notes,
    replica_notes,
    silence_notes,
)
from prefixledger.replay.pools import assign_pools, pool_block_size
from prefixledger.replay.residence import decide_residence
from prefixledger.replay.router_view import router_view
from prefixledger.replay.routing import route
from prefixledger.replay.session_clocks import clock_notes
from prefixledger.replay.tiers import check_tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.named_events import NamedEvent
    from prefixledger.replay.queued import Queued
    from prefixledger.replay.residence import Residence

AS_LOGGED = "as-logged"


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """One pool, ready to be replayed.

    Attributes:
        index: Its index in the scenario.
        pool: What the scenario says of it.
        block_size: Tokens per block.
        capacity_blocks: Usable blocks per replica; None is unlimited.
        ttl_us: Time to live; None is for ever.
        mine: int64[k], its lookups, in order of arrival.
        replica: int64[k], whom each asks, a position in ``fleet.replicas``.
        first_replica: Index of the pool's first replica among the replicas of all pools.
        fleet: Its replicas and their resets.
        residence: How long lookups hold their blocks.
        branch: int8[k], why the router sent each there, a position in ``BRANCHES``; None where the log chose.
        queues: Filled in as it is replayed: for a ``replica`` its lookups in the order in which they ask to be admitted, which
            hangs on no capacity and no lifetime; plans that differ in these alone share it.
    """

    index: int
    pool: Pool
    block_size: int
    capacity_blocks: int | None
    ttl_us: int | None
    mine: NDArray[np.int64]
    replica: NDArray[np.int64]
    first_replica: int
    fleet: Fleet
    residence: Residence
    branch: NDArray[np.int8] | None = None
    queues: list[tuple[NDArray[np.int64], Queued]] = field(default_factory=list, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to be replayed.

    Attributes:
        pools: Those that have lookups, in order.
        notes: What the reader must know, one sentence each.
    """

    pools: tuple[PoolPlan, ...]
    notes: tuple[str, ...]


def make_plan(
    log: Log, scenario: Scenario, events: Sequence[NamedEvent], about: Sequence[str] | None = None
) -> Plan:
    """Settle pools, replicas, routing and residence.

    Args:
        log: All rows and lookups.
        scenario: What is replayed.
        events: What happens to its replicas.
        about: What ``log_notes`` says of the log, where it was asked before.

    Raises:
        UsageError: The scenario does not fit the log; see the modules of each step.
    """
    assigned = assign_pools(log.rows, scenario)
    of_lookup = assigned[log.lookups.request_row]
    plans: list[PoolPlan] = []
    for index, pool in enumerate(scenario.pool):
        mine = np.flatnonzero(of_lookup == index)
        if mine.size == 0:
            continue
        block_size = pool_block_size(pool, log.rows, log.lookups, mine)
        residence = decide_residence(pool, log.lookups, mine, block_size)
        fleet, replica, branch = _place(
            log, pool, np.flatnonzero(assigned == index), mine, residence, events, scenario.seed
        )
        check_tier(pool, fleet, block_size)
        plans.append(
            PoolPlan(
                index=index,
                pool=pool,
                block_size=block_size,
                capacity_blocks=pool.capacity_blocks(block_size),
                ttl_us=pool.cache.ttl_us,
                mine=mine,
                replica=replica,
                first_replica=sum(len(plan.fleet.replicas) for plan in plans),
                fleet=fleet,
                residence=residence,
                branch=branch,
            )
        )
    started_us = log.rows.started_us
    told = [
        *(log_notes(log) if about is None else about),
        *event_notes([(plan.pool, plan.fleet) for plan in plans], events),
        *late_event_notes(events, int(started_us[0]), int(started_us[-1])),
    ]
    told += [*replica_notes(plans), *silence_notes(plans, log), *adapter_notes(plans, log), *clock_notes(log)]
    told += [note for plan in plans for note in (*plan.fleet.notes, *plan.residence.notes)]
    return Plan(tuple(plans), tuple(told))


def placed_anew(plan: PoolPlan, log: Log, seed: int) -> PoolPlan:
    """Return a pool whose router draws by another seed; all else stays as it is.

    Args:
        plan: A pool that a router has placed.
        log: All lookups.
        seed: Decides what is drawn.
    """
    fleet = plan.pool.fleet
    assert plan.fleet.membership is not None
    view, _ = router_view(log, plan.pool, plan.mine, plan.fleet, plan.residence, seed)
    placed = route(fleet.routing, view, plan.fleet.membership, fleet.options)
    return replace(plan, replica=placed.replica, branch=placed.branch)


def _place(
    log: Log,
    pool: Pool,
    pool_rows: NDArray[np.int64],
    mine: NDArray[np.int64],
    residence: Residence,
    events: Sequence[NamedEvent],
    seed: int,
) -> tuple[Fleet, NDArray[np.int64], NDArray[np.int8] | None]:
    """Build the fleet of a pool, and say whom each of its lookups asks, and why if a router decided."""
    concerned = [
        e
        for e in events
        # What happens to engines in general happens to no provider: an event must name the pool of a hosted cache.
        if (not pool.hosted if e.event.pool is None else fnmatchcase(pool.name or "", e.event.pool))
    ]
    scopes = hosted_scopes(log, pool, pool_rows, mine) if pool.hosted else None
    names, position = (
        logged_names(log.rows.table["replica"].take(pa.array(pool_rows)))
        if scopes is None
        else (scopes.names, scopes.position)
    )
    wanted, routing = pool.fleet.replicas, pool.fleet.routing
    if routing == AS_LOGGED:
        if wanted is not None and wanted != len(names):
            raise UsageError(
                f"pool {pool.name!r}: replicas = {wanted}, but routing is as-logged and the log names {len(names)}",
                hint="leave replicas out, or choose a routing that places requests itself",
            )
        fleet = logged_fleet(
            names,
            position,
            log.rows.started_us[pool_rows],
            end_us=int(log.rows.started_us[-1]),
            grace_us=None if pool.hosted else pool.fleet.replica_grace_us,
            events=concerned,
        )
        at = position[np.searchsorted(pool_rows, log.lookups.request_row[mine])]
        if scopes is None:
            return fleet, at, None
        return replace(fleet, notes=(*fleet.notes, *scopes.notes)), at, scopes.branch
    if wanted is None:
        raise UsageError(
            f"pool {pool.name!r}: routing {routing!r} needs a number of replicas",
            hint=f"set replicas under its fleet; the log names {len(names)}",
        )
    fleet = made_fleet(wanted, start_us=int(log.rows.started_us[0]), events=concerned)
    assert fleet.membership is not None
    view, notes = router_view(log, pool, mine, fleet, residence, seed)
    placed = route(routing, view, fleet.membership, pool.fleet.options)
    moved = moved_notes(pool.name, view, placed.replica, fleet.membership)
    return replace(fleet, notes=(*fleet.notes, *notes, *moved)), placed.replica, placed.branch
