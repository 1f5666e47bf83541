"""A report as pure data: everything that the page, its JSON twin and the tables are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prefixledger.advice.parts import Advice
from prefixledger.report.books import rate
from prefixledger.report.parts import Prefixes, Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.attribute.reconcile import Reconciliation
    from prefixledger.attribute.spread import Spread
    from prefixledger.report.books import Book, Detail, Engines, Observed, SilentWrites
    from prefixledger.report.curve_parts import Curves
    from prefixledger.report.failures import Failure
    from prefixledger.report.keep_alive import KeepAlive
    from prefixledger.report.key_changes import KeyChange
    from prefixledger.report.length_parts import LengthRange
    from prefixledger.report.lifetime_parts import GapRange, TtlChange
    from prefixledger.report.load_parts import Balance, Branch, RoutingOption
    from prefixledger.report.longer_lives import LongerLife
    from prefixledger.report.money import Spend
    from prefixledger.report.parts import (
        Breakdown,
        Cost,
        Event,
        Finding,
        Replica,
        ReplicaSlice,
        Rung,
        Source,
    )
    from prefixledger.report.policy_parts import Policy
    from prefixledger.report.reject_parts import RejectReason

NO_TIME = Timeline(3600, ())
NO_PREFIXES = Prefixes(())
NO_ADVICE = Advice()
OBSERVED_HEADLINE_SHARE = 0.95
"""Share of prompt tokens with usage from which the observed rate is the headline."""


@dataclass(frozen=True, slots=True)
class Window:
    """What the report covers.

    Attributes:
        from_us: First moment, UTC microseconds; None in an empty log.
        to_us: First moment after it.
        zone: IANA name of the one zone that every time on the page is shown in.
        relative: Whether times are offsets from the start of the log.
        why: Why this window: ``last whole ISO week`` (``… with lookups`` where later ones hold none), ``whole log`` or
            ``as asked``.
        warm_up: One sentence on the warm-up of the replicas.
        resumed: When coverage resumed after a gap, UTC microseconds.
    """

    from_us: int | None
    to_us: int | None
    zone: str = "UTC"
    relative: bool = False
    why: str = "whole log"
    warm_up: str = ""
    resumed: tuple[int, ...] = ()

    @property
    def length_s(self) -> float:
        """Seconds covered."""
        if self.from_us is None or self.to_us is None:
            return 0.0
        return (self.to_us - self.from_us) / 1e6


@dataclass(frozen=True, slots=True)
class Setup:
    """The scenario in the words of the report.

    Attributes:
        profiles: Profile of each pool, e.g. ``vllm``.
        capacity: As in the scenario.
        unlimited: Whether nobody said how much an engine's cache holds, so that nothing can be evicted.
        ttl: As in the scenario.
        routing: Routing policy.
        residence: How long running requests hold memory, as it came out.
        pricing: Which rates.
        toml: The whole scenario with every default.
        notes: What the replay had to assume.
    """

    profiles: tuple[str, ...]
    capacity: str
    unlimited: bool
    ttl: str
    routing: str
    residence: str
    pricing: str
    toml: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The books of one scenario.

    Attributes:
        name: Name of the scenario.
        setup: The scenario.
        total: Every lookup of the window.
        by_basis: The same apart by basis, only those that occur.
        failed_requests: Calls that never reached a cache.
        unmeasured_requests: Requests with neither keys nor usage; of them nothing can be said.
        ideal_hit_tokens: Hits of an unlimited pooled cache over the lookups with keys; None if there are none.
        details: Misses by cause and detail, largest first.
        observed: What the service logged, None without usage.
        costs: The bills, one per currency, the one with the most prompt tokens first; empty without rates.
        ladder: Rungs from the pooled cache down; empty where it was not computed.
        running_effect_tokens: Hits that requests running beside each other add to the last simulated rung, or take.
        spread: Hit rates of all lookups under other seeds of a router that draws; None where nothing is drawn.
        prefill_gpu_hours: What one GPU takes to prefill the missed tokens of the pools whose speed is given; None: of none.
        key_changes: What made keys new although the content was not, the most costly first.
        affected: Lookups with a miss of each cause.
        longer_ttl_tokens: Tokens that a longer lifetime alone would have kept: of a hosted cache one that is on sale; None:
            not counted.
    """

    name: str
    setup: Setup
    total: Book
    by_basis: tuple[Book, ...]
    failed_requests: int = 0
    unmeasured_requests: int = 0
    ideal_hit_tokens: int | None = None
    details: tuple[Detail, ...] = ()
    observed: Observed | None = None
    costs: tuple[Cost, ...] = ()
    ladder: tuple[Rung, ...] = ()
    running_effect_tokens: int = 0
    prefill_gpu_hours: float | None = None
    spread: Spread | None = None
    key_changes: tuple[KeyChange, ...] = ()
    affected: Mapping[str, int] = field(default_factory=dict)
    longer_ttl_tokens: int | None = None

    @property
    def cost(self) -> Cost | None:
        """The bill that most prompt tokens are on; amounts in two currencies are never added."""
        return self.costs[0] if self.costs else None

    def book(self, basis: str) -> Book | None:
        """Return the book of one basis, or None where no lookup has it."""
        return next((b for b in self.by_basis if b.basis == basis), None)

    @property
    def ideal_hit_rate(self) -> float | None:
        """Ideal hits over the prompt tokens of the lookups with keys."""
        simulated = self.book("simulated")
        if simulated is None or self.ideal_hit_tokens is None:
            return None
        return rate(self.ideal_hit_tokens, simulated.prompt_tokens)

    @property
    def usage_share(self) -> float:
        """Share of the window's prompt tokens that carry usage."""
        if self.observed is None or not self.total.prompt_tokens:
            return 0.0
        return self.observed.book.prompt_tokens / self.total.prompt_tokens

    @property
    def headline(self) -> Book:
        """The book of the verdict: observed where usage covers the window, else simulated."""
        if self.observed is not None and self.usage_share >= OBSERVED_HEADLINE_SHARE:
            return self.observed.book
        return self.book("simulated") or self.total


@dataclass(frozen=True, slots=True)
class Earlier:
    """The stretch before the window, as long as it is.

    Attributes:
        from_us: First moment, UTC microseconds.
        to_us: First moment after it.
        book: The book that its verdict would rest on.
        ideal_hit_rate: As in ``Result``.
        multipliers: Cost multiplier by currency.
    """

    from_us: int
    to_us: int
    book: Book
    ideal_hit_rate: float | None = None
    multipliers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """How the report was made; no clock, no absolute path.

    Attributes:
        version: Version of prefixledger.
        seed: Seed that decides everything random.
        fingerprint: Digest of what the replay was made from.
        queries: Statements of ``sql/`` that made the numbers.
    """

    version: str
    seed: int = 0
    fingerprint: str = ""
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything a report says.

    Attributes:
        results: The books per scenario; the first is the one that the page is about.
        window: What it covers.
        sources: The inputs.
        made: How it was made.
        timeline: Books over time.
        breakdowns: Books by tenant, model and other fields.
        prefixes: Shared prefixes.
        replicas: Caches, in the order of their names.
        balances: How even the load of every pool is.
        branches: The rules by which routers placed the lookups.
        routing: The same lookups under other routings.
        curves: Capacity and TTL curves of every pool, the largest first.
        events: Resets and releases, in order of time.
        findings: Ranked, largest first.
        engines: What engines said of their caches; None where they said nothing.
        lengths: Reads by model and length of prompt, of requests with usage.
        reconciliation: The log beside an invoice; None where none was given.
        policy: Whether the replay reproduces what was billed; None where no lookup has keys and usage.
        spend: Money in all, and by model, tenant, provider, service tier and day.
        silent_writes: Caches that were written on a day and never read.
        gaps: Reads and writes by model and gap within a conversation.
        failures: Prompts that failed again and again.
        keep_alive: Calls that are said to keep prefixes alive, due and seen.
        longer_lives: What the longer lifetime of writes would be worth, by model.
        ttl_changes: Lifetimes of writes that changed.
        advice: Changes that were replayed on this log and pay.
        replica_slices: Replicas over time.
        earlier: The stretch before the window; None where the log does not hold the whole of it.
        rejects: Why records were rejected, and where first.
        unread: Why no input could be read; empty where one was.
        hint: What to do about that.
    """

    results: tuple[Result, ...]
    window: Window
    sources: tuple[Source, ...]
    made: Provenance
    timeline: Timeline = NO_TIME
    breakdowns: tuple[Breakdown, ...] = ()
    prefixes: Prefixes = NO_PREFIXES
    replicas: tuple[Replica, ...] = ()
    balances: tuple[Balance, ...] = ()
    branches: tuple[Branch, ...] = ()
    routing: tuple[RoutingOption, ...] = ()
    curves: tuple[Curves, ...] = ()
    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()
    engines: Engines | None = None
    spend: tuple[Spend, ...] = ()
    policy: Policy | None = None
    lengths: tuple[LengthRange, ...] = ()
    reconciliation: Reconciliation | None = None
    silent_writes: tuple[SilentWrites, ...] = ()
    gaps: tuple[GapRange, ...] = ()
    failures: tuple[Failure, ...] = ()
    keep_alive: tuple[KeepAlive, ...] = ()
    longer_lives: tuple[LongerLife, ...] = ()
    ttl_changes: tuple[TtlChange, ...] = ()
    advice: Advice = NO_ADVICE
    replica_slices: tuple[ReplicaSlice, ...] = ()
    earlier: Earlier | None = None
    rejects: tuple[RejectReason, ...] = ()
    unread: str = ""
    hint: str = ""

    @property
    def result(self) -> Result:
        """The books that the page is about."""
        return self.results[0]
