"""SGLang gateway ``cache_aware``: one radix tree of what was sent to whom, and a rule that overrides it under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.config.units import parse_duration_us
from prefixledger.replay.routers.base import AFFINITY, BELOW_THRESHOLD, FALLBACK, IMBALANCE, LEAST_LOADED
from prefixledger.replay.routers.load import Load
from prefixledger.replay.routers.memory import PrefixMemory, router_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.routers import CacheAware
    from prefixledger.replay.routers.base import RouterView

PAGE_TOKENS = 16
"""The gateway cuts tokens into pages of 16."""


class CacheAwareRouter:
    """The token path of SGLang's gateway (`policies/cache_aware.rs`), in full blocks of the log.

    The load overrides affinity if ``max - min > balance_abs_threshold`` and ``max > balance_rel_threshold * min``. Else
    the latest sender of the deepest block that anybody was sent wins, if more than ``cache_threshold`` of the prompt
    matches; else the least loaded: fewest requests in flight, then fewest ever sent, then the first. Every choice is
    remembered, but for one whose replica is gone. Each ``eviction_interval`` every tree above ``max_tree_tokens`` loses
    the leaves that were used longest ago.
    """

    def __init__(self, view: RouterView, options: CacheAware) -> None:
        """Start with empty trees.

        Args:
            view: What the router sees.
            options: Thresholds.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, PAGE_TOKENS)
        self._options = options
        self._block_tokens = known.tokens
        self._tokens = view.tokens()
        self._memory = PrefixMemory(known, replicas)
        self._processed = [0] * replicas
        self._members: Sequence[int] = ()
        self._interval_us = parse_duration_us(options.eviction_interval) or 1
        self._evict_at_us = (int(view.started_us[0]) if view.started_us.size else 0) + self._interval_us
        self._replicas = replicas
        self.load = Load(view, replicas)

    def join(self, members: Sequence[int]) -> None:
        """Take note of who is healthy; the tree keeps what the others were sent."""
        self._members = members

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        if now_us >= self._evict_at_us:
            self._evict(now_us)
        requests, options = self.load.requests, self._options
        loads = [requests[member] for member in self._members]
        low, high = min(loads), max(loads)
        if high - low > options.balance_abs_threshold and high > options.balance_rel_threshold * low:
            return self._send(row, self._least_loaded(), IMBALANCE)
        matched = self._memory.match(row)
        deepest = int(matched.max())
        if deepest * self._block_tokens > options.cache_threshold * self._tokens[row]:
            sender = self._memory.sender.tolist()
            owners = [owner for owner, depth in enumerate(matched.tolist()) if depth == deepest]
            latest = max(owners, key=sender.__getitem__)
            if latest in self._members:
                return self._send(row, latest, AFFINITY)
            self._processed[self._members[0]] += 1
            return self._members[0], FALLBACK
        why = BELOW_THRESHOLD if deepest else LEAST_LOADED
        if options.no_match == "smallest-tree":
            held = [self._memory.held(member) for member in range(self._replicas)]
            return self._send(row, min(self._members, key=lambda member: (held[member], member)), why)
        return self._send(row, self._least_loaded(), why)

    def _least_loaded(self) -> int:
        requests, processed = self.load.requests, self._processed
        return min(self._members, key=lambda member: (requests[member], processed[member]))

    def _send(self, row: int, replica: int, why: int) -> tuple[int, int]:
        self._processed[replica] += 1
        self._memory.remember(row, replica)
        return replica, why

    def _evict(self, now_us: int) -> None:
        most = self._options.max_tree_tokens // self._block_tokens
        for replica in range(self._replicas):
            self._memory.forget(owner=replica, most_blocks=most, whole=True)
        late = (now_us - self._evict_at_us) // self._interval_us
        self._evict_at_us += (late + 1) * self._interval_us
