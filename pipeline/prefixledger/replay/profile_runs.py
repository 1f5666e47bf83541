"""Runs the kernel of a profile on one pool, and brings what the kernels find into one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.extents import Output, Resets, Traffic, replay_extents
from prefixledger.replay.outputs import find_outputs
from prefixledger.replay.textbook import BlockTraffic, replay_textbook
from prefixledger.replay.touches import vllm_cap_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extents import Removals
    from prefixledger.replay.fleet import Reset
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.textbook import BlockRemovals


@dataclass(frozen=True, slots=True)
class KeysGone:
    """Keys that left a cache with their last copy: blocks ``[first, end)`` of a chain.

    Attributes:
        lookup: int64[k], the lookup whose blocks took the room, -1 where they expired.
        at_us: int64[k]; of expired blocks the last moment at which they were valid.
        replica: int64[k], position in the pool's fleet.
        chain: int64[k].
        first: int64[k], 0-based position in the chain.
        end: int64[k].
        expired: bool[k], false: evicted.
    """

    lookup: NDArray[np.int64]
    at_us: NDArray[np.int64]
    replica: NDArray[np.int64]
    chain: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    expired: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kernel found, lookups in order of arrival; with output, paths go on behind the prompt."""

    cap_blocks: NDArray[np.int64]
    hit_blocks: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    refused: NDArray[np.bool_]
    reset_ignored: NDArray[np.bool_]
    gone: KeysGone
    first_eviction_us: NDArray[np.int64]
    path_end: NDArray[np.int64]
    touched_blocks: NDArray[np.int64] | None


def run_profile(plan: PoolPlan, log: Log, chains: Chains) -> Outcome:
    """Replay one pool under its profile.

    Args:
        plan: The pool.
        log: All lookups.
        chains: The forest, cut into chains.
    """
    if plan.pool.cache.profile == "textbook":
        return _run_textbook(plan, log, chains)
    return _run_vllm(plan, log, chains)


def pack_resets(resets: tuple[Reset, ...]) -> Resets:
    """Return resets as arrays."""
    return Resets(
        at_us=np.asarray([reset.at_us for reset in resets], np.int64),
        replica=np.asarray([reset.replica for reset in resets], np.int32),
        force=np.asarray([reset.force for reset in resets], np.bool_),
    )


def _run_vllm(plan: PoolPlan, log: Log, chains: Chains) -> Outcome:
    known = log.lookups
    output, path_end = None, known.last_block[plan.mine]
    if plan.residence.output != "ignore":
        found = find_outputs(log, plan.mine, chains, plan.block_size)
        output, path_end = Output(plan.residence.output, found.tokens, found.keyed_blocks), found.last_block
    paths = build_paths(chains, path_end)
    replayed = replay_extents(
        Traffic(
            arrival_us=known.started_us[plan.mine],
            replica=plan.replica.astype(np.int32),
            prompt_tokens=np.maximum(known.prompt_tokens[plan.mine], 1),
            keyed_blocks=known.n_blocks[plan.mine],
            path_offset=paths.offset,
            path_chain=paths.chain,
            hold_us=plan.residence.hold_us,
            prefill_us=plan.residence.prefill_us,
        ),
        chains.chain_length,
        block_size=plan.block_size,
        replicas=len(plan.fleet.replicas),
        capacity_blocks=plan.capacity_blocks,
        ttl_us=plan.ttl_us,
        output=output,
        resets=pack_resets(plan.fleet.resets),
        hit_saves_us=plan.residence.hit_saves_us,
        log_removals=True,
    )
    assert replayed.removals is not None
    return Outcome(
        cap_blocks=vllm_cap_blocks(
            known.prompt_tokens[plan.mine], known.n_blocks[plan.mine], plan.block_size
        ),
        hit_blocks=replayed.hit_blocks,
        admitted_us=replayed.admitted_us,
        refused=replayed.refused,
        reset_ignored=replayed.reset_ignored,
        gone=_keys_of_extents(replayed.removals),
        first_eviction_us=replayed.first_eviction_us,
        path_end=path_end,
        touched_blocks=None if output is None else output.keyed_blocks,
    )


def _run_textbook(plan: PoolPlan, log: Log, chains: Chains) -> Outcome:
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
        log_removals=True,
    )
    assert replayed.removals is not None
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


def _keys_of_extents(removals: Removals) -> KeysGone:
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
    )


def _keys_of_blocks(removals: BlockRemovals, chains: Chains) -> KeysGone:
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
