"""The arithmetic of a prefix cache: what hits are worth, and when caching pays."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS_PER_HOUR = 3600
SIGNIFICANT_DIGITS = 6

# One context for all: the result of a division must not depend on what a caller set for its thread.
_EXACT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PRINTED = Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True, slots=True)
class PoissonRow:
    """What a prefix costs at one rate of use, if uses come independently of each other.

    Attributes:
        uses_per_hour: Rate of use of the prefix.
        hit_rate: Share of uses that find it in the cache, 0 to 1.
        multiplier: Its price over that of no caching; 1 is no caching.
    """

    uses_per_hour: Decimal
    hit_rate: Decimal
    multiplier: Decimal


def effective_tokens(uncached: int, read: int, written: int, *, w: Decimal, r: Decimal) -> Decimal:
    """Return how many uncached tokens would cost the same.

    Args:
        uncached: Tokens that are neither read nor written.
        read: Tokens read from the cache.
        written: Tokens written to it.
        w: Price of a written token over an uncached one.
        r: Price of a read token over an uncached one.
    """
    return uncached + r * read + w * written


def cost_multiplier(uncached: int, read: int, written: int, *, w: Decimal, r: Decimal) -> Decimal | None:
    """Return the input bill over what it would be without a cache; None where there are no tokens."""
    tokens = uncached + read + written
    return (
        _EXACT.divide(effective_tokens(uncached, read, written, w=w, r=r), Decimal(tokens))
        if tokens
        else None
    )


def prefix_multiplier(hit_rate: Decimal, *, w: Decimal, r: Decimal) -> Decimal:
    """Return the cost multiplier of a fully cacheable prefix: ``h*r + (1-h)*w``."""
    return hit_rate * r + (1 - hit_rate) * w


def break_even_hit_rate(*, w: Decimal, r: Decimal) -> Decimal | None:
    """Return the hit rate at which caching costs what no caching costs; None where reads save nothing.

    Below 0 there is nothing to break even on (writes cost less than uncached input), so 0 is the least.
    """
    if r >= 1:
        return None
    return max(Decimal(0), _EXACT.divide(w - 1, w - r))


def break_even_uses(*, w: Decimal, r: Decimal) -> int | None:
    """Return the fewest uses of an entry, its write included, that cost no more than no caching; None: never."""
    if r >= 1:
        return None
    reads = _EXACT.divide(w - 1, 1 - r).to_integral_value(rounding=ROUND_CEILING)
    return 1 + max(0, int(reads))


def uses_cost(uses: int, *, w: Decimal, r: Decimal) -> Decimal:
    """Return what one write and ``uses - 1`` reads cost, in uncached uses of the same prefix."""
    return w + (uses - 1) * r if uses else Decimal(0)


def poisson_hit_rate(uses_per_hour: Decimal, ttl_s: int) -> Decimal:
    """Return ``1 - exp(-rate * TTL)``: the share of gaps within the TTL, if uses come independently.

    Args:
        uses_per_hour: Rate of use of the prefix.
        ttl_s: Seconds that the prefix lives after each use.
    """
    gaps_per_ttl = _EXACT.divide(uses_per_hour * ttl_s, Decimal(SECONDS_PER_HOUR))
    return 1 - _EXACT.exp(-gaps_per_ttl)


def poisson_table(
    uses_per_hour: Iterable[Decimal], ttl_s: int, *, w: Decimal, r: Decimal
) -> tuple[PoissonRow, ...]:
    """Return hit rate and multiplier at each rate of use."""
    rows = []
    for rate in uses_per_hour:
        hit_rate = poisson_hit_rate(rate, ttl_s)
        rows.append(PoissonRow(rate, hit_rate, prefix_multiplier(hit_rate, w=w, r=r)))
    return tuple(rows)


def saved_share(effective: Decimal, uncached: Decimal) -> Decimal:
    """Return the share of an uncached bill that is saved; negative where caching costs more."""
    return 1 - _EXACT.divide(effective, uncached)


def prefill_gpu_hours(prefill_tokens: int, tokens_per_s: float) -> Decimal:
    """Return the hours that one GPU takes to prefill so many tokens.

    Raises:
        UsageError: The speed is not above 0.
    """
    speed = Decimal(str(tokens_per_s))
    if speed <= 0:
        raise UsageError(f"prefill_tokens_per_s is {tokens_per_s}, it must be above 0")
    return _EXACT.divide(Decimal(prefill_tokens), speed * SECONDS_PER_HOUR)


def divide(amount: Decimal, by: Decimal) -> Decimal:
    """Divide in the one decimal context of this package (28 digits, half to even)."""
    return _EXACT.divide(amount, by)


def six_digits(amount: Decimal) -> float:
    """Return an amount as it is printed: 6 significant digits."""
    return float(_PRINTED.plus(amount)) + 0.0  # plus 0.0: minus zero prints as zero
