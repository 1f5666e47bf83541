"""Capacities with which blocks would have been hits: allocates what the kernel needs and hands back what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.curve_kernel import STEPS_FULL, needed_capacity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.touches import Touches


def whole_capacity(
    touches: Touches,
    offset: NDArray[np.int64],
    slot: NDArray[np.int32],
    end: NDArray[np.int32],
    *,
    ttl_us: int | None = None,
) -> NDArray[np.int64]:
    """Return the capacity with which a piece of a prompt would have been hit to its last block.

    It is also at least what the two prompts need to be admitted at all.

    Args:
        touches: The pool.
        offset: int64[m + 1], questions of each lookup; they are asked at its admission.
        slot: int32[k], slot that used the piece last, on any replica; -1: no question.
        end: int32[k], position after the piece's last block.
        ttl_us: TTL in force; it decides which duplicate copies there were.

    Returns:
        int64[k]: blocks; -1 where there was no question.
    """
    needed = np.empty(slot.size, np.int64)
    blocks = np.empty(0, np.int32)
    _ask(touches, ttl_us, (touches.order, touches.slot_of), (offset, slot, end, blocks), needed=needed)
    return needed


def capacity_steps(
    touches: Touches,
    offset: NDArray[np.int64],
    slot: NDArray[np.int32],
    end: NDArray[np.int32],
    blocks: NDArray[np.int32],
    *,
    ttl_us: int | None = None,
) -> NDArray[np.int64]:
    """Return the capacity that every single block needs, as steps.

    Args:
        touches: The pool.
        offset: int64[m + 1], questions of each *slot*, about its own replica.
        slot: int32[k], see ``whole_capacity``.
        end: int32[k], position after the piece's last block.
        blocks: int32[k], blocks of the piece.
        ttl_us: TTL in force; it decides which duplicate copies there were.

    Returns:
        int64[steps, 3]: question, capacity, n: the first of n blocks needs that capacity, each next one 1 more.
    """
    identity = np.arange(touches.order.size, dtype=np.int32)
    return _ask(touches, ttl_us, (identity, identity), (offset, slot, end, blocks))


def _ask(
    touches: Touches,
    ttl_us: int | None,
    numbering: tuple[NDArray[np.int32], NDArray[np.int32]],
    questions: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    *,
    needed: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Run the kernel; without ``needed`` with more and more room for the steps.

    Lookups are numbered as they were admitted, or by slot: then replicas follow one another, which suits the memory.
    """
    log, m = touches.log, touches.order.size
    order, slot_of = numbering
    rows = touches.order if order is slot_of else np.arange(m)
    prompt_tokens = log.prompt_tokens[rows]
    touched = touches.touched_blocks[rows]
    admitted = ~log.refused[rows]
    nameless = prompt_tokens // log.block_size - log.keyed_blocks[rows]
    tail = prompt_tokens % log.block_size != 0
    if log.unhashed_in_line:  # then a tail is not the first slot to go, but a block that nobody can hit
        nameless, tail = nameless + tail, np.zeros_like(tail)
    given = (
        read_only(order, np.int32),
        read_only(slot_of, np.int32),
        read_only(log.replica[rows], np.int32),
        read_only(touches.replica_start, np.int64),
        read_only(log.admitted_us[rows], np.int64),
        read_only(touched, np.int32),
        read_only(np.where(admitted, touched + nameless, 0), np.int32),
        read_only(np.where(admitted, -(-prompt_tokens // log.block_size), 0), np.int32),
        read_only(tail, np.bool_),
        read_only(touches.piece_offset, np.int64),
        read_only(touches.piece_end, np.int32),
        read_only(touches.piece_previous, np.int32),
        read_only(touches.stays, np.int32),
        read_only(touches.ghost_offset, np.int64),
        read_only(touches.ghost_older, np.int32),
        read_only(touches.ghost_younger, np.int32),
        -1 if ttl_us is None else int(ttl_us),
        read_only(questions[0], np.int64),
        read_only(questions[1], np.int32),
        read_only(questions[2], np.int32),
        read_only(questions[3], np.int32),
        needed is not None,
    )
    room = 0 if needed is not None else 2 * questions[1].size + 1
    while True:
        steps = np.empty((room, 3), np.int64)
        found = needed_capacity(
            *given,
            np.zeros(m, np.int64),
            np.empty(m, np.int32),
            np.zeros(m, np.int32),
            np.empty(touches.ghost_older.size, np.int32),
            np.empty(touches.ghost_older.size, np.int32),
            np.empty(touches.ghost_older.size, np.int32),
            np.zeros((log.replicas, 4), np.int64),
            np.empty(0, np.int64) if needed is None else needed,
            steps,
        )
        if found != STEPS_FULL:
            return steps[:found]
        room *= 4
