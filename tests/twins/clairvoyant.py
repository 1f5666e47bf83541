"""Belady's cache on single blocks: every block with its next use, the farthest goes first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twins.pool_logs import PoolCase

NEVER = float("inf")


def clairvoyant_blocks(case: PoolCase, capacity: int, ttl: int | None) -> int:
    """Return the hits of all replicas, one request at a time."""
    return sum(_replica(case, replica, capacity, ttl) for replica in range(case.replicas))


def _replica(case: PoolCase, replica: int, capacity: int, ttl: int | None) -> int:
    asks = [ask for ask in case.asks if ask.replica == replica]
    resets = [at for at, r in case.resets if r == replica]
    prompts = [ask.path[: ask.keyed] for ask in asks]
    caps = [min((ask.tokens - 1) // case.block, ask.keyed) for ask in asks]
    uses = defaultdict(list)
    for number, prompt in enumerate(prompts):
        for depth, block in enumerate(prompt):
            uses[block].append((number, depth))

    def next_use(block: int, now: int) -> tuple[float, int]:
        """Return when a copy kept from now on would be a hit, and how deep."""
        later = [use for use in uses[block] if use[0] > now]
        if not later:
            return NEVER, 0
        number, depth = later[0]
        gone = any(asks[now].at < at <= asks[number].at for at in resets)
        late = ttl is not None and asks[number].at - asks[now].at > ttl
        return (NEVER, depth) if gone or late or depth >= caps[number] else (number, depth)

    kept: dict[int, tuple[float, int]] = {}
    hits = 0
    for now, (ask, prompt) in enumerate(zip(asks, prompts, strict=True)):
        for block in prompt[: caps[now]]:
            if kept.get(block, (NEVER, 0))[0] != now:
                break
            hits += 1
        for block in prompt:
            kept.pop(block, None)
        while len(kept) > capacity - ask.tokens // case.block:
            del kept[max(kept, key=kept.__getitem__)]
        kept |= {block: at for block in prompt if (at := next_use(block, now))[0] != NEVER}
    return hits
