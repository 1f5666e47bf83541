"""Runs the kernel of a profile on one pool, and brings what the kernels find into one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.config.registry import PROFILES
from prefixledger.replay.apart import replay_apart
from prefixledger.replay.chains import Paths, build_paths
from prefixledger.replay.evidence import InFlight
from prefixledger.replay.extents import Resets, Traffic, replay_extents
from prefixledger.replay.hosted_run import run_hosted
from prefixledger.replay.keys_gone import KeysGone
from prefixledger.replay.queued import queue_up, reach_blocks
from prefixledger.replay.sglang import radix_pool
from prefixledger.replay.sglang_running import replay_running
from prefixledger.replay.textbook import BlockTraffic, replay_textbook
from prefixledger.replay.tiers import NEVER_US, tier_rules
from prefixledger.replay.touches import vllm_cap_blocks
from prefixledger.replay.unpromoted import replay_unpromoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extent_tables import Found
    from prefixledger.replay.extents import Output, Removals, Replayed
    from prefixledger.replay.fleet import Reset
    from prefixledger.replay.hosted_run import HostedRun
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.queued import Queued
    from prefixledger.replay.sglang import RadixReplayed
    from prefixledger.replay.sglang_running import RunningReplayed
    from prefixledger.replay.textbook import BlockRemovals


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kernel found, lookups in the order of their queue; with output, paths go on behind the prompt.

    ``queue`` has the place of each in ``PoolPlan.mine``; None: they queued in order of arrival. ``finished_us`` is when
    each let go of its blocks; None where one request at a time is replayed. ``stored_blocks`` are the full blocks that each
    had keyed by then; None where the profile has no lower tier. ``shown_us`` is when each showed its prompt to others, and
    ``tiers.NEVER_US`` where it never did; None where it does so when it is admitted. ``preempted`` is how often each lost its room to output, and
    ``recompute_tokens`` what was computed again for that; None where the profile never preempts. ``in_flight`` numbers
    lookups by their queue; None where whatever is computed is shown at once. ``host_blocks`` are those that each read from
    a lower tier, behind its hits; None where that follows the cache above and is replayed after it. ``paths`` are those down to ``path_end``; None:
    not kept.
    """

    cap_blocks: NDArray[np.int64]
    hit_blocks: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    refused: NDArray[np.bool_]
    reset_ignored: NDArray[np.bool_]
    gone: KeysGone
    first_eviction_us: NDArray[np.int64]
    path_end: NDArray[np.int64]
    touched_blocks: NDArray[np.int64] | None
    queue: NDArray[np.int64] | None = None
    finished_us: NDArray[np.int64] | None = None
    stored_blocks: NDArray[np.int64] | None = None
    shown_us: NDArray[np.int64] | None = None
    preempted: NDArray[np.int32] | None = None
    recompute_tokens: NDArray[np.int64] | None = None
    hosted: HostedRun | None = None
    in_flight: InFlight | None = None
    host_blocks: NDArray[np.int32] | None = None
    paths: Paths | None = None


def run_profile(
    plan: PoolPlan, log: Log, chains: Chains, *, removals: bool = True, engine: Engine | None = None
) -> Outcome:
    """Replay one pool under its profile.

    Args:
        plan: The pool.
        log: All lookups.
        chains: The forest, cut into chains.
        removals: Whether to list what left the cache; else ``gone`` is empty.
        engine: What may replay replicas apart. The textbook cache, hosted caches and tiers that are read in place are
            replayed in one go: the first is a yardstick, the second share scopes, the third are one cache with the first tier.
    """
    assert PROFILES[plan.pool.cache.profile].replayed
    if PROFILES[plan.pool.cache.profile].hosted:
        return _run_hosted(plan, log, chains)
    if plan.pool.cache.profile == "textbook":
        return _run_textbook(plan, log, chains, removals=removals)
    if plan.pool.cache.profile == "sglang":
        one_at_a_time = plan.residence.mode == "none" and plan.residence.output == "ignore"
        run = _run_sglang if one_at_a_time else _run_sglang_running
        return run(plan, log, chains, removals=removals, engine=engine)
    if plan.pool.tier is not None and not plan.pool.tier.promote:
        return _run_unpromoted(plan, log, chains)
    return _run_vllm(plan, log, chains, removals=removals, engine=engine)


def pack_resets(resets: tuple[Reset, ...]) -> Resets:
    """Return resets as arrays."""
    return Resets(
        at_us=np.asarray([reset.at_us for reset in resets], np.int64),
        replica=np.asarray([reset.replica for reset in resets], np.int32),
        force=np.asarray([reset.force for reset in resets], np.bool_),
    )


def _queued(plan: PoolPlan, log: Log, chains: Chains) -> Queued:
    queued = next((queued for replica, queued in plan.queues if replica is plan.replica), None)
    if queued is None:  # two threads may both make it: the second is as good as the first
        queued = queue_up(log, chains, plan.mine, plan.replica, plan.block_size, plan.residence)
        plan.queues.append((plan.replica, queued))
    return queued


def _caps(log: Log, mine: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    known = log.lookups
    caps = vllm_cap_blocks(known.prompt_tokens[mine], known.n_blocks[mine], block_size)
    return np.where(known.bypassed[mine], 0, caps)


def _extents(traffic: Traffic, chains: Chains, **rules: Any) -> Replayed:
    return replay_extents(traffic, chains.chain_length, **rules)


def _radix(
    traffic: Traffic,
    chains: Chains,
    *,
    output: None,
    capacity_blocks: int | None,
    ttl_us: int | None,
    **rest: Any,
) -> RadixReplayed:
    assert output is None  # what running requests write is another kernel's
    log_removals = rest.pop("log_removals")
    return radix_pool(traffic, chains, **rest).replay(
        capacity_blocks=capacity_blocks, ttl_us=ttl_us, log_removals=log_removals
    )


def _rules(plan: PoolPlan, output: Output | None, *, removals: bool) -> dict[str, Any]:
    """Return what every engine is told of its pool."""
    return {
        "block_size": plan.block_size,
        "replicas": len(plan.fleet.replicas),
        "capacity_blocks": plan.capacity_blocks,
        "ttl_us": plan.ttl_us,
        "output": output,
        "resets": pack_resets(plan.fleet.resets),
        "log_removals": removals,
    }


def _in_queue(
    plan: PoolPlan,
    log: Log,
    asked: Queued,
    found: Found | Replayed | RunningReplayed,
    *,
    gone: KeysGone,
    **more: Any,
) -> Outcome:
    """Return what an engine found whose lookups wait in line; ``more`` is what this one says besides."""
    return Outcome(
        cap_blocks=_caps(log, plan.mine[asked.queue], plan.block_size),
        hit_blocks=found.hit_blocks,
        admitted_us=found.admitted_us,
        refused=found.refused,
        reset_ignored=found.reset_ignored,
        gone=gone,
        first_eviction_us=found.first_eviction_us,
        path_end=asked.path_end,
        touched_blocks=None if asked.output is None else asked.output.keyed_blocks,
        queue=asked.queue,
        finished_us=None if plan.residence.mode == "none" else found.finished_us,
        recompute_tokens=found.recompute_tokens,
        **more,
    )


def _run_vllm(plan: PoolPlan, log: Log, chains: Chains, *, removals: bool, engine: Engine | None) -> Outcome:
    asked = _queued(plan, log, chains)
    replayed = replay_apart(
        _extents,
        asked.traffic,
        chains,
        engine,
        hit_saves_us=plan.residence.hit_saves_us,
        most_running=plan.residence.most_running,
        unhashed_in_line=plan.pool.cache.unhashed_in_line,
        **_rules(plan, asked.output, removals=removals),
    )
    return _in_queue(
        plan,
        log,
        asked,
        replayed,
        gone=keys_of_extents(replayed.removals),
        stored_blocks=replayed.stored_blocks,
        preempted=replayed.preempted,
        paths=Paths(asked.traffic.path_offset, asked.traffic.path_chain),
    )


def _run_unpromoted(plan: PoolPlan, log: Log, chains: Chains) -> Outcome:
    """Replay the cache and its lower tier at once: what is read decides what the cache above holds."""
    asked = _queued(plan, log, chains)
    done = replay_unpromoted(
        asked.traffic,
        chains,
        tier_rules(plan.pool, plan.block_size),
        pack_resets(plan.fleet.resets),
        block_size=plan.block_size,
        replicas=len(plan.fleet.replicas),
        capacity_blocks=plan.capacity_blocks,
        output=asked.output,
        hit_saves_us=plan.residence.hit_saves_us,
        most_running=plan.residence.most_running,
        unhashed_in_line=plan.pool.cache.unhashed_in_line,
    )
    return _in_queue(
        plan,
        log,
        asked,
        done.found,
        gone=done.gone,
        preempted=done.found.preempted,
        host_blocks=done.host_blocks,
        paths=Paths(asked.traffic.path_offset, asked.traffic.path_chain),
    )


def _run_hosted(plan: PoolPlan, log: Log, chains: Chains) -> Outcome:
    known, resets = log.lookups, pack_resets(plan.fleet.resets)
    found = run_hosted(plan, log, chains, resets)
    return Outcome(
        cap_blocks=found.pool.stored_blocks,
        hit_blocks=found.hit_blocks.astype(np.int32),
        admitted_us=known.started_us[plan.mine],
        refused=np.zeros(plan.mine.size, np.bool_),
        reset_ignored=np.zeros(resets.at_us.size, np.bool_),
        gone=_no_keys(),
        first_eviction_us=np.full(len(plan.fleet.replicas), -1, np.int64),
        path_end=known.last_block[plan.mine],
        touched_blocks=None,
        hosted=found,
    )


def _run_sglang(
    plan: PoolPlan, log: Log, chains: Chains, *, removals: bool, engine: Engine | None
) -> Outcome:
    known = log.lookups
    last_block, keyed_blocks = known.last_block[plan.mine], known.n_blocks[plan.mine]
    paths = build_paths(chains, last_block)
    traffic = Traffic(
        arrival_us=known.started_us[plan.mine],
        replica=plan.replica.astype(np.int32),
        prompt_tokens=np.maximum(known.prompt_tokens[plan.mine], 1),
        keyed_blocks=keyed_blocks,
        path_offset=paths.offset,
        path_chain=paths.chain,
        reach_blocks=reach_blocks(log, plan.mine),
    )
    rules = _rules(plan, None, removals=removals)
    replayed = replay_apart(_radix, traffic, chains, engine, **rules)
    return Outcome(
        cap_blocks=_caps(log, plan.mine, plan.block_size),
        hit_blocks=replayed.hit_blocks,
        admitted_us=traffic.arrival_us,
        refused=replayed.refused,
        reset_ignored=np.zeros(len(plan.fleet.resets), np.bool_),
        gone=keys_of_extents(replayed.removals),
        first_eviction_us=replayed.first_eviction_us,
        path_end=last_block,
        touched_blocks=None,
        stored_blocks=keyed_blocks,
    )


def _run_sglang_running(
    plan: PoolPlan, log: Log, chains: Chains, *, removals: bool, engine: Engine | None
) -> Outcome:
    asked = _queued(plan, log, chains)
    replayed = replay_apart(
        replay_running,
        asked.traffic,
        chains,
        engine,
        hit_saves_us=plan.residence.hit_saves_us,
        most_running=plan.residence.most_running,
        # One request at a time nobody is there to see the difference, and the tree of the engine's golden files has none.
        chunk_tokens=None if plan.residence.mode == "none" else plan.pool.in_flight.chunk_tokens,
        **_rules(plan, asked.output, removals=removals),
    )
    return _in_queue(
        plan,
        log,
        asked,
        replayed,
        gone=keys_of_extents(replayed.removals),
        stored_blocks=replayed.stored_blocks,
        preempted=replayed.retracted,
        shown_us=_shown_us(asked, replayed, plan.residence.hit_saves_us),
        in_flight=InFlight(replayed.in_flight.astype(np.int64), replayed.in_flight_end.astype(np.int64)),
    )


def _shown_us(asked: Queued, found: RunningReplayed, hit_saves_us: float) -> NDArray[np.int64]:
    """Return when each prompt was inserted: at the end of its prefill, unless a reset or the TTL came first."""
    prefill_us = asked.traffic.prefill_us
    assert prefill_us is not None
    saved = np.minimum(prefill_us, (found.hit_blocks * hit_saves_us + 0.5).astype(np.int64))
    return np.where(found.stored_blocks >= 0, found.admitted_us + prefill_us - saved, NEVER_US)


def _run_textbook(plan: PoolPlan, log: Log, chains: Chains, *, removals: bool) -> Outcome:
    known, resets = log.lookups, pack_resets(plan.fleet.resets)
    full_blocks = known.prompt_tokens[plan.mine] // plan.block_size
    replayed = replay_textbook(
        BlockTraffic(
            arrival_us=known.started_us[plan.mine],
            replica=plan.replica.astype(np.int32),
            full_blocks=known.n_blocks[plan.mine],
            last_block=known.last_block[plan.mine],
            nameless_blocks=full_blocks - known.n_blocks[plan.mine],
        ),
        log.forest.parent,
        chains,
        replicas=len(plan.fleet.replicas),
        capacity_blocks=plan.capacity_blocks,
        ttl_us=plan.ttl_us,
        reset_at_us=resets.at_us,
        reset_replica=resets.replica,
        log_removals=removals,
    )
    return Outcome(
        cap_blocks=known.n_blocks[plan.mine],
        hit_blocks=replayed.hit_blocks,
        admitted_us=known.started_us[plan.mine],
        refused=np.zeros(plan.mine.size, np.bool_),
        reset_ignored=np.zeros(resets.at_us.size, np.bool_),
        gone=_keys_of_blocks(replayed.removals, chains),
        first_eviction_us=replayed.first_eviction_us,
        path_end=known.last_block[plan.mine],
        touched_blocks=None,
    )


def keys_of_extents(removals: Removals | None) -> KeysGone:
    """Return the keys that left with their last copy; None: nothing is known of any."""
    if removals is None:
        return _no_keys()
    # A younger copy may have stepped in: its key is still there.
    first = np.maximum(removals.lo, removals.resident)
    gone = first < removals.hi
    return KeysGone(
        lookup=removals.lookup[gone].astype(np.int64),
        at_us=removals.at_us[gone],
        replica=removals.replica[gone].astype(np.int64),
        chain=removals.chain[gone].astype(np.int64),
        first=first[gone].astype(np.int64),
        end=removals.hi[gone].astype(np.int64),
        expired=removals.expired[gone],
        after=None if removals.after is None else removals.after[gone].astype(np.int64),
        admits=None if removals.admits is None else removals.admits[gone],
    )


def _no_keys() -> KeysGone:
    nothing = np.empty(0, np.int64)
    return KeysGone(nothing, nothing, nothing, nothing, nothing, nothing, nothing.astype(np.bool_))


def _keys_of_blocks(removals: BlockRemovals | None, chains: Chains) -> KeysGone:
    if removals is None:
        return _no_keys()
    position = chains.position[removals.block].astype(np.int64)
    return KeysGone(
        lookup=removals.lookup.astype(np.int64),
        at_us=removals.at_us,
        replica=removals.replica.astype(np.int64),
        chain=chains.chain[removals.block].astype(np.int64),
        first=position,
        end=position + 1,
        expired=removals.expired,
    )
