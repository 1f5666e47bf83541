"""The arithmetic of lifetimes: when a longer one pays, how often a cache is worth touching to keep it, and how short a prompt is worth padding."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

_EXACT = Context(prec=28, rounding=ROUND_HALF_EVEN)


def most_pings(*, w: Decimal, r: Decimal) -> int | None:
    """Return how many reads that only keep an entry alive cost less than to write it again; None: any number.

    Args:
        w: Price of a written token over an uncached one.
        r: Price of a read token over an uncached one.
    """
    if r <= 0:
        return None
    return max(0, int(_EXACT.divide(w - r, r).to_integral_value(rounding=ROUND_CEILING)) - 1)


def least_chance_of_return(*, w: Decimal, r: Decimal) -> Decimal | None:
    """Return the chance of a use within the next lifetime above which one more ping pays; None: no chance is enough."""
    return _EXACT.divide(r, w - r) if r < w else None


def long_ttl_share(*, w_short: Decimal, w_long: Decimal, r: Decimal) -> Decimal | None:
    """Return which share of the gaps that outlive a short lifetime must end within a long one for the long one to pay.

    None where writing for the longer time costs no more: then it always pays.
    """
    return 1 - _EXACT.divide(w_short - r, w_long - r) if w_short < w_long else None


def cost_of_use(outlived: Decimal, *, w: Decimal, r: Decimal) -> Decimal:
    """Return what a use of a prefix costs over an uncached one, where this share of gaps outlives its lifetime."""
    return r + (w - r) * outlived


def poisson_outlived(mean_gap_s: Decimal, ttl_s: int) -> Decimal:
    """Return the share of gaps longer than a lifetime, if uses come independently."""
    return _EXACT.exp(_EXACT.divide(Decimal(-ttl_s), mean_gap_s))


def longest_mean_gap_s(break_even_hit_rate: Decimal, ttl_s: int) -> Decimal | None:
    """Return below which mean gap caching pays, if uses come independently; None where it always does.

    Args:
        break_even_hit_rate: See ``formulas.break_even_hit_rate``.
        ttl_s: Lifetime in seconds.
    """
    if break_even_hit_rate <= 0:
        return None
    return _EXACT.divide(Decimal(-ttl_s), _EXACT.ln(1 - break_even_hit_rate))


def uses_for_a_long_ttl(
    mean_gap_s: Decimal, short: tuple[int, Decimal], long: tuple[int, Decimal], *, r: Decimal
) -> Decimal | None:
    """Return above how many uses a long lifetime makes up for its dearer first write; None: it never does.

    Args:
        mean_gap_s: Mean gap of uses that come independently.
        short: Short lifetime in seconds, and the price of its writes.
        long: Long lifetime in seconds, and the price of its writes.
        r: Price of a read token over an uncached one.
    """
    costs = [cost_of_use(poisson_outlived(mean_gap_s, ttl_s), w=w, r=r) for ttl_s, w in (short, long)]
    gained = costs[0] - costs[1]
    return 1 + _EXACT.divide(long[1] - short[1], gained) if gained > 0 else None


def padding_pays_above_tokens(minimum_tokens: int, uses: int, *, w: Decimal, r: Decimal) -> Decimal:
    """Return above which length a prompt used so often is worth padding to the shortest one that is cached."""
    return minimum_tokens * (r + _EXACT.divide(w - r, Decimal(uses)))


def fixed_timer_hit_rate(uses_per_ttl: Decimal) -> Decimal:
    """Return the hit rate of an entry that ends a fixed time after it was made, whoever reads it meanwhile."""
    return _EXACT.divide(uses_per_ttl, 1 + uses_per_ttl)


def reads_that_pay_rent(rent_per_hour: Decimal, base: Decimal, *, r: Decimal) -> Decimal | None:
    """Return how many reads an hour pay for keeping a head; None where reads save nothing.

    Args:
        rent_per_hour: Of a token for an hour.
        base: Price of an uncached token.
        r: Price of a read token over an uncached one.
    """
    return _EXACT.divide(_EXACT.divide(rent_per_hour, base), 1 - r) if r < 1 else None


def bridged_s(pings: int, ttl_s: int) -> int:
    """Return how long an entry lives, in seconds, that is read so many times, each time at the end of its lifetime."""
    return (pings + 1) * ttl_s


def keeping_cost(pause_s: Decimal, ttl_s: int, *, r: Decimal) -> Decimal:
    """Return what one read a lifetime costs through a pause, in uncached uses of the prefix."""
    return _EXACT.divide(pause_s, Decimal(ttl_s)) * r


def longest_pause_s(
    ttl_s: int, *, w_again: Decimal, r: Decimal, more: Decimal = Decimal(0)
) -> Decimal | None:
    """Return through how long a pause it pays to read once a lifetime; None: through any.

    Args:
        ttl_s: Lifetime that the reads keep alive, seconds.
        w_again: Price of the write that is spared at the end, over an uncached token.
        r: Price of a read token over an uncached one.
        more: What the entry cost more because it lives that long: the difference of two prices of writes.
    """
    return ttl_s * max(Decimal(0), _EXACT.divide(w_again - r - more, r)) if r > 0 else None


def long_ttl_saving(
    rewritten_short: int, rewritten_long: int, grown: int, *, w_short: Decimal, w_long: Decimal, r: Decimal
) -> Decimal:
    """Return what a long lifetime saves a conversation that grows, in uncached tokens; below 0 it costs.

    Args:
        rewritten_short: Tokens that were there before and are written again because a gap outlived the short lifetime.
        rewritten_long: The same where they live long.
        grown: New tokens, which are written in either case.
        w_short: Price of a token written for the short lifetime over an uncached one.
        w_long: The same for the long one.
        r: Price of a read token over an uncached one.
    """
    return rewritten_short * (w_short - r) - rewritten_long * (w_long - r) + grown * (w_short - w_long)


def least_uses_at_once(*, w: Decimal, r: Decimal) -> int | None:
    """Return how many simultaneous first uses make up for writing their prefix before them; None: no number does."""
    if r >= w:
        return None
    return int(_EXACT.divide(w, w - r).to_integral_value(rounding=ROUND_FLOOR)) + 1


def prewarm_saving(uses_at_once: int, *, w: Decimal, r: Decimal) -> Decimal:
    """Return what writing a prefix before so many simultaneous first uses saves, in uncached uses of it."""
    return uses_at_once * (w - r) - w
