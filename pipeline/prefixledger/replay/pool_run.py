"""Replays one pool: what every lookup hit, when it was admitted, and what was removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.registry import PROFILES
from prefixledger.replay.chains import build_paths
from prefixledger.replay.evidence import InFlight
from prefixledger.replay.profile_runs import pack_resets, run_profile
from prefixledger.replay.tiers import Upper, replay_tier, tier_rules
from prefixledger.replay.touches import PoolLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.replay.chains import Chains, Paths
    from prefixledger.replay.fleet import Reset
    from prefixledger.replay.hosted_run import HostedRun
    from prefixledger.replay.keys_gone import KeysGone
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.profile_runs import Outcome


@dataclass(frozen=True, slots=True)
class PoolRun:
    """One pool after its replay; lookups in order of admission, equal times in the order of their queue.

    Attributes:
        plan: What was replayed.
        log: The lookups, as evidence and curves read them.
        lookup: int64[k], position of each among all lookups in order of arrival.
        queued_us: int64[k], when it asked to be admitted.
        last_block: int64[k], block number of its last keyed block, -1 for none.
        path_end: int64[k], the same behind its output, where that is cached.
        hit_blocks: int64[k], those from a lower tier included.
        host_blocks: int64[k], those from a lower tier.
        resets: Those that took effect, in order of time and replica.
        ignored: Those that a running request stopped.
        gone: What was removed, by replica and time, and from the replica's own lower tier too where it has one; its
            lookups are numbered as here.
        first_eviction_us: int64[replicas], -1 where a replica never evicted.
        finished_us: int64[k], when it let go of its blocks; None where one request at a time is replayed.
        branch: int8[k], why the router sent it there; None where the log chose.
        preemptions: How often a running request lost its room to output.
        recompute_tokens: int64[k], tokens computed again after that; None where that cannot occur.
        hosted: What a hosted cache did; None for an engine's.
        in_flight: What running requests computed when others missed it; None where whatever is computed is shown at once.
    """

    plan: PoolPlan
    log: PoolLog
    lookup: NDArray[np.int64]
    queued_us: NDArray[np.int64]
    last_block: NDArray[np.int64]
    path_end: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]
    host_blocks: NDArray[np.int64]
    resets: tuple[Reset, ...]
    ignored: tuple[Reset, ...]
    gone: KeysGone
    first_eviction_us: NDArray[np.int64]
    finished_us: NDArray[np.int64] | None = None
    branch: NDArray[np.int8] | None = None
    preemptions: int = 0
    recompute_tokens: NDArray[np.int64] | None = None
    hosted: HostedRun | None = None
    in_flight: InFlight | None = None


def run_pool(
    plan: PoolPlan, log: Log, chains: Chains, *, evidence: bool = True, engine: Engine | None = None
) -> PoolRun:
    """Replay one pool under its profile.

    Args:
        plan: The pool.
        log: All lookups.
        chains: The forest, cut into chains.
        evidence: Whether to list what left the cache; no hit goes by it but those of a lower tier.
        engine: See ``run_profile``.
    """
    outcome = run_profile(plan, log, chains, removals=evidence or plan.pool.tier is not None, engine=engine)
    order = np.argsort(outcome.admitted_us, kind="stable")
    place = order if outcome.queue is None else outcome.queue[order]
    lookup = plan.mine[place]
    ignored = outcome.reset_ignored.tolist()
    run = PoolRun(
        plan=plan,
        log=PoolLog(
            chains=chains,
            paths=_paths(outcome, order, chains),
            block_size=plan.block_size,
            replicas=len(plan.fleet.replicas),
            admitted_us=outcome.admitted_us[order],
            replica=plan.replica[place].astype(np.int32),
            prompt_tokens=log.lookups.prompt_tokens[lookup],
            keyed_blocks=log.lookups.n_blocks[lookup],
            cap_blocks=outcome.cap_blocks[order],
            refused=outcome.refused[order],
            touched_blocks=None if outcome.touched_blocks is None else outcome.touched_blocks[order],
            unhashed_in_line=plan.pool.cache.unhashed_in_line,
            bypassed=_bypassed(plan, log.lookups.bypassed[lookup]),
        ),
        lookup=lookup,
        queued_us=plan.residence.queued_us[place],
        last_block=log.lookups.last_block[lookup],
        path_end=outcome.path_end[order],
        hit_blocks=outcome.hit_blocks[order].astype(np.int64),
        host_blocks=np.zeros(order.size, np.int64),
        resets=tuple(reset for reset, no in zip(plan.fleet.resets, ignored, strict=True) if not no),
        ignored=tuple(reset for reset, no in zip(plan.fleet.resets, ignored, strict=True) if no),
        gone=_renumber(outcome.gone, order),
        first_eviction_us=outcome.first_eviction_us,
        finished_us=None if outcome.finished_us is None else outcome.finished_us[order],
        branch=None if plan.branch is None else plan.branch[place],
        preemptions=0 if outcome.preempted is None else int(outcome.preempted.sum()),
        recompute_tokens=None if outcome.recompute_tokens is None else outcome.recompute_tokens[order],
        hosted=outcome.hosted,
        in_flight=None if outcome.in_flight is None else _by_admission(outcome.in_flight, order),
    )
    if plan.pool.tier is None:
        return run
    if outcome.host_blocks is not None:
        host_blocks = outcome.host_blocks[order].astype(np.int64)
        return replace(run, hit_blocks=run.hit_blocks + host_blocks, host_blocks=host_blocks)
    assert outcome.stored_blocks is not None
    shown_us = None if outcome.shown_us is None else outcome.shown_us[order]
    return _with_tier(run, outcome.stored_blocks[order], shown_us)


def _bypassed(plan: PoolPlan, asked: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return who skips the lookup; providers sell no such thing, and the textbook knows none."""
    return asked if PROFILES[plan.pool.cache.profile].overlaps and asked.any() else None


def _paths(outcome: Outcome, order: NDArray[np.int64], chains: Chains) -> Paths:
    """Return the path of each lookup by admission; the kernel's own where that is the order of the queue."""
    if outcome.paths is not None and np.array_equal(order, np.arange(order.size)):
        return outcome.paths
    return build_paths(chains, outcome.path_end[order])


def _with_tier(run: PoolRun, stored_blocks: NDArray[np.int64], shown_us: NDArray[np.int64] | None) -> PoolRun:
    """Add what the lower tier hits behind the hits above it."""
    upper = Upper(
        hit_blocks=run.hit_blocks,
        finished_us=run.log.admitted_us if run.finished_us is None else run.finished_us,
        stored_blocks=stored_blocks,
        gone=run.gone,
        resets=pack_resets(run.resets),
        output_at_release=run.plan.residence.output == "at_release",
        shown_us=shown_us,
        ttl_us=run.plan.ttl_us,
    )
    tier = replay_tier(tier_rules(run.plan.pool, run.plan.block_size), run.log, upper)
    return replace(
        run, hit_blocks=run.hit_blocks + tier.host_blocks, host_blocks=tier.host_blocks, gone=tier.gone
    )


def _renumber(gone: KeysGone, order: NDArray[np.int64]) -> KeysGone:
    """Number the lookups that made room by their admission; they were numbered by their queue."""
    number = _numbers(order)
    after = None if gone.after is None else number[gone.after]
    return replace(gone, lookup=number[gone.lookup], after=after)


def _by_admission(found: InFlight, order: NDArray[np.int64]) -> InFlight:
    return InFlight(_numbers(order)[found.lookup[order]], found.end_block[order])


def _numbers(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number by admission of each place in the queue; no place, -1, stays -1."""
    number = np.empty(order.size + 1, np.int64)
    number[order] = np.arange(order.size)
    number[-1] = -1
    return number
