"""A hosted prompt cache, the slow and obvious way: a dict from prefixes to entries per replica."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

RANKS = (
    "hit",
    "in_flight",
    "expired",
    "invalidated",
    "misrouted",
    "elsewhere",
    "out_of_reach",
    "below_minimum",
    "no_breakpoint",
    "cold",
)


@dataclass
class Ask:
    """One lookup; marks are (blocks from the head, position or None, lifetime or None), in order."""

    at: int
    ids: tuple
    marks: list
    tokens: int
    replica: int = 0
    first_token: int | None = None
    finished: int | None = None
    readable: int | None = None
    read: int | None = None
    wanted: int | None = None
    minimum_tokens: int = 1
    look_back: int | None = None
    refresh: bool = True
    takes_ttl: bool = False
    answer: tuple | None = None
    answered: int | None = None


@dataclass
class _Entry:
    used_by: int
    used_at: int
    resets: int
    ready: int
    readable: int
    position: int | None
    ttl: int | None


@dataclass
class _Replica:
    entries: dict = field(default_factory=dict)
    resets: int = 0
    last_reset: int | None = None


def replay(  # noqa: C901, PLR0912, PLR0915  # one loop, in the order of the rules
    asks, *, block_size=1, replicas=1, resets=(), lives=None, waits=True, per_token=0.0
):
    """Return for each lookup its hit blocks, and (class, own, own_reset, resident, other, other_reset) per block."""
    caches = [_Replica() for _ in range(replicas)]
    served, asked_for = set(), set()
    pending = list(enumerate(resets))
    out = []
    for number, ask in enumerate(asks):
        while pending and pending[0][1][0] <= ask.at:
            event, (_, replica) = pending.pop(0)
            caches[replica].resets += 1
            caches[replica].last_reset = event
        stored = [
            mark for mark in ask.marks for depth in mark[:1] if depth * block_size >= ask.minimum_tokens
        ]
        cap = stored[-1][0] if stored and stored[-1] == ask.marks[-1] else 0
        mine = caches[ask.replica]

        def alive(cache, entry, ask=ask):
            return entry.resets == cache.resets and (entry.ttl is None or ask.at - entry.used_at <= entry.ttl)

        def near(depth, position, ask=ask):
            if ask.look_back is None or position is None:
                return True
            return any(
                d >= depth and (at is None or 0 <= at - position < ask.look_back) for d, at, _ in ask.marks
            )

        def lives_now(replica, ask=ask):
            return lives is None or lives[replica][0] <= ask.at < lives[replica][1]

        def in_flight(entry, depth, ask=ask):
            if ask.at < entry.ready:
                read = ask.read is not None and depth <= ask.read
                return entry.ready == entry.readable or not read
            told = ask.read is not None and ask.read < depth <= ask.wanted
            return ask.at < entry.readable and told

        def judge(  # noqa: PLR0911  # one return a rule
            depth, ask=ask, mine=mine, alive=alive, near=near, lives_now=lives_now
        ):
            """What the entry at this depth can do for the lookup: class, evidence, who else holds it."""
            prefix = ask.ids[:depth]
            own = mine.entries.get(prefix)
            others = [
                (cache.entries[prefix].used_at, -r, r, cache.entries[prefix])
                for r, cache in enumerate(caches)
                if r != ask.replica and prefix in cache.entries
            ]
            known = own or (others[0][3] if others else None)
            if known is None:
                return ("below_minimum", -1, -1, -1, -1, None) if prefix in asked_for else None
            reach = near(depth, known.position)
            holders = [
                (at, tie, r) for at, tie, r, e in others if alive(caches[r], e) and lives_now(r) and reach
            ]
            holder = max(holders)[2] if holders else None
            if own is not None:
                if not reach:
                    return ("out_of_reach", own.used_by, -1, -1, -1, holder)
                if own.resets != mine.resets:
                    return ("invalidated", own.used_by, mine.last_reset, -1, -1, holder)
                if not alive(mine, own):
                    return ("expired", own.used_by, -1, -1, -1, holder)
                if waits and in_flight(own, depth):
                    return ("in_flight", own.used_by, -1, -1, -1, holder)
                return ("hit", own.used_by, -1, -1, -1, None)
            if not reach:
                return ("out_of_reach", -1, -1, -1, -1, None)
            if holder is not None:
                return ("misrouted", -1, -1, -1, -1, holder)
            _, _, r, entry = max(others, key=operator.itemgetter(0, 1))
            reset = caches[r].last_reset if entry.resets != caches[r].resets else -1
            return ("elsewhere", -1, -1, entry.used_by, reset, None)

        hit, found = 0, {}
        for depth in range(1, cap + 1):
            found[depth] = judge(depth)
            if found[depth] is not None and found[depth][0] == "hit":
                hit = depth
        blocks = []
        for block in range(cap):
            behind = [(d, found[d]) for d in range(cap, block, -1) if found[d] is not None]
            seen = ask.ids[: block + 1] in served
            best = ("no_breakpoint" if seen else "cold", -1, -1, -1, -1)
            resident = None
            for _, (kind, own, reset, other, other_reset, holder) in behind:
                rank, now = RANKS.index(kind), RANKS.index(best[0])
                later = kind in ("expired", "invalidated", "elsewhere") and max(own, other) > max(
                    best[1], best[3]
                )
                if rank < now or (rank == now and later):
                    best = (kind, own, reset, other, other_reset)
                if resident is None:
                    resident = holder
                if kind == "hit":
                    resident = None
                    break
            kind, own, reset, other, other_reset = best
            blocks.append((kind, own, reset, -1 if resident is None else resident, other, other_reset))
        out.append((hit, blocks))

        served.update(ask.ids[:n] for n in range(1, len(ask.ids) + 1))
        asked_for.update(ask.ids[:depth] for depth, *_ in ask.marks)
        for depth in range(1, hit + 1 if ask.refresh else 1):
            entry = mine.entries.get(ask.ids[:depth])
            if entry is not None and alive(mine, entry):
                entry.used_by, entry.used_at = number, ask.at
                if ask.takes_ttl:
                    entry.ttl = next(ttl for d, _, ttl in ask.marks if d >= depth)
        ready = ask.first_token
        if ready is None:
            ready = ask.at + int(per_token * (ask.tokens - hit * block_size) + 0.5)
            ready = ready if ask.finished is None else min(ready, ask.finished)
        readable = ready if ask.readable is None else max(ready, ask.readable)
        known = 0 if ask.read is None else ask.read  # what it read where it was logged was there before
        writes = [
            (ask.ids[:depth], position, ttl, ready, ready if depth <= known else readable)
            for depth, position, ttl in stored
        ]
        if ask.answer and ask.marks and len(ask.answer) * block_size >= ask.minimum_tokens:
            answered = ready if ask.answered is None else max(ready, ask.answered)
            writes.append((ask.answer, None, ask.marks[-1][2], answered, answered))
            served.update(ask.answer[:n] for n in range(1, len(ask.answer) + 1))
            asked_for.add(ask.answer)
        for prefix, position, ttl, visible, surely in writes:
            entry = mine.entries.get(prefix)
            if entry is not None and alive(mine, entry):
                entry.ready = min(entry.ready, visible)
                entry.readable = min(entry.readable, surely)
                if ask.takes_ttl and prefix != ask.answer:
                    entry.ttl = ttl
                if ask.refresh:
                    entry.used_by, entry.used_at = number, ask.at
            else:
                mine.entries[prefix] = _Entry(number, ask.at, mine.resets, visible, surely, position, ttl)
    return out
