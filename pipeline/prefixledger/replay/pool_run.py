"""Replays one pool: what every lookup hit, when it was admitted, and what was removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.profile_runs import run_profile
from prefixledger.replay.touches import PoolLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.fleet import Reset
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.profile_runs import KeysGone


@dataclass(frozen=True, slots=True)
class PoolRun:
    """One pool after its replay; lookups in order of admission, equal times in order of arrival.

    Attributes:
        plan: What was replayed.
        log: The lookups, as evidence and curves read them.
        lookup: int64[k], position of each among all lookups in order of arrival.
        last_block: int64[k], block number of its last keyed block, -1 for none.
        path_end: int64[k], the same behind its output, where that is cached.
        hit_blocks: int64[k].
        resets: Those that took effect, in order of time and replica.
        ignored: Those that a running request stopped.
        gone: What was removed, by replica and time; its lookups are numbered as here.
        first_eviction_us: int64[replicas], -1 where a replica never evicted.
    """

    plan: PoolPlan
    log: PoolLog
    lookup: NDArray[np.int64]
    last_block: NDArray[np.int64]
    path_end: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]
    resets: tuple[Reset, ...]
    ignored: tuple[Reset, ...]
    gone: KeysGone
    first_eviction_us: NDArray[np.int64]


def run_pool(plan: PoolPlan, log: Log, chains: Chains) -> PoolRun:
    """Replay one pool under its profile.

    Args:
        plan: The pool.
        log: All lookups.
        chains: The forest, cut into chains.
    """
    outcome = run_profile(plan, log, chains)
    order = np.argsort(outcome.admitted_us, kind="stable")
    lookup = plan.mine[order]
    ignored = outcome.reset_ignored.tolist()
    return PoolRun(
        plan=plan,
        log=PoolLog(
            chains=chains,
            paths=build_paths(chains, outcome.path_end[order]),
            block_size=plan.block_size,
            replicas=len(plan.fleet.replicas),
            admitted_us=outcome.admitted_us[order],
            replica=plan.replica[order].astype(np.int32),
            prompt_tokens=log.lookups.prompt_tokens[lookup],
            keyed_blocks=log.lookups.n_blocks[lookup],
            cap_blocks=outcome.cap_blocks[order],
            refused=outcome.refused[order],
            touched_blocks=None if outcome.touched_blocks is None else outcome.touched_blocks[order],
        ),
        lookup=lookup,
        last_block=log.lookups.last_block[lookup],
        path_end=outcome.path_end[order],
        hit_blocks=outcome.hit_blocks[order].astype(np.int64),
        resets=tuple(reset for reset, no in zip(plan.fleet.resets, ignored, strict=True) if not no),
        ignored=tuple(reset for reset, no in zip(plan.fleet.resets, ignored, strict=True) if no),
        gone=_renumber(outcome.gone, order),
        first_eviction_us=outcome.first_eviction_us,
    )


def _renumber(gone: KeysGone, order: NDArray[np.int64]) -> KeysGone:
    """Number the lookups that made room by their admission; they were numbered by arrival."""
    number = np.empty(order.size + 1, np.int64)
    number[order] = np.arange(order.size)
    number[-1] = -1
    return replace(gone, lookup=number[gone.lookup])
