"""What the longer lifetime of writes would be worth, from the gaps of a log with usage and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prefixledger.economics.formulas import divide
from prefixledger.economics.lifetimes import long_ttl_saving
from prefixledger.report.numbers import amount, clean, duration, finite, money

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    import pyarrow as pa

    from prefixledger.attribute.prices import CardUse
    from prefixledger.report import document


@dataclass(frozen=True, slots=True)
class LongerLife:
    """What the longer lifetime of writes would be worth to one model, by the gaps of its conversations and usage alone.

    Of lookups without keys, which no replay can try; what conversations share, such as a system prompt, is left out.

    Attributes:
        model: Name of the model; None where the log names none.
        short_ttl_s: The shorter lifetime.
        long_ttl_s: The longer one.
        currency: What ``saved`` is in.
        requests: Lookups with usage that name their conversation.
        lost_short_tokens: What was there before a gap and would be written again under the shorter lifetime.
        lost_long_tokens: The same under the longer one.
        grown_tokens: What is written under either.
        saved: What all of it written for longer would cost less than all of it for the shorter time; below 0: more.
    """

    model: str | None
    short_ttl_s: int
    long_ttl_s: int
    currency: str
    requests: int
    lost_short_tokens: int
    lost_long_tokens: int
    grown_tokens: int
    saved: Decimal

    @property
    def sentence(self) -> str:
        """Say what it comes to."""
        verb = "save" if self.saved > 0 else "cost"
        return (
            f"By the gaps of its conversations alone, {clean(self.model or 'a model without a name', 60)} with all writes for "
            f"{duration(self.long_ttl_s)} in place of {duration(self.short_ttl_s)} would {verb} "
            f"{money(abs(self.saved), self.currency)}: {amount(self.lost_short_tokens - self.lost_long_tokens)} tokens would not "
            f"be written again, {amount(self.lost_long_tokens + self.grown_tokens)} be written at the dearer price; what conversations share is left out"
        )


def longer_lives(mart: pa.Table, used: Sequence[CardUse]) -> tuple[LongerLife, ...]:
    """Price the rows of the mart ``longer_lives``, and add those of one model, one currency and the same lifetimes up.

    Args:
        mart: The mart.
        used: The cards in the order of their numbers.
    """
    found: dict[tuple[str | None, int, int, str], LongerLife] = {}
    for row in mart.to_pylist():
        card = used[row["card"]].card
        short_s, long_s = card.short_ttl_us // 1_000_000, card.long_ttl_us // 1_000_000
        one = LongerLife(
            model=row["model"],
            short_ttl_s=short_s,
            long_ttl_s=long_s,
            currency=card.currency,
            requests=row["requests"],
            lost_short_tokens=row["lost_short_tokens"],
            lost_long_tokens=row["lost_long_tokens"],
            grown_tokens=row["grown_tokens"],
            saved=card.base
            * long_ttl_saving(
                row["lost_short_tokens"],
                row["lost_long_tokens"],
                row["grown_tokens"],
                w_short=divide(card.write, card.base),
                w_long=divide(card.write_1h, card.base),
                r=card.r,
            ),
        )
        key = (one.model, short_s, long_s, one.currency)
        found[key] = _sum(found[key], one) if key in found else one
    return tuple(found.values())


def _sum(one: LongerLife, other: LongerLife) -> LongerLife:
    return replace(
        one,
        requests=one.requests + other.requests,
        lost_short_tokens=one.lost_short_tokens + other.lost_short_tokens,
        lost_long_tokens=one.lost_long_tokens + other.lost_long_tokens,
        grown_tokens=one.grown_tokens + other.grown_tokens,
        saved=one.saved + other.saved,
    )


def longer_life_value(row: LongerLife) -> document.LongerLife:
    """Return what a longer lifetime would be worth for the twin."""
    return {
        "model": row.model,
        "short_ttl_s": row.short_ttl_s,
        "long_ttl_s": row.long_ttl_s,
        "currency": row.currency,
        "requests": row.requests,
        "lost_short_tokens": row.lost_short_tokens,
        "lost_long_tokens": row.lost_long_tokens,
        "grown_tokens": row.grown_tokens,
        "saved": finite(row.saved),
    }
