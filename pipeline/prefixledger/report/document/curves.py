"""The curves in ``report.json``."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from prefixledger.report.document.scalars import Amount, Count, Moment, Positive, Share, one_of


class CapacityPoint(TypedDict):
    """Hits at one capacity."""

    pool: str
    capacity_blocks: Count
    """Per replica."""
    hit_tokens: Count
    token_hit_rate: Share | None
    clairvoyant_hit_tokens: Count | None
    """What no order of eviction could exceed; null where it was not computed."""
    missed_tokens: NotRequired[Count]
    evicted_tokens: NotRequired[Count]
    """Of these what memory without a limit would hit."""
    multiplier: NotRequired[float | None]


class SurfacePoint(TypedDict):
    """Hits and cost under one capacity and one time to live."""

    pool: str
    ttl_s: Amount | None
    """Null: blocks live until memory is needed."""
    capacity_blocks: Count
    """Per replica."""
    hit_tokens: Count
    token_hit_rate: Share | None
    multiplier: float | None


class TtlPoint(TypedDict):
    """Hits and cost at one time to live."""

    pool: str
    ttl_s: Amount
    hit_tokens: Count
    token_hit_rate: Share | None
    multiplier: float | None
    missed_tokens: NotRequired[Count]
    expired_tokens: NotRequired[Count]
    """Of these what would hit if nothing ever expired."""


class Today(TypedDict):
    """Today's settings of one pool."""

    pool: str
    prompt_tokens: Count
    block_size: Count
    capacity_blocks: Count | None
    ttl_s: float | None


class Age(TypedDict):
    """Tokens by the time since their blocks were used last, in the window."""

    pool: str
    from_s: Count
    upto_s: int | None
    hit_tokens: Count
    evicted_tokens: Count
    missed_tokens: Count
    """Evicted at that age and missed later."""


class Held(TypedDict):
    """Distinct blocks that running requests held on one replica in one slice of the window."""

    pool: str
    replica: str
    at: Moment
    length_s: Annotated[float, Field(gt=0)]
    capacity_blocks: int | None
    """Usable blocks of the replica; null without a limit."""
    peak_held_blocks: Positive
    """At the busiest moment."""
    mean_held_blocks: Amount
    """On average over the slice."""


class ModelPoint(TypedDict):
    """Hits that a formula promises at one place of its axis."""

    at: float
    hit_tokens: float


class Model(TypedDict):
    """A formula beside a replayed curve, with its errors in points of the hit rate."""

    pool: str
    model: Annotated[
        str, one_of("poisson", "exponential", "gamma", "weibull", "lognormal", "hyperexponential", "che")
    ]
    axis: Annotated[str, one_of("ttl", "capacity")]
    mean_error_pp: float
    worst_error_pp: float
    """Above 0: it promises too much."""
    worst_at: float
    """Seconds, or blocks per replica."""
    good_enough: bool
    ks_statistic: float | None
    p_value: float | None
    """Too kind: the parameters come from the same times."""
    parameters: dict[str, float]
    points: list[ModelPoint]


class PartPoint(TypedDict):
    """One point of the curve of a replica, of prompts that begin alike, or of the pool as one cache without resets."""

    pool: str
    kind: Annotated[str, one_of("replica", "prefix", "pooled")]
    name: str
    """Of the replica, or hex key of the block that prompts share down to."""
    axis: Annotated[str, one_of("capacity", "ttl")]
    at: Amount
    """Blocks, or seconds."""
    prompt_tokens: Count
    hit_tokens: Count
    token_hit_rate: Share | None


class Bound(TypedDict):
    """What eviction takes today: evicted_tokens = better_policy_tokens + needs_memory_tokens."""

    pool: str
    capacity_blocks: Count
    hit_tokens: Count
    clairvoyant_hit_tokens: Count
    unlimited_hit_tokens: Count
    evicted_tokens: Count
    better_policy_tokens: Count
    needs_memory_tokens: Count


class Mark(TypedDict):
    """A capacity in every unit, and its hits."""

    pool: str
    capacity_blocks: Count
    capacity_tokens: Count
    gib: Annotated[Amount | None, Field(description="Per replica, where the model's shape is known.")]
    replicas: Annotated[
        Count | None,
        Field(description="Replicas of today's size with as much memory; null without a capacity."),
    ]
    hit_tokens: Count
    token_hit_rate: Share | None


class Target(Mark):
    """The smallest capacity that hits a share of what no limit would hit."""

    share: Share


class Curves(TypedDict):
    """The points of all curves, and today's settings."""

    capacity: list[CapacityPoint]
    surface: NotRequired[list[SurfacePoint]]
    """Capacity and time to live together, where a pool's memory is ours to size."""
    ttl: list[TtlPoint]
    today: list[Today]
    ages: list[Age]
    held: list[Held]
    """The 24 replicas with the busiest moments; the rest of the capacity is free or can be reused; empty where it is not known."""
    models: list[Model]
    parts: list[PartPoint]
    bound: list[Bound]
    """At today's capacity, over the whole log and one request at a time."""
    knee: list[Mark]
    """Smallest capacity with 95 % of the hits that no limit would give; beyond it memory buys little."""
    targets: list[Target]
