"""NVIDIA Dynamo's KV router: least cost of what is left to prefill and of what is being decoded."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.units import parse_duration_us
from prefixledger.replay.routers.base import AFFINITY, LEAST_LOADED, OVERLOAD, RANDOM, TIE, drawn
from prefixledger.replay.routers.load import ActiveBlocks, Load
from prefixledger.replay.routers.memory import PrefixMemory, router_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.routers import KvAware
    from prefixledger.replay.routers.base import Known, RouterView
    from prefixledger.replay.routers.memory import RouterBlocks

_WORDS = float(1 << 64)


class _Sent:
    """Dynamo without KV events: the blocks that each replica was sent within a TTL, all of them in one tree."""

    def __init__(self, view: RouterView, known: RouterBlocks, options: KvAware) -> None:
        """Start with an empty tree."""
        self._memory = PrefixMemory(known, len(view.names), ageing="together")
        self._started = view.started_us
        self._options = options
        self._ttl_us = parse_duration_us(options.ttl)

    def match(self, row: int, now_us: int, /) -> list[int]:
        """Count the blocks of a prompt that each replica was sent."""
        if self._ttl_us is not None:
            first_alive = int(np.searchsorted(self._started, now_us - self._ttl_us, side="right"))
            self._memory.forget(before_row=first_alive)
        matched: list[int] = self._memory.match(row).tolist()
        return matched

    def remember(self, row: int, replica: int, /) -> None:
        """Insert a prompt; above the largest tree what expires next is pruned."""
        self._memory.remember(row, replica)
        if self._memory.held(0) > self._options.max_tree_blocks:
            kept = int(self._options.max_tree_blocks * self._options.prune_target)
            self._memory.forget(most_blocks=kept)


class KvAwareRouter:
    """The cost function of Dynamo's KV router (`lib/kv-router`, selector), per replica and in blocks; the lowest wins, ties are drawn.

    ``prefill_load_scale * max(0, raw_prefill - credit) + decode + decode_active_request_weight * active_requests``, where
    ``raw_prefill`` = (tokens of prefills under way there + prompt tokens) / block size, ``credit`` = overlap_score_credit *
    decay * blocks at the head of the prompt that it holds, ``decode`` = distinct blocks in flight there, this request
    included. A prefill under way counts without the tokens it was expected to hit. With KV events what a replica holds is
    what its cache holds at that moment, prompt and output; without them what it was sent within the TTL. Nobody has a
    tier below the GPU here.
    """

    def __init__(self, view: RouterView, options: KvAware) -> None:
        """Start with nothing in flight.

        Args:
            view: What the router sees; without ``caches`` it goes by what it sent.
            options: Weights, TTL and size of the tree.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, view.block_size)
        self._options = options
        self._block_size = view.block_size
        self._tokens = view.tokens()
        self._known: Known = view.caches or _Sent(view, known, options)
        self._active = ActiveBlocks(known, replicas)
        self._prefill = [0] * replicas
        self._prefill_of: dict[int, int] = {}
        self._draws = view.draws()
        self._members: Sequence[int] = ()
        self.load = Load(view, replicas, self._active, self, first_tokens=True)

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def sent(self, row: int, replica: int) -> None:
        """Count a prefill as under way."""
        self._prefill[replica] += self._prefill_of[row]

    def first_token(self, row: int, replica: int) -> None:
        """Count it no more."""
        self._prefill[replica] -= self._prefill_of.pop(row)

    def ended(self, row: int, replica: int) -> None:
        """Nothing changes."""

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        matched = self._known.match(row, now_us)
        costs = self.costs(row, matched)
        chosen, why = self._pick(costs, matched, row)
        credit = self._options.overlap_score_credit * matched[chosen] * self._block_size
        self._prefill_of[row] = max(0, self._tokens[row] - int(credit))
        self._known.remember(row, chosen)
        return chosen, why

    def costs(self, row: int, matched: Sequence[int]) -> list[float]:
        """Return the cost of each member, in their order.

        Args:
            row: The lookup.
            matched: Blocks at the head of its prompt that each replica holds, or is believed to.
        """
        options, size, members = self._options, self._block_size, self._members
        credit, decay, scale = (
            options.overlap_score_credit,
            options.overlap_credit_decay,
            options.prefill_load_scale,
        )
        weight, prefill, active = options.decode_active_request_weight, self._prefill, self._active
        tokens = self._tokens[row]
        pieces = active.pieces(row)
        idle = min(prefill[member] for member in members) if decay else 0
        found = []
        for member in members:
            worth = credit
            if decay:
                worth /= 1.0 + decay * (prefill[member] - idle) / max(1, tokens)
            left = (prefill[member] + tokens) / size - worth * matched[member]
            decode = active.total[member] + active.added(pieces, member)
            found.append(scale * max(0.0, left) + decode + weight * self.load.requests[member])
        return found

    def _pick(self, costs: list[float], matched: Sequence[int], row: int) -> tuple[int, int]:
        members, temperature = self._members, self._options.temperature
        low, high = min(costs), max(costs)
        if temperature > 0 and high > low:
            weights = [exp(-(cost - low) / ((high - low) * temperature)) for cost in costs]
            point = self._draws[row] / _WORDS * sum(weights)
            for member, weight in zip(members, weights, strict=True):
                point -= weight
                if point < 0:
                    return member, RANDOM
            return members[-1], RANDOM
        best = [member for member, cost in zip(members, costs, strict=True) if cost == low]
        chosen = drawn(best, self._draws, row)
        deepest = max(matched[member] for member in members)
        if len(best) > 1:
            return chosen, TIE
        if deepest == 0:
            return chosen, LEAST_LOADED
        return chosen, AFFINITY if matched[chosen] == deepest else OVERLOAD
