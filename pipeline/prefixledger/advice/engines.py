"""What to change about engines of one's own: who is asked, and how much they remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.changes import Change, applied
from prefixledger.config.registry import ROUTINGS
from prefixledger.config.routers import router_options
from prefixledger.config.tiers import TIER_KINDS, Tier
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground, Outcome
    from prefixledger.advice.layouts import LaidOut
    from prefixledger.config.models import Pool
    from prefixledger.replay.tally import PoolTally

ROUTERS = {
    "consistent-hash": "requests that begin alike to the same replica, until it has 1.25 times its even share of those in flight",
    "cache-aware": "to the replica that was sent the longest part of the prompt, unless loads are uneven by 64 requests and half",
    "ray-prefix": "to the replica that was sent the longest part of the prompt, unless queues differ by 10 requests",
}
"""Policies that look at prefixes and at load; what each does in words."""
_CAPS = {"ray-prefix": {"imbalanced_threshold": 10}}
"""Options of those whose cap is not there unless it is asked for."""
MOST_UNEVEN = 1.5
"""Prefill of the busiest replica over the mean that is put up with, or what it is today where that is more."""
GROWTH = (1.5, 2.0)
"""Times the memory of today."""
TIER = "4x"
_ENOUGH = 0.8
"""Of the gain of the largest memory makes a smaller one do."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A change that was replayed.

    Attributes:
        kind: See ``Recommendation``.
        action: See ``Recommendation``.
        where: Name of the pool, or whom it is for.
        change: What was changed.
        outcome: What it comes to.
        mine: bool[m], lookups that it concerns.
        side_effects: See ``Recommendation``.
        pool: Name of the pool; empty for all.
        shown_by: See ``Recommendation``.
        chosen: Whether it was the best of several.
        calls: For the values of units the lookups and shifts of further calls.
        laid: The log with its prompts laid out anew.
    """

    kind: str
    action: str
    where: str
    change: Change | None
    outcome: Outcome
    mine: NDArray[np.bool_]
    side_effects: tuple[str, ...]
    pool: str
    shown_by: str
    chosen: bool = True
    calls: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    laid: LaidOut | None = None


def try_engine(
    ground: Ground, pool: Pool, tally: PoolTally, mine: NDArray[np.bool_]
) -> Iterator[Tried | str]:
    """Yield what pays for a pool of engines, and notes on what does not.

    Args:
        ground: The log.
        pool: The pool.
        tally: What it comes to today.
        mine: bool[m], its lookups.
    """
    replicas = [replica.name for replica in tally.plan.fleet.replicas]
    if len(replicas) > 1:
        yield from _routing(ground, pool, tally, mine, replicas)
    if tally.plan.capacity_blocks is not None and tally.plan.pool.tier is None:
        yield from _memory(ground, pool, mine, tally.plan.capacity_blocks)


def _routing(
    ground: Ground, pool: Pool, tally: PoolTally, mine: NDArray[np.bool_], replicas: list[str]
) -> Iterator[Tried | str]:
    today, before = pool.fleet.routing, uneven(tally, ground)
    logged = tuple(replicas) if today == "as-logged" else ()
    allowed = max(MOST_UNEVEN, before)
    best: tuple[float, str, Change, Outcome, float] | None = None
    changes = {}
    for routing in (router for router in ROUTERS if router != today):
        fleet = (
            ("routing", routing),
            ("replicas", pool.fleet.replicas or len(replicas)),
            ("router", router_options(routing, _CAPS.get(routing))),
        )
        changes[routing] = Change(pool.name or "", fleet=fleet, logged=logged)
    refused, tried = [], []
    outcomes = ground.run_all([applied(ground.scenario, [change]) for change in changes.values()])
    for (routing, change), outcome in zip(changes.items(), outcomes, strict=True):
        if isinstance(outcome, UsageError):
            refused.append(f"pool {pool.name}: routing {routing} could not be replayed: {outcome.message}")
            continue
        tried.append(routing)
        after = uneven(_tally(outcome, pool.name), ground)
        gain = _gain(ground, outcome, mine)
        if after <= allowed + 1e-9 and (best is None or gain > best[0]):
            best = (gain, routing, change, outcome, after)
    yield from refused
    if best is None:
        if tried:
            yield f"pool {pool.name}: {', '.join(tried)} load one replica with more than {allowed:.2f} times the mean"
        return
    _, routing, change, outcome, after = best
    hottest = f"the busiest replica prefills {after:.2f} times the mean in place of {before:.2f}"
    yield _tried(
        pool,
        mine,
        kind="routing",
        action=f"Route the requests of pool {pool.name} by prefix under a cap on the load: {routing}, {ROUTERS[routing]}.",
        change=change,
        outcome=outcome,
        side_effects=(f"Load: {hottest}.", f"Instead of {today}: {ROUTINGS[today]}."),
        shown_by="replay --scenario with the scenario beside this advice"
        if routing in _CAPS
        else f"whatif --routing {routing}",
    )


def _memory(ground: Ground, pool: Pool, mine: NDArray[np.bool_], blocks: int) -> Iterator[Tried | str]:
    changes = [
        Change(pool.name or "", cache=(("capacity", f"{round(blocks * times)} blocks"),)) for times in GROWTH
    ]
    sizes = []
    outcomes = ground.run_all([applied(ground.scenario, [change]) for change in changes])
    for times, change, outcome in zip(GROWTH, changes, outcomes, strict=True):
        if isinstance(outcome, UsageError):
            raise outcome
        sizes.append((_gain(ground, outcome, mine), times, change, outcome))
    most = sizes[-1][0]
    if most <= 0:
        yield f"pool {pool.name}: {GROWTH[-1]:g} times the memory saves nothing"
    else:
        _, times, change, outcome = next(size for size in sizes if size[0] >= _ENOUGH * most)
        yield _tried(
            pool,
            mine,
            kind="capacity",
            action=f"Give each replica of pool {pool.name} {times:g} times the memory for prefixes: "
            f"{round(blocks * times):,} blocks in place of {blocks:,}.",
            change=change,
            outcome=outcome,
            side_effects=("Memory: what it costs is not in the figure.",),
            shown_by=f"whatif --capacity {round(blocks * times)}",
        )
    # A tier is larger than any memory that was tried, so it may pay where that does not.
    if pool.cache.profile in {kind.profile for kind in TIER_KINDS.values()}:
        yield from _tier(ground, pool, mine)


def _tier(ground: Ground, pool: Pool, mine: NDArray[np.bool_]) -> Iterator[Tried | str]:
    change = Change(pool.name or "", tier=Tier(capacity=TIER).under(pool.cache.profile))
    try:
        outcome = ground.run(applied(ground.scenario, [change]))
    except UsageError as error:
        yield f"pool {pool.name}: a tier in host memory could not be replayed: {error.message}"
        return
    yield _tried(
        pool,
        mine,
        kind="tier",
        action=f"Keep what pool {pool.name} evicts in host memory of {TIER[:-1]} times the size of the cache.",
        change=change,
        outcome=outcome,
        side_effects=("Host memory, and the time to load from it, are not in the figure.",),
        shown_by=f"whatif --tier {TIER}",
    )


def _tried(
    pool: Pool,
    mine: NDArray[np.bool_],
    *,
    kind: str,
    action: str,
    change: Change,
    outcome: Outcome,
    side_effects: tuple[str, ...],
    shown_by: str,
) -> Tried:
    """Return what was tried on a pool as a whole."""
    name = pool.name or ""
    return Tried(kind, action, f"pool {pool.name}", change, outcome, mine, side_effects, name, shown_by)


def uneven(tally: PoolTally, ground: Ground) -> float:
    """Return the prefill of the busiest replica of a pool over the mean of all."""
    prompt = ground.log.lookups.prompt_tokens[tally.lookup]
    replicas = len(tally.plan.fleet.replicas)
    load = np.bincount(tally.replica, prompt - tally.hit_tokens, replicas)
    return float(load.max() / load.mean()) if load.sum() else 1.0


def _tally(outcome: Outcome, name: str | None) -> PoolTally:
    return next(tally for tally in outcome.trial.pools if tally.plan.pool.name == name)


def _gain(ground: Ground, outcome: Outcome, mine: NDArray[np.bool_]) -> float:
    """Return what is saved on the days that choose."""
    chosen = mine & ground.fitted
    return float((ground.base.amount - outcome.amount)[chosen].sum())
