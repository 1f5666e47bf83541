"""What other sizes and times to live would have given, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.held_parts import HeldReplica, HeldSlice, by_replica

if TYPE_CHECKING:
    from prefixledger.report.rate_lines import RateLine

GOOD_ENOUGH_PP = 2.0
"""A formula that is never farther from the replay, in points of the hit rate, is called good enough."""

KNEE = 0.95
"""Share of the hits without a limit beyond which memory buys little."""


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """Hits of a cache of one size.

    Attributes:
        capacity_blocks: Usable blocks per replica.
        hit_tokens: What the cache hits.
        clairvoyant_tokens: What no policy of eviction could exceed; None where it was not computed.
        multiplier: Price of its input over no caching; None where the pool pays several prices.
    """

    capacity_blocks: int
    hit_tokens: int
    clairvoyant_tokens: int | None = None
    multiplier: float | None = None


@dataclass(frozen=True, slots=True)
class SurfacePoint:
    """Hits, and the price, under one capacity and one time to live.

    Attributes:
        ttl_s: None: blocks live until memory is needed.
        capacity_blocks: Usable blocks per replica.
        hit_tokens: What the cache hits.
        multiplier: See ``CapacityPoint``.
    """

    ttl_s: float | None
    capacity_blocks: int
    hit_tokens: int
    multiplier: float | None = None


@dataclass(frozen=True, slots=True)
class CapacityMark:
    """The smallest capacity that hits a share of what no limit would hit.

    Attributes:
        share: 0 to 1.
        capacity_blocks: Usable blocks per replica.
        hit_tokens: What it hits.
    """

    share: float
    capacity_blocks: int
    hit_tokens: int


@dataclass(frozen=True, slots=True)
class TtlPoint:
    """Hits, and the price, under one time to live."""

    ttl_s: float
    hit_tokens: int
    multiplier: float | None = None


@dataclass(frozen=True, slots=True)
class AgeRange:
    """Tokens by the time since their blocks were used last.

    Attributes:
        from_s: Least age, inclusive.
        upto_s: Greatest, exclusive; None: open.
        hit_tokens: Hits at that age.
        evicted_tokens: Tokens that eviction took at that age.
        missed_tokens: Of what it took at that age, tokens that were asked for again and missed.
    """

    from_s: int
    upto_s: int | None
    hit_tokens: int
    evicted_tokens: int
    missed_tokens: int


@dataclass(frozen=True, slots=True)
class Model:
    """A formula beside a replayed curve.

    Attributes:
        model: poisson, exponential, gamma, weibull, lognormal, hyperexponential or che.
        axis: ttl (seconds) or capacity (blocks per replica).
        mean_error_pp: Mean distance from the replay, points of the hit rate, over points even on a log scale.
        worst_error_pp: The largest error; above 0: it promises too much.
        worst_at: Where that is.
        points: (place, hit tokens) that it gives.
        parameters: Of a fitted distribution.
        statistic: Distance of the fit from the times between uses, Kolmogorov and Smirnov's.
        p_value: Of that distance.
    """

    model: str
    axis: str
    mean_error_pp: float
    worst_error_pp: float
    worst_at: float
    points: tuple[tuple[float, float], ...]
    parameters: tuple[tuple[str, float], ...] = ()
    statistic: float | None = None
    p_value: float | None = None

    @property
    def good_enough(self) -> bool:
        """Whether its error is small everywhere."""
        return abs(self.worst_error_pp) <= GOOD_ENOUGH_PP


@dataclass(frozen=True, slots=True)
class PartPoint:
    """A point of the curve of a part of a pool.

    Attributes:
        kind: replica, prefix or pooled.
        name: Name of the replica, or hex key of the block that the prompts share down to.
        prompt_tokens: Of its lookups.
        axis: capacity (blocks) or ttl (seconds).
        at: Where.
        hit_tokens: Of its lookups.
    """

    kind: str
    name: str
    prompt_tokens: int
    axis: str
    at: float
    hit_tokens: int


@dataclass(frozen=True, slots=True)
class Bound:
    """What eviction takes at today's capacity, one request at a time, and how much of it a better policy could keep.

    Attributes:
        hit_tokens: What the cache hits.
        clairvoyant_tokens: What it would hit if the next use of every block were known.
        unlimited_tokens: What it would hit if it never evicted.
    """

    hit_tokens: int
    clairvoyant_tokens: int
    unlimited_tokens: int

    @property
    def evicted_tokens(self) -> int:
        """Hits that capacity takes."""
        return self.unlimited_tokens - self.hit_tokens

    @property
    def better_policy_tokens(self) -> int:
        """The most of them that another order of eviction could keep in the same memory."""
        return self.clairvoyant_tokens - self.hit_tokens

    @property
    def needs_memory_tokens(self) -> int:
        """The rest: no order of eviction keeps them."""
        return self.unlimited_tokens - self.clairvoyant_tokens


@dataclass(frozen=True, slots=True)
class Curves:
    """What other sizes and times to live would have given the lookups of one pool.

    Attributes:
        pool: Name of the pool.
        prompt_tokens: Tokens asked of the lookups on the curves.
        capacity: Points in order of size, exact each; nearly straight in between.
        capacity_today: Usable blocks per replica today; None where no capacity was given.
        block_size: Tokens per block of the pool on the curve.
        kv_bytes_per_block: Size of one block, where the model's shape is known.
        ttl: Points in order of time to live.
        ttl_today_s: Time to live today; None where there is none.
        note: What the curves leave out, e.g. running requests.
        marks: The capacities for shares of all hits, ascending; empty without a curve.
        replicas: Replicas of the pool, each of which has the capacity.
        models: Formulas beside the curves.
        parts: Curves of its replicas, of prompts that begin alike, and of the pool as one cache.
        ages: Ages at hit and at eviction, ascending, within the window of the report.
        rates: Rate cards that the time to live is priced under.
        storable_tokens: Prompt tokens that this pool's cache may store.
        held: What running requests held, by replica and slice of the window; empty where that is not known.
        surface: Capacity and time to live together, a time to live after the other, the longest last.
    """

    pool: str
    prompt_tokens: int
    capacity: tuple[CapacityPoint, ...] = ()
    capacity_today: int | None = None
    block_size: int = 0
    kv_bytes_per_block: int | None = None
    ttl: tuple[TtlPoint, ...] = ()
    ttl_today_s: float | None = None
    note: str | None = None
    marks: tuple[CapacityMark, ...] = ()
    replicas: int = 1
    ages: tuple[AgeRange, ...] = ()
    models: tuple[Model, ...] = ()
    parts: tuple[PartPoint, ...] = ()
    held: tuple[HeldSlice, ...] = ()
    rates: tuple[RateLine, ...] = ()
    storable_tokens: int = 0
    surface: tuple[SurfacePoint, ...] = ()

    def multiplier(self, line: RateLine, point: TtlPoint) -> float:
        """Return the cost multiplier of a time to live under one rate card."""
        return line.multiplier(point.ttl_s, point.hit_tokens, self.storable_tokens, self.prompt_tokens)

    @property
    def bound(self) -> Bound | None:
        """What eviction takes today; None without a capacity, or where the curve does not reach down to it."""
        today = next((p for p in self.capacity if p.capacity_blocks == self.capacity_today), None)
        if today is None or today.clairvoyant_tokens is None:
            return None
        return Bound(today.hit_tokens, today.clairvoyant_tokens, self.capacity[-1].hit_tokens)

    def evicted_tokens(self, hit_tokens: int) -> int:
        """Return the hits that a point of the capacity curve lacks to memory without a limit."""
        return self.capacity[-1].hit_tokens - hit_tokens

    def expired_tokens(self, hit_tokens: int) -> int:
        """Return the hits that a point of the TTL curve lacks to living for ever."""
        return self.ttl[-1].hit_tokens - hit_tokens

    @property
    def cheapest(self) -> SurfacePoint | None:
        """The point of the surface with the lowest price, of equals the one with the least memory, then the shortest life."""
        priced = [point for point in self.surface if point.multiplier is not None]
        return min(
            priced,
            key=lambda p: (
                p.multiplier or 0.0,
                p.capacity_blocks,
                float("inf") if p.ttl_s is None else p.ttl_s,
            ),
            default=None,
        )

    @property
    def knee(self) -> CapacityMark | None:
        """The smallest capacity with 95 % of all hits, beyond which memory buys little; None without a curve."""
        return next((mark for mark in self.marks if mark.share == KNEE), None)

    @property
    def held_by_replica(self) -> tuple[HeldReplica, ...]:
        """What running requests held of each replica, that with the busiest moment first."""
        return by_replica(self.held)

    def kv_bytes(self, capacity_blocks: int) -> int | None:
        """Return the bytes that so many blocks take in one replica; None where the model's shape is not known."""
        return None if self.kv_bytes_per_block is None else capacity_blocks * self.kv_bytes_per_block

    def replicas_of_today(self, capacity_blocks: int) -> int | None:
        """Return how many replicas of today's size have as much memory as today's number with this capacity."""
        if not self.capacity_today:
            return None
        return -(-capacity_blocks * self.replicas // self.capacity_today)
