"""The parts of a report that say how a router spread the load, and by which of its rules."""

from __future__ import annotations

from dataclasses import dataclass


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
