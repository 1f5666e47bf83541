"""Numbers, times and accounts that many sections of ``report.json`` have."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from prefixledger.schema import CAUSES


def one_of(*values: str) -> Any:
    """Return what makes a text one of a few; the builders pass texts on that the type checker cannot tell apart."""
    return Field(json_schema_extra={"enum": list(values)})


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[str, Field(pattern=r"^-?\d{4,}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{6})?Z$")]
"""In UTC, to the microsecond where it has one."""
Key = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Cause = Annotated[str, one_of(*CAUSES)]
SomeTokensByCause = dict[Cause, Count]
"""Missed tokens of the causes that took any."""


@with_config(ConfigDict(extra="forbid"))
class TokensByCause(TypedDict):
    """Missed tokens of every cause."""

    uncacheable: Count
    in_flight: Count
    invalidated: Count
    expired: Count
    evicted: Count
    misrouted: Count
    key_changed: Count
    cold: Count
    unexplained: Count


@with_config(ConfigDict(extra="forbid"))
class MoneyByCause(TypedDict):
    """What the missed tokens of every cause cost more than a hit would have."""

    uncacheable: float
    in_flight: float
    invalidated: float
    expired: float
    evicted: float
    misrouted: float
    key_changed: float
    cold: float
    unexplained: float


class Asked(TypedDict):
    """Lookups, their prompts and their hits."""

    requests: Count
    prompt_tokens: Count
    hit_tokens: Count


class Book(Asked):
    """One closing account: prompt_tokens = hit_tokens + missed_tokens."""

    output_tokens: Count
    hit_host_tokens: Annotated[Count, Field(description="Of the hits, those from a lower tier.")]
    missed_tokens: Count
    token_hit_rate: Share | None
    request_hit_rate: Share | None
