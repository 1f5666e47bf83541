"""The closing account: asked = hits + misses by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """

    basis: str
    requests: int
    requests_with_hit: int
    prompt_tokens: int
    output_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]

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
