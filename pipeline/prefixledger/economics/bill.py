"""Bills: what a set of prompt tokens costs with caching, without it, and for each cause of a miss."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from prefixledger.economics.formulas import divide
from prefixledger.errors import UsageError
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prefixledger.economics.rates import RateCard


@dataclass(frozen=True, slots=True)
class MissedTokens:
    """Missed tokens of one cause.

    Attributes:
        written: Those that the cache stores under the TTL of the bill; they pay the price of a write.
        written_1h: Those that the log says were written to live longer than 5 minutes.
        uncached: The rest; they pay the base price.
    """

    written: int = 0
    written_1h: int = 0
    uncached: int = 0

    def paid(self, card: RateCard, ttl_us: int | None) -> Decimal:
        """Return what these tokens cost."""
        return (
            self.written * card.write_for(ttl_us)
            + self.written_1h * card.write_1h
            + self.uncached * card.base
        )

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.written + self.written_1h + self.uncached


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """Tokens that one rate card applies to; ``read`` plus all missed is the prompt.

    Attributes:
        read: Prompt tokens that hit.
        output: Generated tokens.
        missed: By cause.
        storage_token_s: Tokens times seconds that stored tokens pay rent for.
    """

    read: int
    output: int = 0
    missed: Mapping[str, MissedTokens] = field(default_factory=dict)
    storage_token_s: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """An amount of money and how it comes about; add bills of one currency with ``+``.

    Attributes:
        currency: What the amounts are in.
        uncached_input: Input at the base price, as if nothing were cached.
        input: Input as it is charged: reads, writes, the rent of what is stored, and the rest at the base price.
        output: Output at its price.
        by_cause: Excess cost of each cause: tokens times (price paid less price of a read).
    """

    currency: str
    uncached_input: Decimal
    input: Decimal
    output: Decimal
    by_cause: Mapping[str, Decimal]

    @property
    def uncached(self) -> Decimal:
        """Input and output without a cache."""
        return self.uncached_input + self.output

    @property
    def actual(self) -> Decimal:
        """Input and output with the cache."""
        return self.input + self.output

    @property
    def multiplier(self) -> Decimal | None:
        """Input with the cache over input without; None where input is free or there is none."""
        return divide(self.input, self.uncached_input) if self.uncached_input else None

    @property
    def excess(self) -> Decimal:
        """What all misses cost above reads."""
        return sum(self.by_cause.values(), Decimal(0))

    def __add__(self, other: Bill) -> Bill:
        if self.currency != other.currency:
            raise UsageError(f"a bill in {self.currency} cannot be added to one in {other.currency}")
        return Bill(
            self.currency,
            self.uncached_input + other.uncached_input,
            self.input + other.input,
            self.output + other.output,
            {cause: self.by_cause[cause] + other.by_cause[cause] for cause in CAUSES},
        )


def bill(tokens: BilledTokens, card: RateCard, *, ttl_us: int | None = None) -> Bill:
    """Price tokens by a rate card.

    Args:
        tokens: What was read, missed and generated.
        card: Prices of single tokens.
        ttl_us: TTL that writes are made for, microseconds; None is for ever.
    """
    paid = {cause: part.paid(card, ttl_us) for cause, part in tokens.missed.items()}
    missed = {cause: part.tokens for cause, part in tokens.missed.items()}
    return Bill(
        currency=card.currency,
        uncached_input=(tokens.read + sum(missed.values())) * card.base,
        input=tokens.read * card.read
        + sum(paid.values(), Decimal(0))
        + tokens.storage_token_s * card.storage_second,
        output=tokens.output * card.output,
        by_cause={
            cause: paid[cause] - missed[cause] * card.read if cause in paid else Decimal(0)
            for cause in CAUSES
        },
    )


def total(bills: Iterable[Bill]) -> tuple[Bill, ...]:
    """Add bills up by currency, in order of currency: amounts in two currencies are never added."""
    sums: dict[str, Bill] = {}
    for part in bills:
        sums[part.currency] = sums[part.currency] + part if part.currency in sums else part
    return tuple(sums[currency] for currency in sorted(sums))
