"""The evidence of one pool: for every segment of every lookup, the facts that its cause is read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import evidence_kernel as kernel
from prefixledger.replay.block_numbers import number_blocks
from prefixledger.replay.needed import whole_capacity
from prefixledger.replay.removal_order import OrderedRemovals, RemovalLog, order_removals

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from prefixledger.replay.touches import Touches

__all__ = [
    "FOR_EVER_US",
    "NO_TIME",
    "Evidence",
    "InFlight",
    "Lifetimes",
    "RemovalLog",
    "collect_evidence",
    "evidence_table",
]

NO_TIME = np.iinfo(np.int64).min
"""Stands for an absent time."""

FOR_EVER_US = np.iinfo(np.int64).max
"""End of a replica that lives to the end of the log."""

_SPARE_ROWS = 1024

RULES = ("in_flight", "out_of_reach", "below_minimum", "no_breakpoint", "bypassed", "partial_block")
"""Rules by which a block is missed whenever it was last used; an engine's cache knows the first alone."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """When each replica of a pool can be asked.

    Attributes:
        live_from_us: int64[replicas].
        live_to_us: int64[replicas], the moment at which it is gone, ``FOR_EVER_US`` where it lives to the end.
        rank: int32[replicas], place of its name in the order of names; it decides ties.
    """

    live_from_us: NDArray[np.int64]
    live_to_us: NDArray[np.int64]
    rank: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class InFlight:
    """What running requests were computing, and the cache did not show yet, when a lookup missed it.

    Attributes:
        lookup: int64[m], the lookup that computed it on the same replica, -1 for none.
        end_block: int64[m], block of the prompt up to which it did, from the first that missed; 0 for none.
    """

    lookup: NDArray[np.int64]
    end_block: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row per segment, in order of lookup and position; the columns of ``schema.SEGMENT_FACTS``.

    Attributes:
        lookup: int64[s], number of the lookup in the pool.
        first_block: int64[s], 0-based position in the prompt.
        n_blocks: int64[s].
        last_block: int64[s], block number.
        hit: bool[s].
        own_previous: int64[s], lookup that last used it on this replica, -1 if none did.
        own_reset: int64[s], event: last reset of this replica since then, -1 if there is none.
        own_distance_blocks: int64[s], capacity that would have kept it here, as if no reset had come between; -1.
        resident_replica: int64[s], other live replica that holds it now, for every missed segment; -1 if there is none.
        else_previous: int64[s], only where ``own_previous`` is -1: lookup that last used it on any replica, -1 if none.
        else_reset: int64[s], event: last reset or end of that replica since then, -1.
        else_distance_blocks: int64[s], capacity that would have kept it there, -1.
        removed_at_us: int64[s], when its first block left this replica after the last use; ``NO_TIME``.
        removed_by: int64[s], lookup that took the room, -1 where it expired or did not leave.
        rule: int8[s], position in ``RULES``, -1 where the last use decides; None: it always does.
        in_flight: int64[s], lookup that was computing it on this replica and did not show it yet, -1; None: nobody ever.
        ttl_us: int64[s], how long it was kept after that use, -1 where that is the TTL of the pool; None: it always is.
    """

    lookup: NDArray[np.int64]
    first_block: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    last_block: NDArray[np.int64]
    hit: NDArray[np.bool_]
    own_previous: NDArray[np.int64]
    own_reset: NDArray[np.int64]
    own_distance_blocks: NDArray[np.int64]
    resident_replica: NDArray[np.int64]
    else_previous: NDArray[np.int64]
    else_reset: NDArray[np.int64]
    else_distance_blocks: NDArray[np.int64]
    removed_at_us: NDArray[np.int64]
    removed_by: NDArray[np.int64]
    rule: NDArray[np.int8] | None = None
    in_flight: NDArray[np.int64] | None = None
    ttl_us: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.lookup.size


def collect_evidence(
    touches: Touches,
    hit_blocks: NDArray[np.int64],
    lifetimes: Lifetimes,
    *,
    removals: RemovalLog | None = None,
    ttl_us: int | None = None,
    distances: bool = True,
    in_flight: InFlight | None = None,
) -> Evidence:
    """Write down the evidence of every full block with a known key, hits included.

    Blocks ``[0, hit)`` are hits, ``[hit, cap)`` missed, and the recomputed last block of a prompt that ends with a block
    is a segment of its own. Distances count the vLLM rule, one request at a time: exact for every
    capacity that admits all prompts; duplicate copies, partial tails and the TTL's effect on copies are in them.

    Args:
        touches: The pool, with its resets; the end of a replica is one of them.
        hit_blocks: int64[m], what each lookup hit.
        lifetimes: When each replica can be asked.
        removals: None: nothing ever left but through a reset.
        ttl_us: None: none.
        distances: False where the profile is no stack: what capacity would have kept a block is then nobody's to know.
        in_flight: None: whatever is computed is shown at once.

    Raises:
        InternalError: A lookup hits more than it may.
    """
    if (hit_blocks > touches.log.cap_blocks).any() or hit_blocks.shape != touches.order.shape:
        raise InternalError("a lookup hits blocks behind its cap")
    gone = order_removals(removals, touches)
    flight_end = np.zeros(len(hit_blocks), np.int64) if in_flight is None else in_flight.end_block
    offset, found = _run(touches, hit_blocks, flight_end, lifetimes, gone, ttl_us)
    own, elsewhere = found[:, kernel.OWN], found[:, kernel.ELSE]
    needed = _needed(touches, offset, found, ttl_us) if distances else np.full(2 * len(found), -1, np.int64)
    event = np.append(touches.resets.event, -1)
    removal = found[:, kernel.REMOVAL]
    return Evidence(
        lookup=found[:, kernel.LOOKUP].astype(np.int64),
        first_block=found[:, kernel.FIRST].astype(np.int64),
        n_blocks=(found[:, kernel.END] - found[:, kernel.FIRST]).astype(np.int64),
        last_block=_last_blocks(touches, found),
        hit=found[:, kernel.ZONE] == kernel.HIT,
        own_previous=own.astype(np.int64),
        own_reset=event[found[:, kernel.OWN_RESET]],
        own_distance_blocks=needed[0::2],
        resident_replica=found[:, kernel.RESIDENT].astype(np.int64),
        else_previous=elsewhere.astype(np.int64),
        else_reset=event[found[:, kernel.ELSE_RESET]],
        else_distance_blocks=needed[1::2],
        removed_at_us=np.append(gone.at_us, NO_TIME)[removal],
        removed_by=np.append(gone.lookup, -1)[removal],
        **({} if in_flight is None else _in_flight(found, in_flight)),
    )


def _in_flight(found: NDArray[np.int32], in_flight: InFlight) -> dict[str, NDArray[Any]]:
    """Say of which missed segments somebody was computing the blocks."""
    asking = found[:, kernel.LOOKUP]
    flying = (found[:, kernel.ZONE] == kernel.MISSED) & (found[:, kernel.FIRST] < in_flight.end_block[asking])
    rule = np.where(flying, RULES.index("in_flight"), -1).astype(np.int8)
    return {"rule": rule, "in_flight": np.where(flying, in_flight.lookup[asking], -1)}


def evidence_table(
    evidence: Evidence, *, lookup: NDArray[np.int64] | None = None, first_replica: int = 0
) -> pa.Table:
    """Return the rows under ``schema.SEGMENT_FACTS``.

    Args:
        evidence: Of one pool.
        lookup: int64[m], number of each of the pool's lookups among those of all pools; None: it is the only pool.
        first_replica: Index of the pool's first replica among those of all pools.
    """
    import pyarrow as pa  # noqa: PLC0415  # what-if cells need no table

    from prefixledger.schema import SEGMENT_FACTS  # noqa: PLC0415

    def numbered(local: NDArray[np.int64]) -> NDArray[np.int64]:
        return local if lookup is None else np.where(local < 0, -1, lookup[local])

    replica, nobody = evidence.resident_replica, np.full(len(evidence), -1, np.int64)
    columns = {
        "lookup": numbered(evidence.lookup),
        "first_block": evidence.first_block,
        "n_blocks": evidence.n_blocks,
        "last_block": evidence.last_block,
        "hit": evidence.hit,
        "own_previous": numbered(evidence.own_previous),
        "own_reset": evidence.own_reset,
        "own_distance_blocks": evidence.own_distance_blocks,
        "resident_replica": np.where(replica < 0, -1, replica + first_replica),
        "else_previous": numbered(evidence.else_previous),
        "else_reset": evidence.else_reset,
        "else_distance_blocks": evidence.else_distance_blocks,
        "removed_at": evidence.removed_at_us,
        "removed_by": numbered(evidence.removed_by),
        "change": nobody,
        "in_flight_lookup": numbered(nobody if evidence.in_flight is None else evidence.in_flight),
        "ttl_us": nobody if evidence.ttl_us is None else evidence.ttl_us,
    }
    schema = SEGMENT_FACTS.arrow()
    rule = np.full(len(evidence), -1, np.int8) if evidence.rule is None else evidence.rule
    named = {"rule": pa.array(RULES).take(pa.array(rule, mask=rule < 0))}
    arrays = [
        named[field.name]
        if field.name in named
        else pa.array(
            columns[field.name], mask=_absent(columns[field.name]) if field.nullable else None
        ).cast(field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _absent(column: NDArray[np.int64]) -> NDArray[np.bool_]:
    absent: NDArray[np.bool_] = (column == -1) | (column == NO_TIME)
    return absent


def _run(
    touches: Touches,
    hit_blocks: NDArray[np.int64],
    flight_end: NDArray[np.int64],
    lifetimes: Lifetimes,
    removals: OrderedRemovals,
    ttl_us: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Run the kernel with more and more room for its output."""
    log, m, entries = touches.log, touches.order.size, touches.entry_pair.size
    given = (
        read_only(touches.order, np.int32),
        read_only(touches.slot_of, np.int32),
        read_only(log.replica, np.int32),
        read_only(log.admitted_us, np.int64),
        read_only(touches.touched_blocks, np.int32),
        read_only(np.where(log.refused, 0, log.keyed_blocks), np.int32),
        read_only(log.cap_blocks, np.int32),
        read_only(hit_blocks, np.int32),
        read_only(flight_end, np.int32),
        read_only(log.paths.offset, np.int64),
        read_only(log.paths.chain, np.int32),
        read_only(log.chains.chain_depth, np.int32),
        read_only(log.chains.chain_length, np.int32),
        read_only(touches.entry_pair, np.int32),
        read_only(touches.pair_start, np.int32),
        read_only(touches.pair_replica, np.int32),
        read_only(touches.piece_offset, np.int64),
        read_only(touches.piece_end, np.int32),
        read_only(touches.piece_previous, np.int32),
        read_only(lifetimes.live_from_us, np.int64),
        read_only(lifetimes.live_to_us, np.int64),
        read_only(lifetimes.rank, np.int32),
        read_only(touches.resets.at_us, np.int64),
        read_only(touches.resets.replica, np.int32),
        read_only(removals.before, np.int64),
        read_only(removals.own, np.bool_),
        read_only(removals.at_us, np.int64),
        read_only(removals.pair, np.int32),
        read_only(removals.resident, np.int32),
        -1 if ttl_us is None else int(ttl_us),
    )
    rows = touches.piece_end.size + m + _SPARE_ROWS
    while True:
        offset, segments = np.empty(m + 1, np.int64), np.empty((rows, 12), np.int32)
        found = kernel.collect_segments(
            *given,
            np.empty((entries + 1, 3), np.int32),
            np.empty((removals.at_us.size + entries + 1, 3), np.int32),
            np.full((touches.pair_replica.size, 6), -1, np.int32),
            np.full((log.replicas, 5), -1, np.int64),
            offset,
            segments,
        )
        if found != kernel.SEGMENTS_FULL:
            return offset, segments[:found]
        rows *= 4


def _needed(
    touches: Touches, offset: NDArray[np.int64], segments: NDArray[np.int32], ttl_us: int | None
) -> NDArray[np.int64]:
    """Ask two questions per segment: about the last use here, and about the last use elsewhere."""
    slot_of = np.append(touches.slot_of, np.int32(-1))
    asked = np.empty(2 * len(segments), np.int32)
    asked[0::2] = slot_of[segments[:, kernel.OWN]]
    asked[1::2] = slot_of[segments[:, kernel.ELSE]]
    return whole_capacity(touches, 2 * offset, asked, np.repeat(segments[:, kernel.END], 2), ttl_us=ttl_us)


def _last_blocks(touches: Touches, segments: NDArray[np.int32]) -> NDArray[np.int64]:
    chain, position = (segments[:, column].astype(np.int64) for column in (kernel.CHAIN, kernel.AT))
    return number_blocks(touches.log.chains).at(chain, position)
