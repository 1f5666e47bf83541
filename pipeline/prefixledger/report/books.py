"""The closing account: asked = hits + misses by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.attribute.comparison import Comparison, CounterComparison

AVOIDABLE = ("in_flight", "invalidated", "expired", "evicted", "misrouted", "key_changed")
"""Causes that a change of the service could remove; the rest is new text, rules of the cache, or not proven."""


def rate(part: int, whole: int) -> float | None:
    """Return ``part / whole``, or None where there is no whole: no rate is not a rate of 0."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Book:
    """One closing account.

    Attributes:
        basis: ``all``, ``simulated`` or ``observed``.
        requests: Lookups.
        requests_with_hit: Lookups with any hit.
        prompt_tokens: Tokens asked.
        output_tokens: Tokens generated, where known.
        hit_tokens: Tokens found.
        misses: Missed tokens of every cause, in the order of the account.
        hit_host_tokens: Of the tokens found, those that a lower tier had.
    """

    basis: str
    requests: int
    requests_with_hit: int
    prompt_tokens: int
    output_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]
    hit_host_tokens: int = 0

    @property
    def missed_tokens(self) -> int:
        """Sum over the causes."""
        return sum(self.misses.values())

    @property
    def residual_tokens(self) -> int:
        """What the account does not explain; anything but 0 is a fault of ours."""
        return self.prompt_tokens - self.hit_tokens - self.missed_tokens

    @property
    def token_hit_rate(self) -> float | None:
        """Hit tokens over prompt tokens."""
        return rate(self.hit_tokens, self.prompt_tokens)

    @property
    def request_hit_rate(self) -> float | None:
        """Share of lookups with any hit."""
        return rate(self.requests_with_hit, self.requests)


@dataclass(frozen=True, slots=True)
class Detail:
    """Missed tokens of one cause and detail.

    Attributes:
        cause: Cause.
        detail: Detail, or None where the cause has none.
        where: ``here`` or ``elsewhere`` for evicted, expired and invalidated; else None.
        tokens: Missed tokens.
    """

    cause: str
    detail: str | None
    where: str | None
    tokens: int

    @property
    def key(self) -> str:
        """``cause:detail``, with ``:here`` or ``:elsewhere`` where it applies."""
        return ":".join(part for part in (self.cause, self.detail, self.where) if part)


@dataclass(frozen=True, slots=True)
class ObservedHour:
    """One hour of one replica: what the service reports beside what the replay gives.

    Attributes:
        replica: Name of the cache.
        at_us: Start of the hour (UTC).
        requests: Requests with usage.
        prompt_tokens: Their tokens.
        cached_tokens: Tokens read from cache, as reported.
        both_prompt_tokens: Prompt tokens of those that have keys too.
        both_cached_tokens: Tokens that these read from cache, as reported.
        both_simulated_tokens: What the replay gives them.
        both_ideal_tokens: What an unlimited cache for everybody would give them.
        pool: Number of the pool; None outside all pools.
    """

    replica: str
    at_us: int
    requests: int
    prompt_tokens: int
    cached_tokens: int
    both_prompt_tokens: int
    both_cached_tokens: int
    both_simulated_tokens: int
    both_ideal_tokens: int
    pool: int | None = 0

    @property
    def gap_pp(self) -> float | None:
        """Simulated less reported hit rate in percentage points; None where nothing has both."""
        share = rate(self.both_simulated_tokens - self.both_cached_tokens, self.both_prompt_tokens)
        return None if share is None else 100 * share


@dataclass(frozen=True, slots=True)
class EngineHour:
    """One hour of one replica: what its engine said of its cache, beside the replay; None is not told.

    Attributes:
        replica: Name of the cache in the log, else as the engine names itself.
        pool: Number of its pool; None where the engine is no replica of the log.
        at_us: Start of the hour (UTC).
        query_tokens: Growth of its counter of tokens asked.
        hit_tokens: Growth of its counter of tokens hit.
        preemptions: Growth of its counter of preemptions.
        stored_blocks: Blocks stored, copies included.
        removed_blocks: Blocks removed.
        resident_blocks: Blocks stored and not removed at the end of the hour.
        lookups: Lookups admitted while events were told.
        cap_blocks: Their blocks that may hit.
        simulated_blocks: Those that hit in the replay.
        event_blocks: Those resident from the start of the prompt, by the events.
        differing_blocks: Sum of the differences of the two.
        prompt_tokens: Tokens of all lookups of the hour.
        simulated_hit_tokens: What the replay gives them.
        ideal_hit_tokens: What an unlimited cache for everybody would give them.
    """

    replica: str
    pool: int | None
    at_us: int
    query_tokens: int | None
    hit_tokens: int | None
    preemptions: int | None
    stored_blocks: int | None
    removed_blocks: int | None
    resident_blocks: int | None
    lookups: int | None
    cap_blocks: int | None
    simulated_blocks: int | None
    event_blocks: int | None
    differing_blocks: int | None
    prompt_tokens: int | None
    simulated_hit_tokens: int | None
    ideal_hit_tokens: int | None

    @property
    def agreement(self) -> float | None:
        """``1 - sum |simulated - resident blocks| / sum of blocks that may hit``."""
        if not self.cap_blocks or self.differing_blocks is None:
            return None
        return 1 - self.differing_blocks / self.cap_blocks


@dataclass(frozen=True, slots=True)
class Engines:
    """What engines said of their caches.

    Attributes:
        hours: By hour and replica.
        compared: Their counters beside the replay; None where they cover no lookup.
    """

    hours: tuple[EngineHour, ...]
    compared: CounterComparison | None = None

    @property
    def counted(self) -> tuple[int, int]:
        """Tokens hit and asked by the counters, over hours and replicas that have lookups in the log."""
        return self._both("hit_tokens"), self._both("query_tokens")

    @property
    def replayed(self) -> tuple[int, int, int]:
        """Tokens hit, within reach, and asked by the lookups of the same hours and replicas."""
        return self._both("simulated_hit_tokens"), self._both("ideal_hit_tokens"), self._both("prompt_tokens")

    @property
    def agreement(self) -> float | None:
        """Of the lookups admitted while events were told: ``1 - sum |simulated - resident| / sum of blocks that may hit``."""
        cap = sum(hour.cap_blocks or 0 for hour in self.hours)
        return 1 - sum(hour.differing_blocks or 0 for hour in self.hours) / cap if cap else None

    def _both(self, name: str) -> int:
        return sum(getattr(h, name) or 0 for h in self.hours if h.query_tokens and h.prompt_tokens)


@dataclass(frozen=True, slots=True)
class Observed:
    """What the service itself logged, beside what the replay expects of the same lookups.

    Attributes:
        book: The observed book: lookups that carry usage, tokens read from cache, causes of the rest.
        uncached_tokens: Tokens neither read nor written.
        cache_write_tokens: Tokens written; None where the log has no such field.
        cache_write_5m_tokens: Of these, with a 5-minute TTL.
        cache_write_1h_tokens: Of these, with a 1-hour TTL.
        simulated_hit_tokens: What the replay gives the lookups that have both; None if none has.
        both_prompt_tokens: Prompt tokens of the lookups that have both.
        unexplained_tokens: Expected by the replay, not delivered.
        unpredicted_hit_tokens: Delivered, not expected by the replay.
        agreement: ``1 - sum |simulated - observed hit| / sum prompt_tokens``; None without lookups that have both.
        compared: The lookups that have both; None if none has.
        both_ideal_tokens: What an unlimited cache for everybody would give those.
        both_block_tokens: One block for each of those: what single tokens may add to whole blocks.
        hours: By hour and replica.
    """

    book: Book
    uncached_tokens: int
    cache_write_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    simulated_hit_tokens: int | None = None
    both_prompt_tokens: int = 0
    unexplained_tokens: int = 0
    unpredicted_hit_tokens: int = 0
    agreement: float | None = None
    compared: Comparison | None = None
    both_ideal_tokens: int = 0
    both_block_tokens: int = 0
    hours: tuple[ObservedHour, ...] = ()

    @property
    def above_ceiling_tokens(self) -> int:
        """Reported hits that nothing in the log can have brought, single tokens beyond whole blocks aside."""
        if self.compared is None:
            return 0
        most = self.both_ideal_tokens + self.both_block_tokens
        return max(0, self.compared.reported_hit_tokens - most)


@dataclass(frozen=True, slots=True)
class SilentWrites:
    """A cache that was written on one day and never read, by the usage in the log.

    Attributes:
        model: Name of the model; None where the log names none.
        tenant: The tenant; None where the log names none.
        day_us: Start of the day, UTC microseconds.
        requests: Lookups with usage.
        written_tokens: Tokens written.
        prompt_tokens: Tokens asked.
    """

    model: str | None
    tenant: str | None
    day_us: int
    requests: int
    written_tokens: int
    prompt_tokens: int
