"""Bills from token sums."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.economics.bill import Bill, BilledTokens, MissedTokens, bill, total
from prefixledger.economics.rates import RateCard
from prefixledger.errors import UsageError
from prefixledger.schema import CAUSES

CARD = RateCard("USD", *(Decimal(price) for price in ("3", "0.3", "3.75", "6", "15")), source="test")


def _bill(currency: str = "USD") -> Bill:
    return Bill(currency, Decimal(1), Decimal(2), Decimal(3), dict.fromkeys(CAUSES, Decimal(1)))


def test_every_token_has_one_price() -> None:
    """Reads, both kinds of writes, the rest and output are charged; a miss costs what it is above a read."""
    tokens = BilledTokens(
        read=100,
        output=10,
        missed={"evicted": MissedTokens(written=20, uncached=5), "cold": MissedTokens(written_1h=2)},
    )
    result = bill(tokens, CARD)
    assert result.uncached_input == 127 * 3
    assert result.input == 30 + 75 + 15 + 12
    assert result.output == 150
    assert result.by_cause["evicted"] == 20 * Decimal("3.45") + 5 * Decimal("2.7")
    assert result.by_cause["cold"] == 2 * Decimal("5.7")
    assert result.by_cause["expired"] == 0
    assert (result.uncached, result.actual) == (381 + 150, 132 + 150)


def test_a_long_ttl_makes_writes_dearer() -> None:
    """Writes of the replay are charged under the TTL of its pool."""
    tokens = BilledTokens(read=0, missed={"cold": MissedTokens(written=10)})
    assert bill(tokens, CARD, ttl_us=3_600_000_000).input == 60
    assert bill(tokens, CARD, ttl_us=300_000_000).input == Decimal("37.5")


def test_a_cache_that_is_written_and_hardly_read_costs_more_than_none() -> None:
    """Savings are net of the premium of writes: 1,000 read and 20,000 written tokens cost more, not less."""
    result = bill(BilledTokens(read=1_000, missed={"cold": MissedTokens(written=20_000)}), CARD)
    assert result.uncached_input - result.input == 1_000 * Decimal("2.7") - 20_000 * Decimal("0.75") < 0
    assert result.multiplier is not None
    assert result.multiplier > 1


@given(
    read=st.integers(0, 10**12),
    missed=st.dictionaries(
        st.sampled_from(CAUSES),
        st.builds(MissedTokens, st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9)),
    ),
)
def test_excess_is_what_misses_cost_above_reads(read: int, missed: dict[str, MissedTokens]) -> None:
    """Were every missed token a read, the bill would be lower by exactly the excess."""
    result = bill(BilledTokens(read=read, missed=missed), CARD)
    everything = read + sum(part.tokens for part in missed.values())
    assert result.input - result.excess == everything * CARD.read


def test_bills_of_one_currency_add_up() -> None:
    """Amounts are added within a currency, in the order of the names of currencies."""
    usd, tokens = total([_bill(), _bill("prefill tokens"), _bill()])
    assert (usd.currency, usd.input, usd.excess) == ("USD", 4, 2 * len(CAUSES))
    assert (tokens.currency, tokens.input) == ("prefill tokens", 2)


def test_two_currencies_are_never_added() -> None:
    """Dollars and prefill tokens have no sum."""
    with pytest.raises(UsageError, match="cannot be added"):
        _bill() + _bill("prefill tokens")


def test_no_input_has_no_multiplier() -> None:
    """Without tokens, or where they are free, there is no multiplier."""
    assert bill(BilledTokens(read=0), CARD).multiplier is None
    assert bill(BilledTokens(read=10), CARD).multiplier == Decimal("0.1")
