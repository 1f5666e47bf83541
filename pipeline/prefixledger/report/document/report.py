"""``report.json`` as a whole."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from prefixledger.report.document.advice import Advice, Finding, Recommendation
from prefixledger.report.document.books import (
    Before,
    Breakdown,
    Failure,
    Input,
    Replayed,
    Scenario,
    Timeline,
    Window,
)
from prefixledger.report.document.curves import Curves
from prefixledger.report.document.fleet import (
    Balance,
    Branch,
    Engines,
    Event,
    Prefix,
    Replica,
    ReplicaSlice,
    Routing,
)
from prefixledger.report.document.money import (
    GapRange,
    KeepAlive,
    LengthRange,
    LongerLife,
    Policy,
    Reconciliation,
    SilentWrite,
    Spend,
    TtlChange,
)
from prefixledger.report.document.scalars import Count


class Verdict(TypedDict):
    """The report in one sentence, and what to keep in mind with it."""

    sentence: str
    caveats: list[str]


class Made(TypedDict):
    """What the report was made with."""

    version: str
    seed: Count
    fingerprint: str | None
    scenario: str
    """The first scenario as TOML, every default written out."""


@with_config(ConfigDict(use_attribute_docstrings=True))  # holds for all that is in it
class Report(Replayed):
    """The JSON twin of a report.

    More keys may be added without a new schema_version; these keep name and meaning. Floats have 6 significant
    digits; null is 'not known', never 0.
    """

    schema_version: Literal[1]
    generator: Annotated[str, Field(pattern="^prefixledger ")]
    verdict: Verdict
    inputs: list[Input]
    window: Window
    before: Before | None
    scenarios: Annotated[list[Scenario], Field(min_length=1)]
    timeline: Timeline
    breakdowns: list[Breakdown]
    prefixes: list[Prefix]
    replicas: list[Replica]
    replica_slices: list[ReplicaSlice]
    balance: list[Balance]
    branches: list[Branch]
    curves: Curves
    routing: list[Routing]
    ranking: list[str]
    """The routings compared in words, best hit rate first."""
    engines: Engines | None
    failures: NotRequired[list[Failure]]
    silent_writes: list[SilentWrite]
    gaps: list[GapRange]
    longer_lives: NotRequired[list[LongerLife]]
    ttl_changes: list[TtlChange]
    keep_alive: NotRequired[list[KeepAlive]]
    spend: list[Spend]
    """Money in all, and by what the log says of its requests."""
    reconciliation: Reconciliation | None
    by_length: list[LengthRange]
    policy: Policy | None
    events: list[Event]
    findings: list[Finding]
    recommendations: list[Recommendation]
    advice: Advice
    made: Made
