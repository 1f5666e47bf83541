"""Rings of hashed names: consistent hashing with a bound on the load, and sessions."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.units import parse_duration_us
from prefixledger.replay.lookups import stable_hash
from prefixledger.replay.routers.base import FALLBACK, HASH, OVERLOAD, RANDOM, drawn, least
from prefixledger.replay.routers.load import Load
from prefixledger.replay.shared_kernel import head_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.routers import ConsistentHash, Session
    from prefixledger.replay.routers.base import RouterView

_WORDS = 1 << 64


def head_keys(view: RouterView) -> NDArray[np.uint64]:
    """Return uint64[keyed], what is hashed of each lookup with a full block.

    It is the key of the deepest block that ends within the first ``prefix_tokens``, or of the first block. A chained key
    is a strong hash of everything up to its block, so it needs no second hash.
    """
    head = head_block(view.parent, max(1, view.prefix_tokens // view.block_size))
    keys: NDArray[np.uint64] = view.key[head[view.last_block[view.last_block >= 0]], 1]
    return keys


def prefix_keys(view: RouterView) -> list[int | None]:
    """Return the key of the head of each prompt, None below one block."""
    keys: list[int | None] = [None] * view.last_block.size
    keyed = np.flatnonzero(view.last_block >= 0)
    for row, key in zip(keyed.tolist(), head_keys(view).tolist(), strict=True):
        keys[row] = key
    return keys


def session_keys(view: RouterView) -> list[int | None]:
    """Return the hash of the session id of each lookup, None for one without."""
    assert view.session is not None
    assert view.has_session is not None
    pairs = zip(view.session.tolist(), view.has_session.tolist(), strict=True)
    return [key if known else None for key, known in pairs]


class Ring:
    """Points of replicas on a circle of 64 bits; the hashes are ours, for the real ones hash addresses no log has."""

    def __init__(self, names: Sequence[str], vnodes: int) -> None:
        """Place every replica.

        Args:
            names: Names of all replicas that ever live.
            vnodes: Points of each.
        """
        self._of_name = [[stable_hash(f"{name}#{n}".encode(), 0) for n in range(vnodes)] for name in names]
        self._points: list[int] = []
        self._owners: list[int] = []

    def join(self, members: Sequence[int], vnodes: int | None = None) -> None:
        """Take only these replicas, with their first ``vnodes`` points."""
        placed = sorted((point, member) for member in members for point in self._of_name[member][:vnodes])
        self._points = [point for point, _ in placed]
        self._owners = [member for _, member in placed]

    def start(self, key: int, *, nearest: bool = False) -> int:
        """Return the place on the ring at which a key begins: the next point, or the nearer of its neighbours."""
        place = bisect_left(self._points, key)
        count = len(self._points)
        if nearest:
            after, before = self._points[place % count], self._points[place - 1]
            if (key - before) % _WORDS <= (after - key) % _WORDS:
                place -= 1
        return place % count

    def walk(self, place: int) -> Iterator[int]:
        """Give the replicas clockwise from a place, each once."""
        seen: set[int] = set()
        owners = self._owners
        for step in range(len(owners)):
            owner = owners[(place + step) % len(owners)]
            if owner not in seen:
                seen.add(owner)
                yield owner


class ConsistentHashRouter:
    """Consistent hashing with a bounded load in the forms that load balancers ship."""

    def __init__(self, view: RouterView, options: ConsistentHash) -> None:
        """Start with an empty ring.

        Args:
            view: What the router sees.
            options: The form.
        """
        self._options = options
        self._keys = session_keys(view) if options.key == "session" else prefix_keys(view)
        self._draws = view.draws()
        self._ring = Ring(view.names, options.ring_size or options.vnodes)
        self._members: Sequence[int] = ()
        self.load = Load(view, len(view.names)) if options.bounded else None

    def join(self, members: Sequence[int]) -> None:
        """Build the ring of those who may be chosen."""
        self._members = members
        size = self._options.ring_size
        self._ring.join(members, ceil(size / len(members)) if size else None)

    def choose(self, row: int, _now_us: int, /) -> tuple[int, int]:
        """Send a lookup to the owner of its key, or past it where the owner has too much to do."""
        key = self._keys[row]
        if key is None:
            return drawn(self._members, self._draws, row), RANDOM
        place = self._ring.start(key, nearest=self._options.start == "nearest")
        walk = self._ring.walk(place)
        owner = next(walk)
        if self.load is None or self.fits(owner):
            return owner, HASH
        others = self._overflow(key, owner, walk)
        for other in others:
            if self.fits(other):
                return other, OVERLOAD
        return self._exhausted(owner), FALLBACK

    def fits(self, replica: int) -> bool:
        """Tell whether a replica may take one more request."""
        assert self.load is not None
        options, own, total, n = (
            self._options,
            self.load.requests[replica],
            self.load.total,
            len(self._members),
        )
        if options.bound == "share":  # SGLang bounded_consistent_hashing
            return own * n <= options.factor * total
        if options.bound == "share-plus-one":  # SGLang prefix_hash, KubeAI
            return own * n <= options.factor * (total + 1)
        if options.bound == "ceiling":  # arXiv 1608.01350
            return own < _up(options.factor * (total + 1) / n)
        slots = _up(options.factor * (total + 1))
        if options.bound == "slots":  # HAProxy: whole slots, the rest to every so many-th replica
            place = self._members.index(replica)
            return own < max(1, (place + 1) * slots // n - place * slots // n)
        return own <= max(1, ceil(slots / n))  # Envoy

    def _overflow(self, key: int, owner: int, walk: Iterator[int]) -> Iterator[int]:
        assert self.load is not None
        others = [member for member in self._members if member != owner]
        if self._options.overflow == "clockwise":
            return walk
        if self._options.overflow == "permutation":  # Envoy: shuffled by the key
            return iter(sorted(others, key=lambda member: stable_hash(b"%d" % member, key)))
        requests = self.load.requests
        return iter(sorted(others, key=lambda member: requests[member]))

    def _exhausted(self, owner: int) -> int:
        assert self.load is not None
        if (
            self._options.exhausted == "owner"
        ):  # KubeAI: the first on the walk that can serve, so the owner too
            return owner
        return least(self._members, self.load.requests)[0]


def _up(value: float) -> int:
    # 1.1 * 10 is 11.000000000000002, and no load balancer that counts in per cent takes it for 12.
    return ceil(round(value, 6))


class SessionRouter:
    """vLLM production-stack ``session``: the ring owner of the session id, else whoever got fewest requests lately."""

    load = None

    def __init__(self, view: RouterView, options: Session) -> None:
        """Start with an empty ring.

        Args:
            view: What the router sees.
            options: Points and window.
        """
        self._keys = session_keys(view)
        self._ring = Ring(view.names, options.vnodes)
        self._rates = Rates(len(view.names), options.window)
        self._members: Sequence[int] = ()

    def join(self, members: Sequence[int]) -> None:
        """Build the ring of those who may be chosen."""
        self._members = members
        self._ring.join(members)

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send a lookup to the owner of its session."""
        key = self._keys[row]
        if key is None:
            chosen, why = self._rates.lowest(self._members, now_us), FALLBACK
        else:
            chosen, why = next(self._ring.walk(self._ring.start(key))), HASH
        self._rates.sent(chosen, now_us)
        return chosen, why


class Rates:
    """Requests that each replica was sent within a sliding window (production-stack: QPS over 60 s)."""

    def __init__(self, replicas: int, window: str) -> None:
        """Start with nothing sent.

        Args:
            replicas: Number of replicas.
            window: A duration.
        """
        self._window_us = parse_duration_us(window) or 0
        self._sent: deque[tuple[int, int]] = deque()
        self._count = [0] * replicas
        self._ever = [False] * replicas

    def sent(self, replica: int, now_us: int) -> None:
        """Count one request."""
        self._sent.append((now_us, replica))
        self._count[replica] += 1
        self._ever[replica] = True

    def lowest(self, members: Sequence[int], now_us: int) -> int:
        """Return the first replica that was never sent anything, else the first of the lowest rate."""
        while self._sent and self._sent[0][0] <= now_us - self._window_us:
            _, replica = self._sent.popleft()
            self._count[replica] -= 1
        for member in members:
            if not self._ever[member]:
                return member
        return least(members, self._count)[0]
