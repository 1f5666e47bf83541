"""The parts of a report that say how routers spread the load, by which of their rules, and what it gains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prefixledger.attribute.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the load of a pool is spread over its replicas.

    Attributes:
        pool: Number of the pool.
        replicas: Replicas that lived in the window, asked or not.
        requests: Lookups of all.
        prefill_tokens: Tokens that they had to compute.
        imbalance_requests: Lookups of the busiest over the mean; None without lookups.
        imbalance_prefill: The same by prefill tokens; None without any.
        peak_in_flight: Most requests in flight on one replica; None where one at a time is replayed.
        waited_us: Time that lookups waited to be admitted, added up.
    """

    pool: int
    replicas: int
    requests: int
    prefill_tokens: int
    imbalance_requests: float | None
    imbalance_prefill: float | None
    peak_in_flight: int | None
    waited_us: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One rule of a router, and the lookups that it placed.

    Attributes:
        pool: Number of the pool.
        branch: Name of the rule.
        requests: Lookups.
        prompt_tokens: Their tokens.
        hit_tokens: Tokens found where they were sent.
        misrouted_tokens: Tokens that another live replica held.
    """

    pool: int
    branch: str
    requests: int
    prompt_tokens: int
    hit_tokens: int
    misrouted_tokens: int


@dataclass(frozen=True, slots=True)
class RoutingOption:
    """One way to route the same lookups; load stands beside the hit rate.

    Attributes:
        routing: Name of the policy.
        lookups: Lookups it completed.
        prompt_tokens: Tokens asked.
        hit_tokens: Tokens found.
        largest_share: Share of the requests that the busiest replica gets.
        replicas: Number of replicas.
        scenario: Name of the scenario; empty where there is but one.
        pool: Name of the pool.
        misses: Missed tokens by cause.
        busiest_prefill_tokens: Tokens that the replica with most of them had to compute.
        imbalance_requests: Requests of the busiest replica over the mean of all; None without any.
        imbalance_prefill: The same by tokens that had to be computed; None without any.
        peak_in_flight: Most requests in flight on one replica; None where one at a time is replayed.
        waited_us: Time that lookups waited for memory, added up.
        seeds: Seeds that it was replayed under, 1 where nothing is drawn.
        rate_low: Least hit rate of these; None where nothing is drawn.
        rate_high: Greatest; the same.
    """

    routing: str
    lookups: int
    prompt_tokens: int
    hit_tokens: int
    largest_share: float
    replicas: int
    scenario: str = ""
    pool: str = ""
    misses: Mapping[str, int] = field(default_factory=dict)
    busiest_prefill_tokens: int = 0
    imbalance_requests: float | None = None
    imbalance_prefill: float | None = None
    peak_in_flight: int | None = None
    waited_us: int = 0
    seeds: int = 1
    rate_low: float | None = None
    rate_high: float | None = None

    @property
    def spread(self) -> Spread | None:
        """How far the hit rate moves from seed to seed; None where nothing is drawn."""
        if self.seeds == 1 or self.rate_low is None or self.rate_high is None:
            return None
        return Spread(self.seeds, self.rate_low, self.rate_high)
