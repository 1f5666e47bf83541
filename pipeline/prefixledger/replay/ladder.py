"""The ladder of bounds: the same lookups replayed with one limit more on each rung, one request at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.extents import Output, Traffic, replay_extents
from prefixledger.replay.profile_runs import keys_of_extents, pack_resets
from prefixledger.replay.sglang import radix_pool
from prefixledger.replay.tiers import Upper, replay_tier, tier_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extents import Replayed, Resets
    from prefixledger.replay.lookups import Lookups
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.sglang import RadixReplayed


@dataclass(frozen=True, slots=True)
class _Asked:
    """Lookups of an unlimited cache, in the order in which they ask."""

    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    cap_blocks: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    path_offset: NDArray[np.int64]
    path_chain: NDArray[np.int32]
    chain_length: NDArray[np.int32]
    touched_blocks: NDArray[np.int64] | None = None


def climb(run: PoolRun) -> dict[str, NDArray[np.int64]]:
    """Return, for each rung, int64[k]: the hit blocks of every lookup of a pool, in order of admission.

    Prompts refused at the replayed capacity ask nothing on any rung. Rungs ask in the order and at the times of
    the replay, one request at a time and without output; what running requests change comes after the ladder.
    A lower tier stands on the last rung, with the capacity that it adds to, and keeps what expires above. A store that all replicas share leaves no
    loss to routing and resets: on the rungs between, it is the unlimited cache that all of them ask.
    """
    if run.hosted is not None:
        return run.hosted.rungs()
    log, plan = run.log, run.plan
    asked = _Asked(
        at_us=log.admitted_us,
        replica=log.replica,
        cap_blocks=np.where(log.refused, 0, log.cap_blocks),
        keyed_blocks=np.where(log.refused, 0, log.keyed_blocks),
        path_offset=log.paths.offset,
        path_chain=log.paths.chain,
        chain_length=log.chains.chain_length,
    )
    resets = pack_resets(run.resets)
    rungs = {
        "pooled": _unlimited(asked, None),
        "per_replica": _unlimited(asked, log.replicas),
        "resets": _unlimited(asked, log.replicas, resets=resets),
        "ttl": _unlimited(asked, log.replicas, resets=resets, ttl_us=plan.ttl_us),
    }
    if plan.pool.tier is not None:
        # A tier keeps what expires above: the TTL takes nothing that room in the tier would not have kept.
        rungs["ttl"] = rungs["resets"]
        if plan.pool.tier.shared:
            rungs |= dict.fromkeys(("per_replica", "resets", "ttl"), rungs["pooled"])
    elif plan.capacity_blocks is None:
        return {**rungs, "capacity": rungs["ttl"]}
    rungs["capacity"] = _at_capacity(run, resets)
    return rungs


def ideal_hits(runs: Sequence[PoolRun], lookups: Lookups, chains: Chains) -> NDArray[np.int64]:
    """Return int64[m]: the blocks that each lookup would hit in one unlimited cache for everybody.

    Lookups ask in order of arrival, under the cap of their pool's profile; namespaces share no block anyway. Output is
    cached where the pool caches it.

    No replay hits more in all, with one exception: a log whose admissions are in another order than its arrivals. Where the
    shorter of two prompts arrives last and is admitted first, the longer one may hit its last block, which the shorter one
    itself could not have hit.

    Args:
        runs: All pools.
        lookups: All lookups, in order of arrival.
        chains: The forest, cut into chains.
    """
    cap_blocks, keyed_blocks, touched_blocks, path_end = (
        lookups.n_blocks.copy(),
        lookups.n_blocks.copy(),
        lookups.n_blocks.copy(),
        lookups.last_block.copy(),
    )
    for run in runs:
        cap_blocks[run.lookup] = run.log.cap_blocks
        if run.log.touched_blocks is not None:
            touched_blocks[run.lookup] = run.log.touched_blocks
            path_end[run.lookup] = run.path_end
        if run.hosted is not None:
            # What a hosted cache does not store, nobody could hit however much it kept.
            keyed_blocks[run.lookup] = run.log.cap_blocks
            touched_blocks[run.lookup] = run.hosted.kept_blocks
            path_end[run.lookup] = run.hosted.stored_block
    paths = build_paths(chains, path_end)
    asked = _Asked(
        at_us=lookups.started_us,
        replica=np.zeros(len(lookups), np.int32),
        cap_blocks=cap_blocks,
        keyed_blocks=keyed_blocks,
        path_offset=paths.offset,
        path_chain=paths.chain,
        chain_length=chains.chain_length,
        touched_blocks=touched_blocks,
    )
    return _unlimited(asked, None)


def _unlimited(
    asked: _Asked, replicas: int | None, *, resets: Resets | None = None, ttl_us: int | None = None
) -> NDArray[np.int64]:
    """Replay without a limit of room; ``replicas`` None is one cache for all."""
    traffic = Traffic(
        arrival_us=asked.at_us,
        replica=np.zeros_like(asked.replica) if replicas is None else asked.replica,
        # Where room is no matter only the cap is: in blocks of one token, a prompt of cap + 1 tokens has it under
        # every profile and block size; what skips the lookup has its blocks all the same.
        prompt_tokens=np.maximum(asked.cap_blocks + 1, asked.keyed_blocks),
        reach_blocks=asked.cap_blocks,
        keyed_blocks=asked.keyed_blocks,
        path_offset=asked.path_offset,
        path_chain=asked.path_chain,
    )
    output = None
    if asked.touched_blocks is not None and (asked.touched_blocks > asked.keyed_blocks).any():
        output = Output("at_release", asked.touched_blocks - asked.cap_blocks, asked.touched_blocks)
    replayed = replay_extents(
        traffic,
        asked.chain_length,
        block_size=1,
        replicas=replicas or 1,
        ttl_us=ttl_us,
        output=output,
        resets=resets,
    )
    return replayed.hit_blocks.astype(np.int64)


def _at_capacity(run: PoolRun, resets: Resets) -> NDArray[np.int64]:
    if run.plan.residence.mode == "none" and run.plan.residence.output == "ignore":
        return run.hit_blocks
    log = run.log
    traffic = Traffic(
        arrival_us=log.admitted_us,
        replica=log.replica,
        prompt_tokens=log.prompt_tokens,
        keyed_blocks=log.keyed_blocks,
        path_offset=log.paths.offset,
        path_chain=log.paths.chain,
        reach_blocks=log.cap_blocks,
    )
    with_tier = run.plan.pool.tier is not None
    replayed: RadixReplayed | Replayed
    if run.plan.pool.cache.profile == "sglang":
        replayed = radix_pool(
            traffic, log.chains, block_size=log.block_size, replicas=log.replicas, resets=resets
        ).replay(capacity_blocks=run.plan.capacity_blocks, ttl_us=run.plan.ttl_us, log_removals=with_tier)
    else:
        replayed = replay_extents(
            traffic,
            log.chains.chain_length,
            block_size=log.block_size,
            replicas=log.replicas,
            capacity_blocks=run.plan.capacity_blocks,
            ttl_us=run.plan.ttl_us,
            resets=resets,
            unhashed_in_line=log.unhashed_in_line,
            log_removals=with_tier,
        )
    hit_blocks = replayed.hit_blocks.astype(np.int64)
    if replayed.removals is None:
        return hit_blocks
    gone = keys_of_extents(replayed.removals)
    upper = Upper(hit_blocks, log.admitted_us, log.keyed_blocks, gone, resets, ttl_us=run.plan.ttl_us)
    return hit_blocks + replay_tier(tier_rules(run.plan.pool, log.block_size), log, upper).host_blocks
