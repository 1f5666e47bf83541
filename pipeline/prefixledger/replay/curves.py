"""Hits at every capacity, and at every TTL, from one pass each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.curve_kernel import BLOCKS, CAPACITY, QUERY
from prefixledger.replay.needed import capacity_steps

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from prefixledger.replay.touches import Touches

_FEWEST_POINTS = 2


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """Hit blocks at every capacity per replica that admits every prompt.

    Attributes:
        capacity_blocks: int64[k], ascending; the first is the largest prompt. Between two of them each block of capacity
            adds the same number of hits, behind the last one none.
        hit_blocks: int64[k].
    """

    capacity_blocks: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]

    def hits_at(self, capacity_blocks: ArrayLike) -> NDArray[np.int64]:
        """Return the hit blocks at each capacity, exactly as a replay at that capacity counts them.

        Args:
            capacity_blocks: Blocks per replica, any shape.

        Raises:
            UsageError: A capacity is smaller than the largest prompt: the engine would refuse that prompt, and the
                curve says nothing about what is left.
        """
        asked = np.asarray(capacity_blocks, np.int64)
        if (asked < self.capacity_blocks[0]).any():
            raise UsageError(
                f"the capacity curve begins at {self.capacity_blocks[0]} blocks, the largest prompt; "
                f"{asked.min()} blocks would refuse prompts",
                hint="replay smaller capacities one by one",
            )
        at = np.searchsorted(self.capacity_blocks, asked, side="right") - 1
        steps = np.diff(self.capacity_blocks)
        slope = np.append(np.diff(self.hit_blocks) // steps, 0)
        hits: NDArray[np.int64] = self.hit_blocks[at] + slope[at] * (asked - self.capacity_blocks[at])
        return hits

    def smallest_for(self, hit_blocks: int) -> int | None:
        """Return the smallest capacity of the curve that hits so many blocks; None where no capacity does."""
        at = int(np.searchsorted(self.hit_blocks, hit_blocks))
        if at == self.hit_blocks.size:
            return None
        if at == 0:
            return int(self.capacity_blocks[0])
        steps = int(self.capacity_blocks[at] - self.capacity_blocks[at - 1])
        slope = int(self.hit_blocks[at] - self.hit_blocks[at - 1]) // steps
        missing = hit_blocks - int(self.hit_blocks[at - 1])
        return int(self.capacity_blocks[at - 1]) + -(-missing // slope)


@dataclass(frozen=True, slots=True)
class TtlCurve:
    """Hit blocks at every TTL under unlimited capacity, as a step function.

    Attributes:
        ttl_us: int64[k], ascending gaps between two uses; a TTL of at least that long brings the hits.
        hit_blocks: int64[k], hits from that TTL on.
    """

    ttl_us: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]

    def hits_at(self, ttl_us: ArrayLike) -> NDArray[np.int64]:
        """Return the hit blocks at each TTL (a hit iff gap <= TTL, refreshed on every use)."""
        asked = np.asarray(ttl_us, np.int64)
        return np.append(0, self.hit_blocks)[np.searchsorted(self.ttl_us, asked, side="right")]


def capacity_curve(touches: Touches, *, ttl_us: int | None = None) -> CapacityCurve:
    """Count the hits at every capacity under profile ``vllm``, one request at a time, output ignored, routing fixed.

    Partial tails and duplicate copies are in it, resets are honoured. Refused lookups stay out.

    Args:
        touches: The pool; with one replica for all lookups it is the curve of a shared cache.
        ttl_us: Also let blocks expire; with duplicate copies the curve of each TTL is a pass of its own.

    Returns:
        The sum over the replicas, each of which has the capacity.
    """
    return _from_steps(_largest_slots(touches), *_steps(touches, ttl_us)[1:])


def part_capacity_curves(
    touches: Touches, part: NDArray[np.integer], parts: int, *, ttl_us: int | None = None
) -> tuple[CapacityCurve, ...]:
    """Return what parts of the lookups hit at every capacity that all of them share; together they are the pool's curve.

    Args:
        touches: The pool.
        part: int[m], part of each lookup; below 0: of none.
        parts: How many there are.
        ttl_us: See ``capacity_curve``.
    """
    lookup, capacity, blocks = _steps(touches, ttl_us)
    mine, largest = part[lookup], _largest_slots(touches)
    return tuple(
        _from_steps(largest, capacity[mine == number], blocks[mine == number]) for number in range(parts)
    )


def ttl_curve(touches: Touches) -> TtlCurve:
    """Count the hits at every TTL under unlimited capacity, per replica as routed, summed; resets are honoured."""
    return _from_gaps(*_gaps(touches)[1:])


def part_ttl_curves(touches: Touches, part: NDArray[np.integer], parts: int) -> tuple[TtlCurve, ...]:
    """Return the TTL curves of parts of the lookups, see ``part_capacity_curves``."""
    lookup, gap_us, blocks = _gaps(touches)
    mine = part[lookup]
    return tuple(_from_gaps(gap_us[mine == number], blocks[mine == number]) for number in range(parts))


def thin(curve: CapacityCurve | TtlCurve, points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pick points of a curve for a report: ends, even steps of the hits, and even steps of the axis on a log scale.

    Args:
        curve: The curve.
        points: At most so many.

    Returns:
        Capacities or TTLs, ascending, and the exact hits at each.

    Raises:
        UsageError: Fewer than 2 points.
    """
    if points < _FEWEST_POINTS:
        raise UsageError(f"a curve needs at least {_FEWEST_POINTS} points, not {points}")
    axis = curve.capacity_blocks if isinstance(curve, CapacityCurve) else curve.ttl_us
    if axis.size == 0:
        return axis, curve.hit_blocks
    by_hits = (points - _FEWEST_POINTS) // 2
    levels = np.linspace(curve.hit_blocks[0], curve.hit_blocks[-1], by_hits + 2)[1:-1]
    spread = np.geomspace(axis[0] + 1, axis[-1] + 1, points - by_hits) - 1
    spread[0], spread[-1] = axis[0], axis[-1]
    if isinstance(curve, CapacityCurve):
        chosen = np.concatenate([np.interp(levels, curve.hit_blocks, axis), spread]).round().astype(np.int64)
    else:
        rows = [
            np.searchsorted(curve.hit_blocks, levels),
            np.searchsorted(axis, spread.round()).clip(max=axis.size - 1),
        ]
        chosen = axis[np.concatenate(rows)]
    chosen = np.unique(chosen.clip(axis[0], axis[-1]))
    return chosen, curve.hits_at(chosen)


def reusable(
    touches: Touches, *, ttl_us: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return slot, previous slot, begin and end of all pieces that may hit and were used since the last reset.

    Args:
        touches: The pool.
        ttl_us: Leave out what was used longer ago.

    Returns:
        int32[k] each, by slot, then by depth.
    """
    pieces = np.diff(touches.piece_offset)
    slot = np.repeat(np.arange(pieces.size, dtype=np.int32), pieces)
    end = np.minimum(touches.piece_end, touches.log.cap_blocks[touches.order][slot]).astype(np.int32)
    begin = np.zeros_like(end)
    begin[1:] = np.where(slot[1:] == slot[:-1], touches.piece_end[:-1], 0)
    chosen = (touches.piece_previous >= touches.epoch_start[slot]) & (begin < end)
    if ttl_us is not None:
        at_us = touches.log.admitted_us[touches.order]
        chosen &= at_us[slot] - at_us[touches.piece_previous] <= ttl_us
    return slot[chosen], touches.piece_previous[chosen], begin[chosen], end[chosen]


def _steps(
    touches: Touches, ttl_us: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return lookup, smallest capacity and number of blocks: each next block of a step needs one block more."""
    slot, previous, begin, end = reusable(touches, ttl_us=ttl_us)
    offset = np.searchsorted(slot, np.arange(len(touches.log) + 1)).astype(np.int64)
    steps = capacity_steps(touches, offset, previous, end, end - begin, ttl_us=ttl_us)
    return touches.order[slot[steps[:, QUERY]]], steps[:, CAPACITY], steps[:, BLOCKS]


def _gaps(touches: Touches) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return lookup, gap since the last use, and number of blocks of every piece that was there before."""
    slot, previous, begin, end = reusable(touches)
    lookup, earlier = touches.order[slot], touches.order[previous]
    gap_us = touches.log.admitted_us[lookup] - touches.log.admitted_us[earlier]
    return lookup, gap_us, (end - begin).astype(np.int64)


def _largest_slots(touches: Touches) -> int:
    admitted = touches.log.prompt_tokens[~touches.log.refused]
    return int(-(-admitted.max(initial=0) // touches.log.block_size))


def _from_steps(smallest: int, capacity: NDArray[np.int64], blocks: NDArray[np.int64]) -> CapacityCurve:
    """Add up the steps; each adds a slope of 1 over ``blocks`` blocks of capacity, from ``capacity - 1`` on."""
    first = capacity - 1
    settled = np.minimum(np.maximum(smallest - first, 0), blocks)  # hits at the smallest capacity already
    first, blocks = (first + settled)[settled < blocks], (blocks - settled)[settled < blocks]
    at = np.concatenate([[smallest], first, first + blocks])
    bend = np.concatenate([[0], np.ones(first.size, np.int64), -np.ones(first.size, np.int64)])
    knots, knot = np.unique(at, return_inverse=True)
    slope = np.zeros(knots.size, np.int64)
    np.add.at(slope, knot, bend)
    hits = np.zeros(knots.size, np.int64)
    hits[1:] = np.cumsum(np.cumsum(slope)[:-1] * np.diff(knots))
    return CapacityCurve(knots, hits + int(settled.sum()))


def _from_gaps(gap_us: NDArray[np.int64], blocks: NDArray[np.int64]) -> TtlCurve:
    ttl_us, step = np.unique(gap_us, return_inverse=True)
    added = np.zeros(ttl_us.size, np.int64)
    np.add.at(added, step, blocks)
    return TtlCurve(ttl_us, np.cumsum(added))
