"""What one pool comes to without a row of evidence being written: tokens summed by what proves their outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.fact_sums import (
    CAPPED,
    CHANGED,
    CODES,
    ELSEWHERE,
    HIT,
    OUTLIVED,
    OWN,
    RESET,
    RESIDENT,
    RULE_STEP,
    FactSums,
)
from prefixledger.replay.facts import pool_evidence
from prefixledger.replay.notes import run_notes
from prefixledger.replay.numbering import number_all
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.touches import find_touches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.prepared import Prepared
    from prefixledger.replay.touches import Touches

if TYPE_CHECKING:
    _Missed = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class PoolTally:
    """One pool under one scenario.

    Attributes:
        plan: The pool.
        lookup: int64[k], its lookups in order of admission, numbered by arrival.
        replica: int32[k], whom each asked.
        admitted_us: int64[k].
        hit_tokens: int64[k], those of a lower tier included.
        host_tokens: int64[k], those of the lower tier.
        written_tokens: int64[k], missed tokens that the cache stores.
        written_1h_tokens: int64[k], of these those that marks ask to be kept for longer than the rest.
        storage_token_s: int64[k], tokens times seconds that what each stored pays rent for.
        peak_in_flight: Most lookups that ran on one replica at a time; 0 where one at a time is replayed.
        waited_us: Time from asking to be admitted to admission, added up.
        drawn_hit_tokens: Hits under each seed, that of the replay first; empty where no router draws.
        notes: What the reader must know, one sentence each.
        sums: Its tokens by what proves their outcome.
        queued_us: int64[k], when each asked to be admitted.
        cap_blocks: int64[k], blocks that may hit.
        long_blocks: int64[k], blocks that marks ask to be kept for longer than the rest.
        unseen: int64[p, 3], missed pieces that nobody had asked for: lookup (by admission), first block, blocks.
        fixed: Whether none of this depends on capacity and TTL but hits.
    """

    plan: PoolPlan
    lookup: NDArray[np.int64]
    replica: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    host_tokens: NDArray[np.int64]
    written_tokens: NDArray[np.int64]
    written_1h_tokens: NDArray[np.int64]
    storage_token_s: NDArray[np.int64]
    peak_in_flight: int
    waited_us: int
    drawn_hit_tokens: tuple[int, ...]
    notes: tuple[str, ...]
    sums: FactSums
    queued_us: NDArray[np.int64]
    cap_blocks: NDArray[np.int64]
    long_blocks: NDArray[np.int64]
    unseen: NDArray[np.int64]
    fixed: bool

    def with_changes(
        self,
        group: NDArray[np.int64],
        lookup: NDArray[np.int64],
        first: NDArray[np.int64],
        end: NDArray[np.int64],
    ) -> PoolTally:
        """Return it with what was served before under another key told from what is new.

        Args:
            group: int64[m], group of every lookup of the log, by arrival.
            lookup: int64[c], by admission in this pool, ascending; stretches of one lookup do not overlap.
            first: int64[c], first block of the prompt that changed.
            end: int64[c], first block behind those.
        """
        asked, begin, blocks = self.unseen.T
        low, high = np.searchsorted(lookup, asked), np.searchsorted(lookup, asked, side="right")
        piece = np.repeat(np.arange(asked.size), high - low)
        nth = np.arange(piece.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        change = low[piece] + nth
        starts = np.maximum(begin[piece], first[change])
        length = np.maximum(np.minimum((begin + blocks)[piece], end[change]) - starts, 0)
        long = np.minimum(length, np.maximum(self.long_blocks[asked[piece]] - starts, 0))
        groups, size, sums = group[self.lookup[asked[piece]]], self.plan.block_size, self.sums
        moved, longer = (
            np.bincount(groups, part * size, int(group.max()) + 1).astype(np.int64) for part in (length, long)
        )
        new, some = np.where(sums.code == 0, moved[sums.group], 0), np.flatnonzero(moved)
        return replace(
            self,
            sums=FactSums(
                np.concatenate([sums.group, some]),
                np.concatenate([sums.code, np.full(some.size, CHANGED)]),
                np.concatenate([sums.tokens - new, moved[some]]),
                np.concatenate([sums.written_tokens - new, moved[some]]),
                np.concatenate(
                    [
                        sums.written_1h_tokens - np.where(sums.code == 0, longer[sums.group], 0),
                        longer[some],
                    ]
                ),
            ),
        )

    def of_lookups(self, wanted: NDArray[np.bool_], groups: int) -> PoolTally:
        """Return what some lookups alone come to.

        Args:
            wanted: bool[m], for every lookup of the log, by arrival; those that are not are in groups of their own.
            groups: Number of the groups of those that are.
        """
        mine, known = wanted[self.lookup], self.sums.group < groups
        by_lookup = (
            "lookup", "replica", "admitted_us", "hit_tokens", "host_tokens", "written_tokens", "written_1h_tokens",
            "storage_token_s", "queued_us", "cap_blocks", "long_blocks",
        )  # fmt: skip
        parts = {name: getattr(self, name)[mine] for name in by_lookup}
        sums = FactSums(**{name: getattr(self.sums, name)[known] for name in FactSums.__dataclass_fields__})
        return replace(self, **parts, sums=sums, unseen=self.unseen[:0])


_NONE = np.empty(0, np.int64)
_NO_PIECES = (_NONE, _NONE, _NONE, np.empty((0, 3), np.int64))
_NO_SUMS = FactSums(_NONE, _NONE, _NONE, _NONE, _NONE)


def tally_pool(
    prepared: Prepared, plan: PoolPlan, group: NDArray[np.int64], scenario: Scenario, *, causes: bool = True
) -> PoolTally:
    """Replay one pool, and sum its tokens by what a full replay would write down of them.

    Args:
        prepared: The log.
        plan: The pool.
        group: int64[m], group of every lookup of the log, by arrival; sums are made for each.
        scenario: For its seeds.
        causes: Whether to sum what the causes of misses follow from; without, there are no sums and no further draws.

    Raises:
        UsageError: The pool cannot be replayed so.
    """
    alone = len(plan.fleet.replicas) == 1 and not plan.pool.hosted and plan.pool.tier is None
    run = run_pool(plan, prepared.log, prepared.chains, evidence=causes and not alone)
    groups = group[run.lookup]
    # With one replica and nothing in flight, where a block was used last says everything.
    lone = alone and run.in_flight is None
    missed = _NO_PIECES
    if causes:
        touches = _touches(prepared, run)
        if lone:
            pieces = _known(prepared, run, touches)
            missed = _own_pieces(run, pieces, groups, unseen=prepared.log.contents is not None)
        else:
            missed = _evidence_pieces(run, touches, groups)
    size, log = plan.block_size, run.log
    cap_blocks = np.where(log.refused, 0, log.cap_blocks)
    full_blocks = log.prompt_tokens // size
    stored = np.where(log.refused, 0, full_blocks if run.hosted is None else log.cap_blocks)
    behind = log.prompt_tokens - cap_blocks * size
    behind_written = np.maximum(stored - cap_blocks, 0) * size
    hit_tokens = run.hit_blocks * size
    nothing = np.zeros_like(hit_tokens)
    sums = _NO_SUMS
    if causes:
        sums = _summed(missed, groups, size, hit_tokens, behind, behind_written)
    return PoolTally(
        plan=plan,
        lookup=run.lookup,
        replica=log.replica,
        admitted_us=log.admitted_us,
        hit_tokens=hit_tokens,
        host_tokens=run.host_blocks * size,
        written_tokens=cap_blocks * size - hit_tokens + behind_written,
        written_1h_tokens=_long(run, np.arange(len(log)), run.hit_blocks, cap_blocks - run.hit_blocks) * size,
        storage_token_s=nothing if run.hosted is None else run.hosted.storage_token_s,
        peak_in_flight=_peak(run),
        waited_us=int((log.admitted_us - run.queued_us).sum()),
        drawn_hit_tokens=tuple(prepared.drawn_hits(plan, scenario, int(hit_tokens.sum()))) if causes else (),
        notes=tuple(run_notes([run])),
        sums=sums,
        queued_us=run.queued_us,
        cap_blocks=log.cap_blocks,
        long_blocks=np.zeros(len(log), np.int64) if run.hosted is None else run.hosted.long_blocks,
        unseen=missed[3],
        fixed=_fixed(run),
    )


def _summed(
    missed: _Missed,
    groups: NDArray[np.int64],
    size: int,
    hit_tokens: NDArray[np.int64],
    behind: NDArray[np.int64],
    behind_written: NDArray[np.int64],
) -> FactSums:
    """Sum missed pieces, hits, and what is behind the last position that may hit, by group and facts."""
    keys, blocks, long_blocks, _ = missed
    several = int(groups.max(initial=-1)) + 1
    room = max(several * CODES, int(keys.max(initial=-1)) + 1)
    tokens = np.bincount(keys, blocks, room).astype(np.int64) * size
    long = np.zeros(room, np.int64)
    if long_blocks.any():
        long = np.bincount(keys, long_blocks, room).astype(np.int64) * size
    written = tokens.copy()
    of = np.arange(several) * CODES
    for flag, asked, stored in ((HIT, hit_tokens, None), (CAPPED, behind, behind_written)):
        tokens[of + flag] += np.bincount(groups, asked, several).astype(np.int64)
        if stored is not None:
            written[of + flag] += np.bincount(groups, stored, several).astype(np.int64)
    some = np.flatnonzero(tokens)
    return FactSums(some // CODES, some % CODES, tokens[some], written[some], long[some])


def _peak(run: PoolRun) -> int:
    """Count the most lookups that ran on one replica at a time, from admission to end."""
    if run.finished_us is None:
        return 0
    log = run.log
    ran = np.flatnonzero(run.finished_us > log.admitted_us)
    replica = np.concatenate([log.replica[ran], log.replica[ran]])
    at_us = np.concatenate([log.admitted_us[ran], run.finished_us[ran]])
    step = np.repeat([1, -1], ran.size)
    # Who ends makes room before who begins at the same time; every replica ends at nobody.
    order = np.lexsort((step, at_us, replica))
    return int(np.cumsum(step[order]).max(initial=0))


def _fixed(run: PoolRun) -> bool:
    """Tell whether capacity and TTL change neither who is admitted when nor who is admitted at all."""
    plan = run.plan
    return plan.residence.mode == "none" and not run.log.refused.any() and not plan.pool.hosted


def _known(prepared: Prepared, run: PoolRun, touches: Touches) -> OwnPieces:
    """Return the pieces of touches; of those that are kept for all capacities once for all of them."""
    if not _fixed(run):
        return _pieces(run, touches)
    key = (id(run.plan.mine), run.plan.pool.cache.profile)
    found = prepared.pieces.get(key)
    if found is None:
        found = prepared.pieces[key] = _pieces(run, touches)
    return found


def _touches(prepared: Prepared, run: PoolRun) -> Touches:
    """Return who used every block last; where capacity and TTL change neither order nor admission, once for all of them."""
    plan = run.plan
    key = (id(plan.mine), plan.pool.cache.profile)
    if not _fixed(run):
        return find_touches(run.log, number_all([run]).resets[0])
    found = prepared.touches.get(key)
    if found is None:
        found = prepared.touches[key] = find_touches(run.log, number_all([run]).resets[0])
    return found


@dataclass(frozen=True, slots=True)
class OwnPieces:
    """The pieces of the lookups of a replica that is alone, and what is known of each whatever the capacity; all int64[p].

    Attributes:
        lookup: By admission.
        begin: First block in the prompt.
        end: First block behind it, no further than what may hit.
        code: Its facts, but for the lifetime.
        gap_us: Time since its last use; 0 where there was none.
    """

    lookup: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    code: NDArray[np.int64]
    gap_us: NDArray[np.int64]


def _pieces(run: PoolRun, touches: Touches) -> OwnPieces:
    log, previous = run.log, touches.piece_previous
    slot = np.repeat(np.arange(touches.order.size), np.diff(touches.piece_offset))
    lookup = touches.order[slot].astype(np.int64)
    begin = np.zeros(touches.piece_end.size, np.int64)
    begin[1:] = np.where(slot[1:] == slot[:-1], touches.piece_end[:-1], 0)
    end = np.minimum(touches.piece_end, log.cap_blocks[lookup]).astype(np.int64)
    own = previous >= 0
    reset = own & (previous < touches.epoch_start[slot])
    code = (np.where(own, OWN, 0) | np.where(reset, RESET, 0)).astype(np.int64)
    gap_us = np.where(own, log.admitted_us[lookup] - log.admitted_us[touches.order[previous]], 0)
    return OwnPieces(lookup, begin, end, code, gap_us)


def _own_pieces(run: PoolRun, pieces: OwnPieces, groups: NDArray[np.int64], *, unseen: bool) -> _Missed:
    """Return group and code, missed blocks, those that are kept for longer, and the unseen pieces, of every piece."""
    lookup, code = pieces.lookup, pieces.code
    begin = np.maximum(pieces.begin, run.hit_blocks[lookup])
    missed = np.maximum(pieces.end - begin, 0)
    if run.plan.ttl_us is not None:  # a pool with a lower tier is none of these
        code = code | np.where(pieces.gap_us > run.plan.ttl_us, OUTLIVED, 0)
    keys = groups[lookup] * CODES + code
    if not unseen:
        return keys, missed, np.zeros(missed.size, np.int64), _NO_PIECES[3]
    new = np.flatnonzero((code & OWN == 0) & (missed > 0))
    found = np.stack([lookup[new], begin[new], missed[new]], axis=1)
    return keys, missed, np.zeros(missed.size, np.int64), found


def _evidence_pieces(run: PoolRun, touches: Touches, groups: NDArray[np.int64]) -> _Missed:
    """Return group and code, blocks, those that are kept for longer, and the unseen pieces, of every missed segment."""
    found = pool_evidence(run, touches, distances=False)
    missed = np.flatnonzero(~found.hit & (found.first_block < run.log.cap_blocks[found.lookup]))
    lookup, own_previous, else_previous, resident = (
        column[missed]
        for column in (found.lookup, found.own_previous, found.else_previous, found.resident_replica)
    )
    own, held = own_previous >= 0, resident >= 0
    elsewhere = ~own & ~held & (else_previous >= 0)
    reset = np.where(own, found.own_reset[missed], found.else_reset[missed]) >= 0
    previous = np.where(own, own_previous, else_previous)
    gap_us = np.where(previous < 0, 0, run.log.admitted_us[lookup] - run.log.admitted_us[previous])
    # What expires above a lower tier is kept there: it is missed where the tier had to give it up.
    lives = run.plan.ttl_us if run.plan.pool.tier is None else None
    ttl_us = np.full(missed.size, np.iinfo(np.int64).max if lives is None else lives)
    if found.ttl_us is not None:
        ttl_us = np.where(found.ttl_us[missed] < 0, ttl_us, found.ttl_us[missed])
    rule = np.zeros(missed.size, np.int64) if found.rule is None else found.rule[missed].astype(np.int64) + 1
    flags = (
        (own, OWN),
        (held, RESIDENT),
        (elsewhere, ELSEWHERE),
        (reset, RESET),
        (gap_us > ttl_us, OUTLIVED),
    )
    code = rule * RULE_STEP
    for flag, bit in flags:
        code |= np.where(flag, bit, 0)
    blocks = found.n_blocks[missed]
    first = found.first_block[missed]
    new = code == 0
    unseen = np.stack([lookup[new], first[new], blocks[new]], axis=1)
    return groups[lookup] * CODES + code, blocks, _long(run, lookup, first, blocks), unseen


def _long(
    run: PoolRun, lookup: NDArray[np.int64], first_block: NDArray[np.int64], blocks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many blocks of each missed piece lie above the last mark that asks for a longer life."""
    if run.hosted is None:
        return np.zeros(blocks.size, np.int64)
    long: NDArray[np.int64] = np.minimum(blocks, np.maximum(run.hosted.long_blocks[lookup] - first_block, 0))
    return long
