"""Prefixes, replicas, routings, engines and events in ``report.json``."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from prefixledger.report.document.scalars import (
    Amount,
    Asked,
    Count,
    Key,
    Moment,
    Positive,
    Share,
    SomeTokensByCause,
)


class Prefix(TypedDict):
    """One shared prefix; what is ``below`` it is never to be added over rows."""

    key: Key | None
    parent_key: Key | None
    level: Count
    name: str
    depth_tokens: Count
    requests: Count
    requests_per_hour: float | None
    replicas: Count
    prompt_tokens: Count
    hit_tokens: Count
    token_hit_rate: Share | None
    below_prompt_tokens: Count
    """With everything below; never to be added over rows."""
    below_hit_tokens: Count
    multiplier: float | None
    currency: str | None
    uncached_cost: float | None
    actual_cost: float | None
    saved_cost: float | None
    written_tokens: NotRequired[Count]
    unread_tokens: NotRequired[Count]
    """Written, and read by nobody to the end of the log."""
    wasted_cost: NotRequired[float | None]
    """What writing the unread cost above uncached input."""
    borne_cost: NotRequired[float | None]
    """What the lookups that share nothing longer pay on their whole way; the rows sum to the input of the bill, rent apart."""
    excess_cost: float | None
    below_excess_cost: float | None
    by_cause: SomeTokensByCause


class Replica(Asked):
    """Load and hits of one replica."""

    replica: str
    share: Share | None
    """Of all lookups."""
    prefill_tokens: Count
    token_hit_rate: Share | None
    peak_in_flight: Count | None
    waited_s: Amount
    longest_wait_s: Amount
    by_cause: SomeTokensByCause


class ReplicaSlice(Asked):
    """One replica in one slice of time, the 24 busiest replicas; a slice without lookups is absent."""

    replica: str
    pool: int | None
    at: Moment


class Balance(TypedDict):
    """How even the load of a pool is: the busiest replica over the mean."""

    pool: Count
    replicas: Positive
    requests: Count
    prefill_tokens: Count
    imbalance_requests: Amount | None
    imbalance_prefill: Amount | None
    peak_in_flight: Count | None
    waited_s: Amount


class Branch(Asked):
    """A rule by which routers placed lookups."""

    pool: Count
    branch: str
    misrouted_tokens: Count


class Routing(Asked):
    """The same lookups under another routing."""

    routing: str
    replicas: Count
    token_hit_rate: Share | None
    largest_share: Share | None
    """Of the lookups, on the busiest replica."""
    scenario: str
    pool: str
    seeds: Positive
    """Seeds that it was replayed under; 1 where the router never draws."""
    token_hit_rate_low: Share | None
    token_hit_rate_high: Share | None
    busiest_prefill_tokens: Count
    imbalance_requests: float | None
    """The busiest replica over the mean."""
    imbalance_prefill: float | None
    melts_a_replica: bool
    """Its busiest replica has 1.5 times the mean or more, and another routing of the pool spreads the load better."""
    peak_in_flight: int | None
    waited_s: float | None
    by_cause: SomeTokensByCause


class EngineHour(TypedDict):
    """One hour of one replica: what the engine counted, what its KV events say, and what the replay says."""

    replica: str
    pool: Count | None
    at: Moment
    counted_query_tokens: Count | None
    counted_hit_tokens: Count | None
    counted_preemptions: Count | None
    stored_blocks: Count | None
    removed_blocks: Count | None
    resident_blocks: Count | None
    event_lookups: Count | None
    event_cap_blocks: Count | None
    event_simulated_blocks: Count | None
    event_resident_blocks: Count | None
    event_agreement: float | None
    prompt_tokens: Count | None
    simulated_hit_tokens: Count | None
    ideal_hit_tokens: Count | None


class Engines(TypedDict):
    """What engines said of their caches: counters and KV events."""

    counted_query_tokens: Count
    counted_hit_tokens: Count
    counted_hit_rate: float | None
    simulated_hit_rate: float | None
    ideal_hit_rate: float | None
    event_agreement: float | None
    by_replica_hour: list[EngineHour]


class Event(TypedDict):
    """A reset, and what followed."""

    event_id: str
    at: Moment | None
    kind: str
    replicas: list[str]
    note: str | None
    lost_tokens: Count
    rate_before: Share | None
    rate_after: Share | None
    recovery_s: float | None
