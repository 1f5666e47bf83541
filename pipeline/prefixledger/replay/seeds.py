"""Replays a pool whose router draws under several seeds: one draw is an accident, its spread is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.plan import placed_anew
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.routing import draws

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.chains import Chains
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.pool_run import PoolRun


@dataclass(frozen=True, slots=True)
class Draw:
    """What one pool hits under one seed; lookups in order of admission under that seed.

    Attributes:
        draw: 0 is the replay itself, under the seed of the scenario; n is the same under that seed plus n.
        pool: Index of the pool in the scenario.
        lookup: int64[k], position of each lookup among all in order of arrival.
        replica: int64[k], whom each asked, an index among the replicas of all pools.
        hit_tokens: int64[k].
    """

    draw: int
    pool: int
    lookup: NDArray[np.int64]
    replica: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]


def drawn_again(
    log: Log, scenario: Scenario, runs: Sequence[PoolRun], chains: Chains
) -> tuple[tuple[Draw, ...], ...]:
    """Replay every pool whose router draws under the other seeds of the scenario, for its hits alone.

    Args:
        log: All lookups.
        scenario: Its seed, and how many seeds it asks for.
        runs: Its pools, replayed.
        chains: The forest, cut into chains.

    Returns:
        For each pool its draws, that of the replay first; none where nothing is drawn or one seed is asked for.
    """
    return tuple(tuple(_draws(log, scenario, run, chains)) for run in runs)


def other_draws(plan: PoolPlan, scenario: Scenario) -> range:
    """Return the numbers of the draws besides the replay itself: empty where nothing is drawn or one seed is asked for."""
    drawn = plan.branch is not None and draws(plan.pool.fleet.routing, plan.branch)
    return range(1, scenario.seeds) if drawn else range(0)


def _draws(log: Log, scenario: Scenario, run: PoolRun, chains: Chains) -> Iterator[Draw]:
    plan = run.plan
    others = other_draws(plan, scenario)
    if others:
        yield _draw(0, run)
    for number in others:
        again = placed_anew(plan, log, scenario.seed + number)
        same = np.array_equal(again.replica, plan.replica)
        yield _draw(number, run if same else run_pool(again, log, chains, evidence=False))


def _draw(number: int, run: PoolRun) -> Draw:
    return Draw(
        draw=number,
        pool=run.plan.index,
        lookup=run.lookup,
        replica=run.log.replica.astype(np.int64) + run.plan.first_replica,
        hit_tokens=run.hit_blocks * run.plan.block_size,
    )
