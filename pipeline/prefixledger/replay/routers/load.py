"""The load that a router sees: what it has sent to each replica and what has not ended yet."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prefixledger.replay.routers.base import RouterView
    from prefixledger.replay.routers.memory import RouterBlocks

_FIRST_TOKEN, _END = range(2)


class Watcher(Protocol):
    """Is told of what happens to requests that were sent."""

    def sent(self, row: int, replica: int) -> None:
        """A request was sent."""

    def first_token(self, row: int, replica: int) -> None:
        """Its prefill is over."""

    def ended(self, row: int, replica: int) -> None:
        """It has left."""


class Load:
    """Requests in flight from arrival to end, by replica; at equal times an end comes before an arrival.

    Attributes:
        requests: Requests in flight on each replica.
        tokens: Their prompt tokens.
        total: Requests in flight on all.
    """

    def __init__(
        self, view: RouterView, replicas: int, *watchers: Watcher, first_tokens: bool = False
    ) -> None:
        """Start with nothing in flight.

        Args:
            view: Times and lengths; ``end_us`` must be known.
            replicas: Number of replicas.
            watchers: Who wants to be told.
            first_tokens: Whether they are told of first tokens too.
        """
        assert view.end_us is not None
        self._end: list[int] = view.end_us.tolist()
        self._first: list[int] = []
        if first_tokens:
            assert view.first_token_us is not None
            self._first = view.first_token_us.tolist()
        self._tokens = view.tokens()
        self._heap: list[tuple[int, int, int, int]] = []
        self._watchers = watchers
        self.requests = [0] * replicas
        self.tokens = [0] * replicas
        self.total = 0

    def advance(self, now_us: int) -> None:
        """Let everything happen that happens up to a moment."""
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            _, row, what, replica = heappop(heap)
            if what == _FIRST_TOKEN:
                for watcher in self._watchers:
                    watcher.first_token(row, replica)
                continue
            self.requests[replica] -= 1
            self.tokens[replica] -= self._tokens[row]
            self.total -= 1
            for watcher in self._watchers:
                watcher.ended(row, replica)

    def send(self, row: int, replica: int) -> None:
        """Put a request in flight."""
        self.requests[replica] += 1
        self.tokens[replica] += self._tokens[row]
        self.total += 1
        for watcher in self._watchers:
            watcher.sent(row, replica)
        if self._first:
            heappush(self._heap, (self._first[row], row, _FIRST_TOKEN, replica))
        heappush(self._heap, (self._end[row], row, _END, replica))


class ActiveBlocks:
    """Distinct blocks of the requests in flight on each replica: what they pin, each counted once.

    Attributes:
        total: Blocks on each replica.
    """

    def __init__(self, known: RouterBlocks, replicas: int) -> None:
        """Start with nothing in flight."""
        offset: list[int] = known.paths.offset.tolist()
        chain: list[int] = known.paths.chain.tolist()
        length: list[int] = known.chains.chain_length.tolist()
        above: list[int] = known.chains.chain_depth.tolist()
        self._offset, self._chain, self._length, self._above = offset, chain, length, above
        self._blocks: list[int] = known.blocks.tolist()
        # For each replica and chain: how many requests in flight stop at which depth within it.
        self._active: list[dict[int, dict[int, int]]] = [{} for _ in range(replicas)]
        self._in_flight: dict[int, list[tuple[int, int, int]]] = {}
        self.total = [0] * replicas

    def pieces(self, row: int) -> list[tuple[int, int, int]]:
        """Return the chains of a request with its blocks in each, and from each on."""
        blocks, length, above = self._blocks[row], self._length, self._above
        return [
            (chain, min(length[chain], blocks - above[chain]), blocks - above[chain])
            for chain in self._chain[self._offset[row] : self._offset[row + 1]]
        ]

    def added(self, pieces: list[tuple[int, int, int]], replica: int) -> int:
        """Return how many blocks a request would add on a replica."""
        active, more = self._active[replica], 0
        for chain, blocks, rest in pieces:
            depths = active.get(chain)
            if depths is None:  # whoever stands on a chain stands on all above it
                return more + rest
            if blocks not in depths:
                more += max(0, blocks - max(depths))
        return more

    def sent(self, row: int, replica: int) -> None:
        """Take in a request."""
        active = self._active[replica]
        pieces = self._in_flight[row] = self.pieces(row)
        self.total[replica] += self.added(pieces, replica)
        for chain, blocks, _ in pieces:
            depths = active.setdefault(chain, {})
            depths[blocks] = depths.get(blocks, 0) + 1

    def first_token(self, row: int, replica: int) -> None:
        """Nothing changes."""

    def ended(self, row: int, replica: int) -> None:
        """Let a request go."""
        active = self._active[replica]
        pieces = self._in_flight.pop(row)
        for chain, blocks, _ in pieces:
            depths = active[chain]
            depths[blocks] -= 1
            if not depths[blocks]:
                del depths[blocks]
                if not depths:
                    del active[chain]
        self.total[replica] -= self.added(pieces, replica)
