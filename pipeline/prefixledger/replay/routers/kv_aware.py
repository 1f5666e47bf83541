"""NVIDIA Dynamo's KV router in approximate mode: least cost of what is left to prefill and of what is being decoded."""

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

    from numpy.typing import NDArray

    from prefixledger.config.routers import KvAware
    from prefixledger.replay.routers.base import RouterView

_WORDS = float(1 << 64)


class KvAwareRouter:
    """The cost function of Dynamo's KV router (`lib/kv-router`, selector), per replica and in blocks; the lowest wins, ties are drawn.

    ``prefill_load_scale * max(0, raw_prefill - credit) + decode + decode_active_request_weight * active_requests``, where
    ``raw_prefill`` = (tokens of prefills under way there + prompt tokens) / block size, ``credit`` = overlap_score_credit *
    decay * blocks that it was sent within the TTL, ``decode`` = distinct blocks in flight there, this request included. A
    prefill under way counts without the tokens it was expected to hit. Tiers below the GPU are not known to this mode.
    """

    def __init__(self, view: RouterView, options: KvAware) -> None:
        """Start with an empty tree.

        Args:
            view: What the router sees.
            options: Weights, TTL and size of the tree.
        """
        replicas = len(view.names)
        known = router_blocks(view.parent, view.last_block, view.block_size, view.block_size)
        self._options = options
        self._block_size = view.block_size
        self._tokens = view.tokens()
        self._started = view.started_us
        self._ttl_us = parse_duration_us(options.ttl)
        self._memory = PrefixMemory(known, replicas, ageing="together")
        self._active = ActiveBlocks(known, replicas)
        self._prefill = [0] * replicas
        self._prefill_of: dict[int, int] = {}
        self._draws = view.all_hashes()
        self._members: Sequence[int] = ()
        self._next_us: NDArray[np.int64] = view.started_us
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
        if self._ttl_us is not None:
            first_alive = int(np.searchsorted(self._started, now_us - self._ttl_us, side="right"))
            self._memory.forget(before_row=first_alive)
        matched: list[int] = self._memory.match(row).tolist()
        costs = self.costs(row, matched)
        chosen, why = self._pick(costs, matched, self._draws[row])
        credit = self._options.overlap_score_credit * matched[chosen] * self._block_size
        self._prefill_of[row] = max(0, self._tokens[row] - int(credit))
        self._memory.remember(row, chosen)
        if self._memory.held(0) > self._options.max_tree_blocks:
            kept = int(self._options.max_tree_blocks * self._options.prune_target)
            self._memory.forget(most_blocks=kept)
        return chosen, why

    def costs(self, row: int, matched: Sequence[int]) -> list[float]:
        """Return the cost of each member, in their order.

        Args:
            row: The lookup.
            matched: Blocks that each replica is believed to hold.
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

    def _pick(self, costs: list[float], matched: Sequence[int], draw: int) -> tuple[int, int]:
        members, temperature = self._members, self._options.temperature
        low, high = min(costs), max(costs)
        if temperature > 0 and high > low:
            weights = [exp(-(cost - low) / ((high - low) * temperature)) for cost in costs]
            point = draw / _WORDS * sum(weights)
            for member, weight in zip(members, weights, strict=True):
                point -= weight
                if point < 0:
                    return member, RANDOM
            return members[-1], RANDOM
        best = [member for member, cost in zip(members, costs, strict=True) if cost == low]
        chosen = drawn(best, draw)
        deepest = max(matched[member] for member in members)
        if len(best) > 1:
            return chosen, TIE
        if deepest == 0:
            return chosen, LEAST_LOADED
        return chosen, AFFINITY if matched[chosen] == deepest else OVERLOAD
