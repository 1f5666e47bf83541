"""Settles, before anything is replayed, which lookup asks which replica of which pool, and under what rules."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.errors import UsageError
from prefixledger.replay.fleet import logged_fleet, logged_names, made_fleet
from prefixledger.replay.lookups import identities, stable_hash
from prefixledger.replay.notes import event_notes, log_notes, replica_notes
from prefixledger.replay.pools import assign_pools, pool_block_size
from prefixledger.replay.residence import decide_residence
from prefixledger.replay.routing import RouterView, route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.named_events import NamedEvent
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to be replayed.

    Attributes:
        pools: Those that have lookups, in order.
        notes: What the reader must know, one sentence each.
    """

    pools: tuple[PoolPlan, ...]
    notes: tuple[str, ...]


def make_plan(log: Log, scenario: Scenario, events: Sequence[NamedEvent]) -> Plan:
    """Settle pools, replicas, routing and residence.

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
        fleet, replica = _place(log, pool, np.flatnonzero(assigned == index), mine, events, scenario.seed)
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
                residence=decide_residence(pool, log.lookups, mine, block_size),
            )
        )
    told = [*log_notes(log), *event_notes([(plan.pool, plan.fleet) for plan in plans], events)]
    told += replica_notes(plans)
    told += [note for plan in plans for note in (*plan.fleet.notes, *plan.residence.notes)]
    return Plan(tuple(plans), tuple(told))


def _place(
    log: Log,
    pool: Pool,
    pool_rows: NDArray[np.int64],
    mine: NDArray[np.int64],
    events: Sequence[NamedEvent],
    seed: int,
) -> tuple[Fleet, NDArray[np.int64]]:
    """Build the fleet of a pool, and say whom each of its lookups asks."""
    concerned = [e for e in events if e.event.pool is None or fnmatchcase(pool.name or "", e.event.pool)]
    names, position = logged_names(log.rows.table["replica"].take(pa.array(pool_rows)))
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
            grace_us=pool.fleet.replica_grace_us,
            events=concerned,
        )
        return fleet, position[np.searchsorted(pool_rows, log.lookups.request_row[mine])]
    if wanted is None:
        raise UsageError(
            f"pool {pool.name!r}: routing {routing!r} needs a number of replicas",
            hint=f"set replicas under its fleet; the log names {len(names)}",
        )
    fleet = made_fleet(wanted, start_us=int(log.rows.started_us[0]), events=concerned)
    assert fleet.membership is not None
    view = _router_view(log, mine, seed)
    return fleet, route(routing, view, fleet.membership, prefix_tokens=pool.fleet.prefix_tokens)


def _router_view(log: Log, mine: NDArray[np.int64], seed: int) -> RouterView:
    last_block = log.lookups.last_block[mine]

    def hashes(chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        # All lookups of the pool are named, not only the chosen: the number among equals must not depend on the router.
        last_key = np.zeros((mine.size, 2), np.uint64)
        last_key[last_block >= 0] = log.forest.key[last_block[last_block >= 0]]
        names = identities(log.rows.table.take(pa.array(log.lookups.request_row[mine])), last_key)
        return np.asarray([stable_hash(names[i], seed) for i in chosen.tolist()], np.uint64)

    return RouterView(
        started_us=log.lookups.started_us[mine],
        last_block=last_block,
        block_size=int(log.lookups.block_size[mine[0]]),
        parent=log.forest.parent,
        key=log.forest.key,
        hashes=hashes,
    )
