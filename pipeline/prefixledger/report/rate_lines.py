"""Rate cards under which a TTL curve is priced: those that the pool pays, and for comparison what others charge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.economics.rates import PRICE_LIST, listed_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prefixledger.economics.rates import RateCard

OTHERS = ("claude-sonnet-4-5", "gpt-5", "gpt-4.1", "gpt-4o")
"""One model for each pair of ratios that is common: writes at a premium or not, reads at a tenth, a quarter or half."""

_PRICED_AT_US = 1_793_491_200_000_000
"""1 November 2026: ratios of one day, so that a report stays the same."""

_LONG_US = 1 << 62
"""A lifetime that only the dearer of two write prices pays for."""

_LISTED = re.compile(rf"{PRICE_LIST} \S+: (?:[^/;]+/)?([^;]+)")


@dataclass(frozen=True, slots=True)
class RateLine:
    """What one rate card makes of a hit rate.

    Attributes:
        name: Whose prices.
        own: Whether the pool pays them.
        w: Price of a written token over an uncached one, up to ``short_ttl_s``.
        w_long: The same beyond that.
        short_ttl_s: Longest lifetime that ``w`` pays for.
        r: Price of a read token over an uncached one.
    """

    name: str
    own: bool
    w: float
    w_long: float
    short_ttl_s: float
    r: float

    def multiplier(self, ttl_s: float, hit_tokens: int, storable_tokens: int, prompt_tokens: int) -> float:
        """Return (uncached + r x read + w x written) / prompt: missed tokens that can be stored are written."""
        written = max(0, storable_tokens - hit_tokens)
        w = self.w if ttl_s <= self.short_ttl_s else self.w_long
        return (prompt_tokens - hit_tokens - written + self.r * hit_tokens + w * written) / prompt_tokens


def rate_lines(own: Iterable[RateCard]) -> tuple[RateLine, ...]:
    """Return the cards of a pool, each pair of ratios once, and where it pays money those of ``OTHERS`` that differ."""
    found: dict[tuple[float, float, float], RateLine] = {}
    paid = tuple(own)
    for card in paid:
        _add(found, card, own=True)
    if any(card.currency != PREFILL_TOKENS for card in paid):
        for model in OTHERS:
            _add(found, listed_model(model, None, _PRICED_AT_US).tiers[0].card, own=False)
    return tuple(found.values())


def _add(found: dict[tuple[float, float, float], RateLine], card: RateCard, *, own: bool) -> None:
    w, w_long, r = float(card.w()), float(card.w(_LONG_US)), float(card.r)
    listed = _LISTED.match(card.source)
    name = listed.group(1) if listed else "this pool" if own else card.source
    found.setdefault((w, w_long, r), RateLine(name, own, w, w_long, card.short_ttl_us / 1e6, r))
