"""The evidence of every block, one by one, in plain slow Python: the twin of the evidence pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twins.pool_logs import PoolCase
    from twins.vllm_blocks import Answer


class Segment(NamedTuple):
    """What the pass says of one segment; lookups are positions in ``asks``."""

    ask: int
    first: int
    blocks: int
    hit: bool
    own: int | None
    own_reset: int | None
    resident: int | None
    elsewhere: int | None
    else_reset: int | None
    removed: tuple[int, int] | None


def find_segments(case: PoolCase, answer: Answer, order: list[int], rank: list[int]) -> list[Segment]:
    """Walk the lookups in order of admission, block by block.

    Args:
        case: The log and the fleet.
        answer: What the block-by-block cache did: hits, admissions, refusals, and every block that left.
        order: Positions in ``asks`` in order of admission.
        rank: Place of each replica's name.
    """
    leaving = _leaving(answer, order)
    last: dict[tuple[int, int], int] = {}  # (replica, block) -> ask
    held: set[tuple[int, int]] = set()
    left: dict[tuple[int, int], tuple[int, int]] = {}
    segments: list[Segment] = []
    resets = list(enumerate(case.resets))
    for number, ask in enumerate(order):
        now, mine = answer.admitted[ask], case.asks[ask].replica
        events = [(at, 1, replica, None) for _, (at, replica) in resets if at <= now]
        resets = [event for event in resets if event[1][0] > now]
        events += [(e[3], 0, e[4], e) for e in leaving if e[0] == number and not e[1]]
        for _, is_reset, replica, entry in sorted(events, key=lambda e: e[:2]):
            if is_reset:
                held -= {key for key in held if key[0] == replica}
            else:
                _leave(entry, held, left)
        if not answer.refused[ask]:
            segments += _look(case, answer, ask, (now, mine), rank, (last, held, left))
        for entry in leaving:
            if entry[0] == number and entry[1]:
                _leave(entry, held, left)
        if not answer.refused[ask]:
            for block in case.asks[ask].path[: case.asks[ask].keyed]:
                last[mine, block] = ask
                held.add((mine, block))
                left.pop((mine, block), None)
    return segments


def _leaving(answer: Answer, order: list[int]) -> list[tuple[int, bool, int, int, int, int]]:
    """Return (lookup before which it happened, by its own admission, row, at, replica, block) of what left for good."""
    place = {ask: number for number, ask in enumerate(order)}
    found = []
    for cause, row, at, replica, block, gone in answer.removed:
        if not gone or block is None:
            continue
        own = row >= 0 and at == answer.admitted[row]
        later = [
            number
            for number, ask in enumerate(order)
            if answer.admitted[ask] > at or (cause != "expired" and answer.admitted[ask] == at)
        ]
        found.append((place[row] if own else min(later, default=len(order)), own, row, at, replica, block))
    return found


def _leave(entry: tuple, held: set[tuple[int, int]], left: dict[tuple[int, int], tuple[int, int]]) -> None:
    _, _, row, at, replica, block = entry
    if (replica, block) in held:
        held.remove((replica, block))
        left[replica, block] = (at, row)


def _look(case, answer, ask, here, rank, state) -> list[Segment]:
    now, mine = here
    last, held, left = state
    path = case.asks[ask].path[: case.asks[ask].keyed]
    cap = min((case.asks[ask].tokens - 1) // case.block, len(path))

    def reset_since(replica: int, user: int) -> int | None:
        found = [
            i for i, (at, r) in enumerate(case.resets) if r == replica and answer.admitted[user] < at <= now
        ]
        return found[-1] + 100 if found else None

    def holds(replica: int, block: int) -> bool:
        start, end = case.live[replica]
        if replica == mine or now < start or (end is not None and now >= end) or (replica, block) not in held:
            return False
        return case.ttl is None or now - answer.admitted[last[replica, block]] <= case.ttl

    depth = {}
    for replica in range(case.replicas):
        has = [holds(replica, block) for block in path]
        depth[replica] = has.index(False) if False in has else len(has)
        assert not any(has[depth[replica] :]), "what is resident is closed towards the root"
    found: list[Segment] = []
    previous = None
    for at, block in enumerate(path):
        zone = 0 if at < answer.hit[ask] else 1 if at < cap else 2
        own, resident, elsewhere = last.get((mine, block)), None, None
        if zone > 0:
            users = [r for r in range(case.replicas) if r != mine and (r, block) in last]
            latest = {r: (answer.admitted[last[r, block]], -rank[r]) for r in users}
            holders = [r for r in users if depth[r] > at]
            if holders:
                resident = max(holders, key=lambda r: (depth[r], latest[r]))
            if own is None and users:
                elsewhere = last[max(users, key=lambda r: latest[r]), block]
        facts = (zone, own, resident, elsewhere)
        if facts == previous:
            found[-1] = found[-1]._replace(blocks=found[-1].blocks + 1)
            continue
        previous = facts
        found.append(
            Segment(
                ask=ask,
                first=at,
                blocks=1,
                hit=zone == 0,
                own=own,
                own_reset=None if own is None else reset_since(mine, own),
                resident=resident,
                elsewhere=elsewhere,
                else_reset=None
                if elsewhere is None
                else reset_since(case.asks[elsewhere].replica, elsewhere),
                removed=left.get((mine, block)) if zone > 0 and own is not None else None,
            )
        )
    return found
