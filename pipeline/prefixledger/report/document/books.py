"""The account of ``report.json``: inputs, window, totals, misses, both books, and the same over time and by field."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from prefixledger.report.document.money import Cost
from prefixledger.report.document.scalars import (
    Asked,
    Book,
    Count,
    Moment,
    Positive,
    Share,
    SomeTokensByCause,
    TokensByCause,
    one_of,
)

_Window = TypedDict("_Window", {"from": Moment | None, "to": Moment | None})
_Before = TypedDict("_Before", {"from": Moment, "to": Moment})


class Input(TypedDict):
    """The account of one input."""

    path: str
    """Relative to the SOURCE argument."""
    source: Annotated[str, Field(pattern="^[0-9a-f]*$")]
    """Digest of what was read."""
    format: str
    why: str
    """Why it was read as that format."""
    bytes: Count
    records: Count
    """Kept + rejected + duplicates + joined + skipped."""
    kept: Count
    rejected: Count
    duplicates: Count
    joined: Count
    skipped: Count
    reasons: dict[str, Count]
    truncated_at: Count | None
    """Byte of the last whole record of an input that is cut off at its end."""
    identical_lines: Count
    block_size: Count
    notes: list[str]


class Window(_Window):
    """What the report covers."""

    zone: str
    relative: bool
    """Whether the log's clock is: times then begin in 1970."""
    why: str
    warm_up: str
    resumed: list[Moment | None]
    """Where the log goes on after a gap that starts a new warm-up."""


class Before(_Before, Book):
    """The stretch before the window, as long as it is; null where the log does not hold the whole of it."""

    basis: Annotated[str, one_of("all", "simulated", "observed")]
    ideal_hit_rate: float | None
    by_cause: TokensByCause
    multipliers: dict[str, float | None]
    """By currency."""


class Totals(Book):
    """The account of all lookups in the window."""

    failed_requests: Count
    unmeasured_requests: Count
    by_basis: dict[Annotated[str, one_of("simulated", "observed")], Book]
    ideal_hit_tokens: Count | None
    ideal_hit_rate: Share | None
    headline: Annotated[str, one_of("simulated", "observed")]
    """Which book the verdict is about."""


class Misses(TypedDict):
    """Missed tokens, in the simulated book."""

    by_cause: TokensByCause
    by_detail: dict[str, Count]
    """cause:detail, with :here or :elsewhere for evicted, expired and invalidated."""


class Compared(TypedDict):
    """The lookups that have both keys and usage."""

    requests: Positive
    prompt_tokens: Count
    simulated_hit_tokens: Count
    cached_tokens: Count
    ideal_hit_tokens: Count
    simulated_hit_rate: float | None
    observed_hit_rate: float | None
    ideal_hit_rate: float | None
    gap_pp: float
    """Simulated less observed hit rate, percentage points."""
    above_ceiling_tokens: Count
    """Reported hits that nothing in the log can have brought."""


class ObservedHour(TypedDict):
    """One hour of one replica: what the service reports, and what the replay says of the same lookups."""

    replica: str
    pool: Count | None
    at: Moment
    requests: Count
    prompt_tokens: Count
    cached_tokens: Count
    observed_hit_rate: float | None
    compared_prompt_tokens: Count
    compared_cached_tokens: Count
    simulated_hit_tokens: Count
    simulated_hit_rate: float | None
    ideal_hit_tokens: Count
    gap_pp: float | None


class Observed(TypedDict):
    """The book of what the service reports: prompt_tokens = cached_tokens + the causes."""

    prompt_tokens: Count
    cached_tokens: Count
    cache_write_tokens: Count | None
    cache_write_5m_tokens: Count | None
    cache_write_1h_tokens: Count | None
    uncached_tokens: Count
    token_hit_rate: Share | None
    requests_with_usage: Count
    agreement: Annotated[float, Field(le=1)] | None
    simulated_hit_tokens: Count | None
    unexplained_tokens: Count
    unpredicted_hit_tokens: Count
    compared: Compared | None
    by_replica_hour: list[ObservedHour]
    by_cause: TokensByCause


class Rung(TypedDict):
    """One rung of the ladder from the ideal down to what the service reports, and what is lost on it."""

    rung: Annotated[str, one_of("pooled", "per_replica", "resets", "ttl", "capacity", "observed")]
    prompt_tokens: Count
    hit_tokens: Count
    lost_tokens: int


class Seeds(TypedDict):
    """The ends of the hit rate over the seeds of a router that draws."""

    seeds: Annotated[int, Field(ge=2)]
    token_hit_rate_low: Share
    token_hit_rate_high: Share


class Setup(TypedDict):
    """What was replayed, in words."""

    profiles: list[str]
    capacity: str
    ttl: str
    routing: str
    residence: str
    notes: list[str]


class Replayed(TypedDict):
    """What one scenario comes to."""

    totals: Totals
    misses: Misses
    observed: Observed | None
    cost: Cost | None
    """In the first currency; null where nothing has a price."""
    costs: list[Cost]
    """In every currency."""
    ladder: list[Rung]
    seeds: Seeds | None
    running_effect_tokens: int
    """What requests that run and hold blocks take from the hits."""
    prefill_gpu_hours: float | None
    setup: Setup


class Scenario(Replayed):
    """One scenario; the report is about the first, whose values are repeated beside the list."""

    name: str


class Slice(TypedDict):
    """One slice of time."""

    at: Moment | None
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    by_cause: SomeTokensByCause


class Failure(TypedDict):
    """One prompt that failed at least 3 times; its calls are in no rate."""

    model: str | None
    tenant: str | None
    prompt_tokens: Count
    requests: Count
    answered: Count
    """How often the same prompt did not fail."""
    first_at: Moment
    last_at: Moment


class Timeline(TypedDict):
    """The account over time."""

    width_s: Positive
    slices: list[Slice]


class Group(Asked):
    """The account of the lookups with one value of a field."""

    value: str
    by_cause: SomeTokensByCause


class Breakdown(TypedDict):
    """The account by one field of the log."""

    field: str
    left_out: Count
    """Values that are not in the list."""
    values: list[Group]
