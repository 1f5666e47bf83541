"""Prefix policies of vLLM production-stack, AIBrix and Ray Serve: whoever was sent the longest prefix before."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.units import parse_duration_us
from prefixledger.replay.routers.base import (
    AFFINITY,
    BELOW_THRESHOLD,
    FALLBACK,
    IMBALANCE,
    LEAST_LOADED,
    OVERLOAD,
    RANDOM,
    TIE,
    drawn,
    least,
)
from prefixledger.replay.routers.load import Load
from prefixledger.replay.routers.memory import PrefixMemory, router_blocks
from prefixledger.replay.routers.ring import Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.routers import AibrixPrefix, ProductionStackPrefix, RayPrefix
    from prefixledger.replay.routers.base import RouterView


_ODD, _PRIME = 0x9E3779B97F4A7C15, 65_521
"""Shuffle a few numbers by a draw."""


class ProductionStackPrefixRouter:
    """``prefixaware`` of vLLM's production-stack: drawn among those who were sent the longest prefix, whatever their load.

    The trie holds chunks of 128 characters, 32 tokens here, and forgets nothing. A match that is shorter than
    ``min_match_tokens`` goes to whoever got fewest requests lately.
    """

    load = None

    def __init__(self, view: RouterView, options: ProductionStackPrefix) -> None:
        """Start with an empty trie.

        Args:
            view: What the router sees.
            options: Chunk and least match.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, options.chunk_tokens)
        self._memory = PrefixMemory(known, replicas)
        self._least_blocks = options.min_match_tokens / known.tokens
        self._rates = Rates(replicas, options.window)
        self._draws = view.draws()
        self._members: Sequence[int] = ()

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        matched: list[int] = self._memory.match(row).tolist()
        longest = max(matched[member] for member in self._members)
        if longest < self._least_blocks:
            chosen, why = self._rates.lowest(self._members, now_us), BELOW_THRESHOLD
        else:
            best = [member for member in self._members if matched[member] == longest]
            chosen = drawn(best, self._draws, row)
            why = RANDOM if longest == 0 else AFFINITY if len(best) == 1 else TIE
        self._rates.sent(chosen, now_us)
        self._memory.remember(row, chosen)
        return chosen, why


class AibrixPrefixRouter:
    """``prefix-cache`` of the AIBrix gateway.

    If loads differ by more than ``imbalance_requests``, only the least loaded are candidates. Of the candidates that were
    sent the first block, by per cent of the prompt downwards and then by load, the first that has at most mean +
    ``deviation_factor`` standard deviations in flight; else the least loaded of all, equals drawn. One list of blocks for
    all pods, refreshed when a prompt is sent, heads of prompts going first; entries die after the TTL.
    """

    def __init__(self, view: RouterView, options: AibrixPrefix) -> None:
        """Start with an empty table.

        Args:
            view: What the router sees.
            options: Thresholds and sizes.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, options.block_tokens)
        self._options = options
        self._blocks: list[int] = known.blocks.tolist()
        self._lru_blocks = max(1, options.lru_blocks * options.block_tokens // known.tokens)
        self._ttl_us = parse_duration_us(options.ttl)
        self._started = view.started_us
        self._memory = PrefixMemory(known, replicas, ageing="blocks", head_first=True)
        self._draws = view.draws()
        self._members: Sequence[int] = ()
        self.load = Load(view, replicas)

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        if self._ttl_us is not None:
            self._memory.forget(before_row=int(np.searchsorted(self._started, now_us - self._ttl_us)))
        chosen, why = self._pick(row)
        self._memory.remember(row, chosen)
        self._memory.forget(most_blocks=self._lru_blocks)
        return chosen, why

    def _pick(self, row: int) -> tuple[int, int]:
        requests, members = self.load.requests, self._members
        loads = [requests[member] for member in members]
        idle = least(members, requests)
        uneven = max(loads) - min(loads) > self._options.imbalance_requests
        matched: list[int] = self._memory.match(row).tolist()
        blocks = max(1, self._blocks[row])
        per_cent = {m: matched[m] * 100 // blocks for m in (idle if uneven else members) if matched[m]}
        # Equals come in any order in Go: here in one that the seed decides.
        shuffled = list(per_cent)
        if len(shuffled) > 1:
            draw = self._draws[row]
            shuffled.sort(key=lambda m: (draw ^ (m * _ODD)) % _PRIME)
        ranked = sorted(shuffled, key=lambda m: (-per_cent[m], requests[m]))
        mean = sum(loads) / len(loads)
        # The deviation of a sample, over one less than the pods (`algorithms/util.go`); one pod has none.
        spread = sqrt(sum((load - mean) ** 2 for load in loads) / max(1, len(loads) - 1))
        most = mean + self._options.deviation_factor * spread
        for place, member in enumerate(ranked):
            if requests[member] <= most:
                why = IMBALANCE if uneven else OVERLOAD if place else AFFINITY
                return member, why
        if uneven:
            why = IMBALANCE
        elif ranked:
            why = OVERLOAD
        else:
            why = LEAST_LOADED if len(idle) == 1 else TIE
        return drawn(idle, self._draws, row), why


class RayPrefixRouter:
    """``PrefixCacheAffinityRouter`` of Ray Serve.

    Queues that differ by more than ``imbalanced_threshold``, or a prompt without a full block: the shorter queue of two
    that are drawn. A match below ``match_rate_threshold``: those with the smallest tree. Else those who own the deepest
    block. Of several the shortest queue, equals drawn.
    """

    def __init__(self, view: RouterView, options: RayPrefix) -> None:
        """Start with an empty tree.

        Args:
            view: What the router sees.
            options: Thresholds and sizes.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, 1)
        self._options = options
        self._block_tokens = known.tokens
        self._blocks: list[int] = known.blocks.tolist()
        self._tokens = view.tokens()
        self._memory = PrefixMemory(known, replicas)
        self._draws = view.draws()
        self._members: Sequence[int] = ()
        self._replicas = replicas
        self._interval_us = parse_duration_us(options.eviction_interval) or 1
        self._evict_at_us = (int(view.started_us[0]) if view.started_us.size else 0) + self._interval_us
        self.load = Load(view, replicas)

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        if self._options.max_tree_tokens is not None and now_us >= self._evict_at_us:
            self._evict(now_us, self._options.max_tree_tokens)
        chosen, why = self._pick(row)
        self._memory.remember(row, chosen)
        return chosen, why

    def _pick(self, row: int) -> tuple[int, int]:
        requests, members = self.load.requests, self._members
        loads = [requests[member] for member in members]
        threshold = self._options.imbalanced_threshold
        if threshold is not None and max(loads) - min(loads) > threshold:
            return self._shorter_of_two(row), IMBALANCE
        if self._blocks[row] == 0:
            return self._shorter_of_two(row), RANDOM
        matched: list[int] = self._memory.match(row).tolist()
        deepest = max(matched)
        if deepest * self._block_tokens < self._options.match_rate_threshold * self._tokens[row]:
            held = [self._memory.held(owner) for owner in range(self._replicas)]
            why = BELOW_THRESHOLD if deepest else LEAST_LOADED
            return drawn(least(least(members, held), requests), self._draws, row), why
        owners = [member for member in members if matched[member] == deepest]
        if not owners:
            return self._shorter_of_two(row), FALLBACK
        best = least(owners, requests)
        return drawn(best, self._draws, row), AFFINITY if len(best) == 1 else TIE

    def _shorter_of_two(self, row: int) -> int:
        members, draw = list(self._members), self._draws[row]
        first = members.pop(draw % len(members))
        if not members:
            return first
        second = members[(draw >> 32) % len(members)]
        return second if self.load.requests[second] < self.load.requests[first] else first

    def _evict(self, now_us: int, max_tree_tokens: int) -> None:
        most = max_tree_tokens // self._block_tokens
        for replica in range(self._replicas):
            if self._memory.held(replica) > most:
                kept = int(most * self._options.evict_to)
                self._memory.forget(owner=replica, most_blocks=kept, whole=True)
        late = (now_us - self._evict_at_us) // self._interval_us
        self._evict_at_us += (late + 1) * self._interval_us
