"""The lower tier of a replayed pool: puts what the cache above did in order, and hands back what the tier hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import tier_kernel as kernel
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.keys_gone import KeysGone
from prefixledger.replay.removal_order import place_removals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.extents import Resets
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.touches import PoolLog

WRITES = {"through": kernel.THROUGH, "through-selective": kernel.SELECTIVE, "on-evict": kernel.ON_EVICT}
_FIRST_ROWS = 4096

NEVER_US = np.iinfo(np.int64).max
"""Stands for a moment that never comes."""


@dataclass(frozen=True, slots=True)
class TierRules:
    """How a tier works.

    Attributes:
        capacity_blocks: Of one replica, or of the store that all share; None: unlimited.
        shared: One store for all replicas; it outlives their resets.
        write: ``through``, ``through-selective`` or ``on-evict``.
        inclusive: Whether blocks that are read stay in the tier.
        min_blocks: The least that is read.
        chunk_blocks: Blocks of a chunk; only whole ones are written and read.
        output: Whether what was generated is written too.
        promote: Whether what is read is cached above again.
    """

    capacity_blocks: int | None
    shared: bool = False
    write: str = "through"
    inclusive: bool = True
    min_blocks: int = 0
    chunk_blocks: int = 1
    output: bool = True
    promote: bool = True


@dataclass(frozen=True, slots=True)
class Upper:
    """What the cache above did, lookups as in its log.

    Attributes:
        hit_blocks: int64[m].
        finished_us: int64[m].
        stored_blocks: int64[m], full blocks of prompt and output that each had keyed up to its release.
        gone: What it removed, by replica and time.
        resets: Those that took effect, in order of time.
        output_at_release: Whether output took its room at the release, not before.
        shown_us: int64[m], when each prompt was shown to others, never where its request had no keys to give any more
            (``NEVER_US``); None: as soon as it was admitted.
        ttl_us: How long after its last use a block hits above; None: as long as it is there.
    """

    hit_blocks: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    stored_blocks: NDArray[np.int64]
    gone: KeysGone
    resets: Resets
    output_at_release: bool = False
    shown_us: NDArray[np.int64] | None = None
    ttl_us: int | None = None


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
        chunk_blocks=max(-(-pool.tier.chunk_tokens // block_size), 1),
        output=pool.tier.output,
        promote=pool.tier.promote,
    )


def check_tier(pool: Pool, fleet: Fleet, block_size: int) -> None:
    """Refuse what the tier of a pool cannot follow.

    Raises:
        UsageError: One replica got new weights under a store that all share: whose blocks are worthless is not known. Or
            the cache above has a TTL and the tier does not keep all that expires there: whose loss a miss is cannot be
            told then. Or it has one, and what is read from the tier is not cached above again.
    """
    if pool.tier is None:
        return
    rules = tier_rules(pool, block_size)
    if pool.cache.ttl_us is not None and not rules.promote:
        raise UsageError(
            f"pool {pool.name!r}: a TTL of {pool.cache.ttl} cannot be replayed with promote = false",
            hint="leave the TTL out, no engine has one; or leave promote out",
        )
    keeps_all = rules.write != "through-selective" and rules.output
    if pool.cache.ttl_us is not None and not (keeps_all and max(rules.min_blocks, rules.chunk_blocks) <= 1):
        raise UsageError(
            f"pool {pool.name!r}: a TTL of {pool.cache.ttl} cannot be replayed with a tier that lets go of what expires above",
            hint='set write = "through" or "on-evict", output = true, and min_load_tokens and chunk_tokens to a block of '
            f"{block_size} tokens or less; or leave the TTL out",
        )
    for reset in fleet.resets if rules.shared else ():
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
        WRITES[rules.write],
        rules.inclusive,
        rules.min_blocks,
        rules.chunk_blocks,
        rules.output,
        upper.shown_us is not None,
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


def _released_us(log: PoolLog, upper: Upper) -> NDArray[np.int64]:
    """Return when the last of what each request stored counts as written: at its release, if it hits above so long."""
    if upper.ttl_us is None:
        return upper.finished_us
    return np.minimum(upper.finished_us, log.admitted_us + upper.ttl_us)


class _Part(NamedTuple):
    """Events of one kind, and by what they are put in order, see ``_events``."""

    kind: int
    number: NDArray[np.int64]
    replica: NDArray[Any]
    slot: NDArray[np.int64]
    phase: NDArray[np.int64] | int
    at_us: NDArray[np.int64]
    rank: NDArray[np.int64] | int
    actor: NDArray[np.int64] | int
    last: int


def _events(
    rules: TierRules, log: PoolLog, upper: Upper, stored: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put in order, for each tier: what is shown, growth, releases, resets, admissions at equal times, what expires.

    Removals come with what made them. The order is that of the replay above but where a preempted request is released at
    the very microsecond at which it is admitted again.
    """
    admitted_us, resets = log.admitted_us, upper.resets
    keyed = np.where(log.refused, 0, log.keyed_blocks)

    def behind(rows: NDArray[np.int64], at_us: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum(np.searchsorted(admitted_us, at_us, side="left"), rows + 1)

    rows = np.arange(len(log))
    parts = [_Part(kernel.LOOKUP, rows, log.replica, rows, 1, admitted_us, 0, 0, 0), _removals(log, upper)]
    released = np.flatnonzero(stored > keyed)
    ends_us = _released_us(log, upper)[released]
    parts.append(
        _Part(
            kernel.RELEASE,
            released,
            log.replica[released],
            behind(released, ends_us),
            0,
            ends_us,
            1,
            released,
            1,
        )
    )
    if upper.shown_us is not None:
        shown = np.flatnonzero((keyed > 0) & (upper.shown_us != NEVER_US))
        at_us = upper.shown_us[shown]
        parts.append(
            _Part(kernel.SHOWN, shown, log.replica[shown], behind(shown, at_us), 0, at_us, -1, shown, 0)
        )
    if not rules.shared:
        none = np.zeros(resets.at_us.size, np.int64)
        first = np.searchsorted(admitted_us, resets.at_us, side="left")
        parts.append(_Part(kernel.RESET, none, resets.replica, first, 0, resets.at_us, 2, 0, 0))
    event = np.concatenate([kernel.KINDS * part.number + part.kind for part in parts])
    replica, slot, phase, at_us, rank, actor, last = (
        np.concatenate(
            [np.broadcast_to(np.asarray(part[column], np.int64), part.number.size) for part in parts]
        )
        for column in range(2, 9)
    )
    domain = np.zeros_like(replica) if rules.shared else replica
    order = np.lexsort((last, actor, rank, at_us, phase, slot, domain))
    tiers = 1 if rules.shared else log.replicas
    return event[order], np.searchsorted(domain[order], np.arange(tiers + 1)).astype(np.int64)


def _removals(log: PoolLog, upper: Upper) -> _Part:
    gone = upper.gone
    before, own = place_removals(gone, log)
    # Output that takes room at the release does so right before it, other growth before all releases of a moment.
    with_release = ~own & upper.output_at_release & ~gone.expired
    # A preempted request that is admitted again takes room when others are admitted: after resets.
    again = np.zeros_like(own) if gone.admits is None else ~own & gone.admits
    rank = np.where(again, 3, with_release)
    return _Part(
        kernel.REMOVAL,
        np.arange(gone.chain.size),
        gone.replica,
        before,
        2 * own.astype(np.int64),
        gone.at_us,
        np.where(gone.expired, 4, rank),  # a block is valid to the end of the moment at which it expires
        np.where(with_release, gone.lookup, 0),
        0,
    )


def _gone(
    log: PoolLog,
    upper: Upper,
    events: NDArray[np.int64],
    domain_start: NDArray[np.int64],
    table: NDArray[np.int64],
) -> KeysGone:
    """Say of every key that is gone from both who took the last place it had, and when.

    What expired above and found no place below is gone for good at that moment; what had to go below for it made room for
    the lookup that used it last.
    """
    at = table[:, kernel.G_EVENT]
    number, kind = events[at] // kernel.KINDS, events[at] % kernel.KINDS
    replica = np.searchsorted(domain_start, at, side="right") - 1
    lookup, at_us = number.copy(), log.admitted_us[np.minimum(number, len(log) - 1)]
    removed, released, shown = kind == kernel.REMOVAL, kind == kernel.RELEASE, kind == kernel.SHOWN
    lookup[removed] = upper.gone.lookup[number[removed]]
    at_us[removed] = upper.gone.at_us[number[removed]]
    at_us[released] = _released_us(log, upper)[number[released]]
    if upper.shown_us is not None:
        at_us[shown] = upper.shown_us[number[shown]]
    expired = np.zeros(at.size, np.bool_)
    late = np.flatnonzero(removed)
    late = late[upper.gone.expired[number[late]]]
    if late.size:
        assert upper.ttl_us is not None
        by = number[late]
        own = (upper.gone.chain[by] == table[late, kernel.G_CHAIN]) & (
            (upper.gone.first[by] <= table[late, kernel.G_FIRST])
            & (table[late, kernel.G_END] <= upper.gone.end[by])
        )
        expired[late] = own
        lookup[late[~own]] = _last_users(log, replica[late[~own]], at_us[late[~own]] - upper.ttl_us)
        at_us[late[~own]] += 1
    return KeysGone(
        lookup=lookup,
        at_us=at_us,
        replica=replica,
        chain=table[:, kernel.G_CHAIN],
        first=table[:, kernel.G_FIRST],
        end=table[:, kernel.G_END],
        expired=expired,
    )


def _last_users(log: PoolLog, replica: NDArray[np.int64], at_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last lookup that each replica admitted up to a moment, at which it admitted one."""
    last = np.empty_like(at_us)
    for number in np.unique(replica):
        rows, asked = np.flatnonzero(log.replica == number), replica == number
        last[asked] = rows[np.searchsorted(log.admitted_us[rows], at_us[asked], side="right") - 1]
    return last
