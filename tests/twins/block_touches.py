"""Who used each block last, block by block: the twin of the last-toucher pass and of the needed capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twins.vllm_blocks import Row, Twin

if TYPE_CHECKING:
    from twins.pool_logs import PoolCase


def find_pieces(case: PoolCase) -> dict[int, list[tuple[int, int]]]:
    """Return, for each lookup, (end, lookup that used the piece last or -1) from the head down."""
    last: dict[tuple[int, int], int] = {}
    pieces: dict[int, list[tuple[int, int]]] = {}
    for number, ask in enumerate(case.asks):
        mine: list[tuple[int, int]] = []
        for at, block in enumerate(ask.path[: ask.keyed]):
            user = last.get((ask.replica, block), -1)
            if mine and mine[-1][1] == user:
                mine[-1] = (at + 1, user)
            else:
                mine.append((at + 1, user))
        for block in ask.path[: ask.keyed]:
            last[ask.replica, block] = number
        pieces[number] = mine
    return pieces


def smallest_capacity(
    case: PoolCase, number: int, end: int, *, ttl: int | None, replica: int | None = None
) -> int:
    """Replay ever larger caches until one hits the first ``end`` blocks of a lookup, without any reset.

    Args:
        case: One request at a time; the search begins at its largest prompt.
        number: The lookup; those behind it are left out.
        end: Blocks that must hit.
        ttl: TTL in force.
        replica: Ask this replica instead of its own.
    """
    rows = [
        Row(ask.at, ask.replica, ask.tokens, ask.path[: ask.keyed], ask.keyed)
        for ask in case.asks[: number + 1]
    ]
    if replica is not None:
        rows[number].replica = replica
    capacity = case.largest
    while True:
        answer = Twin(rows, case.block, capacity, case.replicas, -1 if ttl is None else ttl).run()
        if answer.hit[number] >= end:
            return capacity
        capacity += 1
