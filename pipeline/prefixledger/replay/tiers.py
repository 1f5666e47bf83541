"""The lower tier of a replayed pool: puts what the cache above did in order, and hands back what the tier hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import tier_kernel as kernel
from prefixledger.replay.extents import UNLIMITED_BLOCKS
from prefixledger.replay.keys_gone import KeysGone
from prefixledger.replay.removal_order import place_removals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.extents import Resets
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.touches import PoolLog

_WRITES = {"through": kernel.THROUGH, "through-selective": kernel.SELECTIVE, "on-evict": kernel.ON_EVICT}
_FIRST_ROWS = 4096


@dataclass(frozen=True, slots=True)
class TierRules:
    """How a tier works.

    Attributes:
        capacity_blocks: Of one replica, or of the store that all share; None: unlimited.
        shared: One store for all replicas; it outlives their resets.
        write: ``through``, ``through-selective`` or ``on-evict``.
        inclusive: Whether blocks that are read stay in the tier.
        min_blocks: The least that is read.
    """

    capacity_blocks: int | None
    shared: bool = False
    write: str = "through"
    inclusive: bool = True
    min_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Upper:
    """What the cache above did, lookups as in its log.

    Attributes:
        hit_blocks: int64[m].
        finished_us: int64[m].
        stored_blocks: int64[m], full blocks of prompt and output that each had keyed up to its release.
        gone: What it removed, by replica and time; nothing expired.
        resets: Those that took effect, in order of time.
        output_at_release: Whether output took its room at the release, not before.
    """

    hit_blocks: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    stored_blocks: NDArray[np.int64]
    gone: KeysGone
    resets: Resets
    output_at_release: bool = False


@dataclass(frozen=True, slots=True)
class TierHits:
    """What a tier did.

    Attributes:
        host_blocks: int64[m], blocks that hit in the tier, behind those that hit above.
        gone: Keys that are neither above nor in the tier any more, by replica and time; of a shared store those that
            are not above any more.
    """

    host_blocks: NDArray[np.int64]
    gone: KeysGone


def tier_rules(pool: Pool, block_size: int) -> TierRules:
    """Return the rules of a pool's tier in blocks."""
    assert pool.tier is not None
    return TierRules(
        capacity_blocks=pool.tier_blocks(block_size),
        shared=pool.tier.shared,
        write=pool.tier.write,
        inclusive=pool.tier.inclusive,
        min_blocks=-(-pool.tier.min_load_tokens // block_size),
    )


def check_tier(pool: Pool, fleet: Fleet) -> None:
    """Refuse what the tier of a pool cannot follow.

    Raises:
        UsageError: One replica got new weights under a store that all share: whose blocks are worthless is not known.
    """
    if pool.tier is None or not pool.tier.shared:
        return
    for reset in fleet.resets:
        if reset.kind == "weights":
            raise UsageError(
                f"pool {pool.name!r}: event {reset.event_id} (weights) makes blocks of a shared store worthless, and "
                "which ones is not known",
                hint='write it as kind = "deploy" with a namespace of its own, or set scope = "replica" in [pool.tier]',
            )


def replay_tier(rules: TierRules, log: PoolLog, upper: Upper) -> TierHits:
    """Replay the lower tier of a pool.

    What is read is cached above again, in the room that computing it would have taken, so the cache above does the same
    with and without a tier; the tier follows it. A request reads when it is admitted. Its prompt counts as written then,
    what it generated when it is released. A reset of a replica empties its own tier and no shared store.

    Args:
        rules: How it works.
        log: The lookups, in order of admission.
        upper: What the cache above did with them.
    """
    stored = _stored(log, upper)
    events, domain_start = _events(rules, log, upper, stored)
    gone, chains = upper.gone, log.chains
    n_blocks, m = chains.chain.size, len(log)
    capacity = UNLIMITED_BLOCKS if rules.capacity_blocks is None else rules.capacity_blocks
    given = (
        read_only(events, np.int64),
        read_only(domain_start, np.int64),
        read_only(np.where(log.refused, 0, log.keyed_blocks), np.int32),
        read_only(np.where(log.refused, 0, log.cap_blocks), np.int32),
        read_only(upper.hit_blocks, np.int32),
        read_only(stored, np.int32),
        read_only(log.paths.offset, np.int64),
        read_only(log.paths.chain, np.int32),
        read_only(chains.chain_depth, np.int32),
        read_only(chains.chain_length, np.int32),
        read_only(np.cumsum(chains.chain_length, dtype=np.int64) - chains.chain_length, np.int64),
        read_only(np.repeat(np.arange(chains.chain_length.size), chains.chain_length), np.int32),
        read_only(gone.chain, np.int32),
        read_only(gone.first, np.int32),
        read_only(gone.end, np.int32),
        int(capacity),
        _WRITES[rules.write],
        rules.inclusive,
        rules.min_blocks,
        not rules.shared,
    )
    rows = _FIRST_ROWS + 2 * gone.chain.size
    while True:
        host_blocks, table = np.zeros(m, np.int32), np.empty((rows, 4), np.int32)
        found = kernel.replay_tier(
            *given,
            np.empty(n_blocks + 1, np.int32),
            np.empty(n_blocks + 1, np.int32),
            np.empty(n_blocks, np.bool_),
            host_blocks,
            table,
        )
        if found != kernel.GONE_FULL:
            break
        rows *= 4
    hits = host_blocks.astype(np.int64)
    if rules.shared:
        return TierHits(hits, gone)
    return TierHits(hits, _gone(log, upper, events, domain_start, table[:found].astype(np.int64)))


def _stored(log: PoolLog, upper: Upper) -> NDArray[np.int64]:
    """Return how far each request had stored its path at its release: nothing behind a prompt that a reset overtook."""
    stored = np.where(log.refused, 0, np.maximum(upper.stored_blocks, log.keyed_blocks))
    for replica in range(log.replicas):
        at_us = upper.resets.at_us[upper.resets.replica == replica]
        if at_us.size:
            before = np.searchsorted(at_us, log.admitted_us, side="right")
            behind = np.searchsorted(at_us, upper.finished_us, side="left")
            overtaken = (log.replica == replica) & (behind > before)
            stored = np.where(overtaken, np.minimum(stored, log.keyed_blocks), stored)
    return stored


def _events(
    rules: TierRules, log: PoolLog, upper: Upper, stored: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put in order, for each tier: growth, releases, resets, admissions at equal times, removals with what made them.

    The order is that of the replay above but where a preempted request is released at the very microsecond at which it
    is admitted again.
    """
    m, admitted_us, gone = len(log), log.admitted_us, upper.gone
    releases = np.flatnonzero(stored > np.where(log.refused, 0, log.keyed_blocks))
    ends_us = upper.finished_us[releases]
    before, own = place_removals(gone, log)
    # Output that takes room at the release does so right before it, other growth before all releases of a moment.
    with_release = ~own & upper.output_at_release
    # A preempted request that is admitted again takes room when others are admitted: after resets.
    again = np.zeros_like(own) if gone.admits is None else ~own & gone.admits
    resets = upper.resets if not rules.shared else None
    reset_at_us = np.empty(0, np.int64) if resets is None else resets.at_us
    reset_replica = np.empty(0, np.int32) if resets is None else resets.replica
    parts = (
        (kernel.LOOKUP, m, log.replica, np.arange(m), 1, admitted_us, 0, 0, 0),
        (
            kernel.REMOVAL,
            gone.chain.size,
            gone.replica,
            before,
            2 * own,
            gone.at_us,
            np.where(again, 3, with_release),
            np.where(with_release, gone.lookup, 0),
            0,
        ),
        (
            kernel.RELEASE,
            releases.size,
            log.replica[releases],
            np.maximum(np.searchsorted(admitted_us, ends_us, side="left"), releases + 1),
            0,
            ends_us,
            1,
            releases,
            1,
        ),
        (
            kernel.RESET,
            reset_at_us.size,
            reset_replica,
            np.searchsorted(admitted_us, reset_at_us, side="left"),
            0,
            reset_at_us,
            2,
            0,
            0,
        ),
    )
    numbers = (np.arange(m), np.arange(gone.chain.size), releases, np.zeros(reset_at_us.size, np.int64))
    event = np.concatenate([4 * number + part[0] for number, part in zip(numbers, parts, strict=True)])
    columns = [
        np.concatenate([np.broadcast_to(np.asarray(part[column], np.int64), part[1]) for part in parts])
        for column in range(2, 9)
    ]
    replica, slot, phase, at_us, rank, actor, last = columns
    domain = np.zeros_like(replica) if rules.shared else replica
    order = np.lexsort((last, actor, rank, at_us, phase, slot, domain))
    tiers = 1 if rules.shared else log.replicas
    return event[order], np.searchsorted(domain[order], np.arange(tiers + 1)).astype(np.int64)


def _gone(
    log: PoolLog,
    upper: Upper,
    events: NDArray[np.int64],
    domain_start: NDArray[np.int64],
    table: NDArray[np.int64],
) -> KeysGone:
    """Say of every key that is gone from both who took the last place it had, and when."""
    at = table[:, kernel.G_EVENT]
    number, kind = events[at] // 4, events[at] % 4
    removed, released = kind == kernel.REMOVAL, kind == kernel.RELEASE
    lookup, at_us = number.copy(), np.empty(at.size, np.int64)
    lookup[removed] = upper.gone.lookup[number[removed]]
    at_us[removed] = upper.gone.at_us[number[removed]]
    at_us[released] = upper.finished_us[number[released]]
    admitted = ~removed & ~released
    at_us[admitted] = log.admitted_us[number[admitted]]
    return KeysGone(
        lookup=lookup,
        at_us=at_us,
        replica=np.searchsorted(domain_start, at, side="right") - 1,
        chain=table[:, kernel.G_CHAIN],
        first=table[:, kernel.G_FIRST],
        end=table[:, kernel.G_END],
        expired=np.zeros(at.size, np.bool_),
    )
