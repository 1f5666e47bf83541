"""llm-d: scores of prefix, queue and KV utilization, weighted and summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.replay.routers.base import AFFINITY, LEAST_LOADED, OVERLOAD, TIE, drawn
from prefixledger.replay.routers.load import ActiveBlocks, Load
from prefixledger.replay.routers.memory import PrefixMemory, router_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.routers import LlmDPrefix
    from prefixledger.replay.routers.base import Known, RouterView

LRU_BLOCKS = 31_250
"""Hashes remembered for a pod whose engine does not report its blocks."""

LONG_MATCH_TOKENS = 8192
"""A match of this length is as good as any longer one, for the part of the score that goes by length."""


class _Sent:
    """The approximate producer: for each pod an LRU of the hashes that it was sent, heads of prompts going first."""

    def __init__(self, view: RouterView, options: LlmDPrefix) -> None:
        """Start with empty lists."""
        known = router_blocks(view.parent, view.last_block, view.block_size, options.block_tokens)
        self.block_tokens = known.tokens
        self._most_hashed = max(1, options.max_prefix_tokens // known.tokens)
        self._memory = PrefixMemory(known.cut(self._most_hashed), len(view.names), head_first=True)
        self._lru_blocks = options.lru_blocks or view.capacity_blocks or LRU_BLOCKS
        self._tokens = view.tokens()

    def total(self, row: int) -> int:
        """Return the hashes of a prompt, that of its partial last block included."""
        return max(1, min(self._most_hashed, -(-self._tokens[row] // self.block_tokens)))

    def match(self, row: int, _now_us: int, /) -> list[int]:
        """Count the hashes of a prompt that each pod was sent, up to the first that no pod has."""
        matched: list[int] = self._memory.match(row, holes=True).tolist()
        return matched

    def remember(self, row: int, replica: int, /) -> None:
        """Refresh the hashes of a prompt; what is above the size of the list is forgotten."""
        self._memory.remember(row, replica)
        self._memory.forget(owner=replica, most_blocks=self._lru_blocks)


class _Told:
    """The precise producer: an index of KV events, in full blocks of the engine."""

    def __init__(self, view: RouterView, caches: Known) -> None:
        """Start with what the caches hold."""
        self.block_tokens = view.block_size
        self.match, self.remember = caches.match, caches.remember
        self._tokens = view.tokens()

    def total(self, row: int) -> int:
        """Return the full blocks of a prompt, 1 at least."""
        return max(1, self._tokens[row] // self.block_tokens)


class LlmDPrefixRouter:
    """The default profile of the llm-d endpoint picker: prefix 3, queue 2, cache use 2.

    Prefix score: ``(1 - w) * matched / total + w * min(1, matched tokens / 8192)²``. Approximate: over hashed blocks of at
    least 64 tokens, the partial last one counted in the total; it can only match a prompt that is equal to its end, which
    keys of full blocks do not prove, so it never does here. A pod counts every hash it was sent up to the first that no pod
    was sent; an LRU for each pod, refreshed when a prompt is sent. Precise: over the full blocks of the engine; a pod counts
    those at the head of the prompt that its cache holds. Queue score: ``(max - queue) / (max - min)``, 1 if
    all are equal; the requests in flight stand for the queue, for a log does not say how many of them wait. KV score: 1 -
    distinct blocks in flight / capacity, 1 where that is unlimited. The highest sum wins, ties are drawn.
    """

    def __init__(self, view: RouterView, options: LlmDPrefix) -> None:
        """Start with nothing in flight.

        Args:
            view: What the router sees; without ``caches`` it goes by what it sent.
            options: Weights and sizes.
        """
        replicas = len(view.names)
        self._options = options
        self._known = _Sent(view, options) if view.caches is None else _Told(view, view.caches)
        self._capacity = view.capacity_blocks
        self._draws = view.draws()
        self._members: Sequence[int] = ()
        whole = router_blocks(view.parent, view.last_block, view.block_size, view.block_size)
        self._active = ActiveBlocks(whole, replicas)
        watchers = () if self._capacity is None else (self._active,)
        self.load = Load(view, replicas, *watchers)

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        matched = self._known.match(row, now_us)
        scores = self.scores(row, matched)
        high = max(scores)
        best = [member for member, score in zip(self._members, scores, strict=True) if score == high]
        chosen = drawn(best, self._draws, row)
        self._known.remember(row, chosen)
        if len(best) > 1:
            return chosen, TIE
        longest = max(matched[member] for member in self._members)
        if longest == 0:
            return chosen, LEAST_LOADED
        return chosen, AFFINITY if matched[chosen] == longest else OVERLOAD

    def scores(self, row: int, matched: Sequence[int]) -> list[float]:
        """Return the weighted sum of each member, in their order.

        Args:
            row: The lookup.
            matched: Blocks of its prompt that each replica holds, or is believed to.
        """
        options, requests, members = self._options, self.load.requests, self._members
        total, block_tokens = self._known.total(row), self._known.block_tokens
        low, high = min(requests[m] for m in members), max(requests[m] for m in members)
        found = []
        for member in members:
            share = matched[member] / total
            length = min(1.0, matched[member] * block_tokens / LONG_MATCH_TOKENS) ** 2
            prefix = (1 - options.match_length_weight) * share + options.match_length_weight * length
            queue = (high - requests[member]) / (high - low) if high > low else 1.0
            used = self._active.total[member] / self._capacity if self._capacity else 0.0
            free = max(0.0, 1.0 - used)
            found.append(
                options.prefix_weight * prefix + options.queue_weight * queue + options.kv_weight * free
            )
        return found
