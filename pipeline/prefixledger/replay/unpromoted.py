"""A lower tier whose blocks are read but not cached above again: the replay of both caches at once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay import below_kernel as below
from prefixledger.replay import slots_kernel as slots
from prefixledger.replay import unpromoted_kernel as kernel
from prefixledger.replay.extent_pool_kernel import POOL_ENTRIES
from prefixledger.replay.extent_preempt_kernel import DECODE_COLUMNS
from prefixledger.replay.extent_tables import (
    FIRST_ROWS,
    UNLIMITED_BLOCKS,
    check_inputs,
    lay_out,
    make_rules,
    new_found,
)
from prefixledger.replay.keys_gone import KeysGone
from prefixledger.replay.tiers import WRITES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extent_tables import Found, Inputs, Rules
    from prefixledger.replay.extents import Output, Resets, Traffic
    from prefixledger.replay.tiers import TierRules


@dataclass(frozen=True, slots=True)
class Unpromoted:
    """What the cache and the tier did.

    Attributes:
        found: What the cache above did; its hits are those above.
        host_blocks: int32[n], blocks that were read from the tier, behind the hits above.
        gone: Keys that are neither above nor in the tier any more, by replica and time; of a shared store those that are
            not above any more.
    """

    found: Found
    host_blocks: NDArray[np.int32]
    gone: KeysGone


def replay_unpromoted(
    traffic: Traffic,
    chains: Chains,
    tier: TierRules,
    resets: Resets,
    *,
    block_size: int,
    replicas: int,
    capacity_blocks: int | None = None,
    output: Output | None = None,
    hit_saves_us: float = 0.0,
    unhashed_in_line: bool = False,
    most_running: int | None = None,
) -> Unpromoted:
    """Replay one pool under profile ``vllm`` with a tier whose blocks are not cached above again.

    Args:
        traffic: The lookups.
        chains: The forest, cut into chains.
        tier: How the tier works; inclusive.
        resets: In any order.
        block_size: Tokens per block.
        replicas: Number of replicas.
        capacity_blocks: Usable blocks per replica; None: unlimited.
        output: None: ignored.
        hit_saves_us: Microseconds of prefill that a block saves which hits above.
        unhashed_in_line: Whether freed slots without a key wait behind all others, see ``replay_extents``.
        most_running: Requests that may run on a replica at a time; None: as many as fit.

    Raises:
        InternalError: A replica's lookups are out of order, a residence is negative or shorter than its prefill, or a
            path is shorter than its keyed blocks.
    """
    order = np.lexsort((resets.at_us, resets.replica))
    inputs = lay_out(traffic, chains.chain_length, replicas, output, resets, order)
    check_inputs(inputs, block_size, replicas)
    rules = make_rules(
        block_size, capacity_blocks, None, output, hit_saves_us, unhashed_in_line, True, most_running
    )
    found, host_blocks = new_found(inputs, replicas), np.zeros(len(traffic.arrival_us), np.int32)
    groups = [range(replicas)] if tier.shared else [range(r, r + 1) for r in range(replicas)]
    gone = [_run(inputs, rules, tier, chains, group, found, host_blocks) for group in groups]
    ignored = np.empty_like(found.reset_ignored)
    ignored[order] = found.reset_ignored
    return Unpromoted(found._replace(reset_ignored=ignored), host_blocks, _keys(np.concatenate(gone)))


def _run(
    inputs: Inputs,
    rules: Rules,
    tier: TierRules,
    chains: Chains,
    group: range,
    found: Found,
    host_blocks: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Run the kernel on the replicas of one tier, again with four times the rows wherever a table was too small."""
    n, n_blocks, tiers = len(inputs.arrival_us), chains.chain.size, len(group)
    first = np.cumsum(chains.chain_length, dtype=np.int64) - chains.chain_length
    layout = np.column_stack((first, chains.chain_depth, chains.chain_length)).astype(np.int64)
    ring = np.empty((n_blocks + 2, below.RING_COLUMNS), np.int32)
    ring[:n_blocks, below.CHAIN] = np.repeat(np.arange(chains.chain_length.size), chains.chain_length)
    size = dict.fromkeys((slots.SLOTS_FULL, slots.CELLS_FULL, slots.GONE_FULL), FIRST_ROWS)
    capacity = UNLIMITED_BLOCKS if tier.capacity_blocks is None else tier.capacity_blocks
    tier_rules = [
        *(capacity, WRITES[tier.write], tier.min_blocks),
        *(tier.chunk_blocks, tier.output, tier.shared),
    ]
    while True:
        gone = np.empty((size[slots.GONE_FULL], below.GONE_COLUMNS), np.int64)
        trial = deepcopy(found), host_blocks.copy()
        arguments = (
            *(value for name, value in inputs._asdict().items() if name != "chain_length"),
            read_only(layout, np.int64),
            np.array(tier_rules, np.int64),
            group[0],
            *(
                rules.block_size,
                rules.capacity,
                rules.most_running,
                rules.output,
                rules.hit_saves_us,
                rules.in_line,
            ),
            np.zeros((tiers, size[slots.SLOTS_FULL], slots.SLOT_COLUMNS), np.int32),
            np.zeros((tiers, n_blocks, slots.BLOCK_COLUMNS), np.int32),
            np.zeros((size[slots.CELLS_FULL], slots.CELL_COLUMNS), np.int32),
            np.zeros((n, slots.REQUEST_COLUMNS), np.int32),
            np.empty((tiers, 2 * n), np.int64),
            np.empty((tiers, 2 * n), np.int64),
            np.empty((n, DECODE_COLUMNS), np.int64),
            np.zeros((tiers, POOL_ENTRIES), np.int64),
            ring,
            gone,
            *trial[0],
            trial[1],
        )
        status = kernel.replay_unpromoted(*arguments)
        if status >= 0:
            break
        size[status] *= 4
    columns: list[NDArray[Any]] = [*found, host_blocks]
    tried: list[NDArray[Any]] = [*trial[0], trial[1]]
    for column, value in zip(columns, tried, strict=True):
        np.copyto(column, value)
    return gone[:status].copy()


def _keys(gone: NDArray[np.int64]) -> KeysGone:
    """Bring the list into the order of replicas, and of time in each."""
    gone = gone[np.argsort(gone[:, below.G_REPLICA], kind="stable")]
    return KeysGone(
        lookup=gone[:, below.G_LOOKUP],
        at_us=gone[:, below.G_AT_US],
        replica=gone[:, below.G_REPLICA],
        chain=gone[:, below.G_CHAIN],
        first=gone[:, below.G_FIRST],
        end=gone[:, below.G_END],
        expired=np.zeros(len(gone), np.bool_),
        after=gone[:, below.G_AFTER],
        admits=gone[:, below.G_ADMITS].astype(np.bool_),
    )
