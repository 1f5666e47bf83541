"""Prices the lookups of a window: rate cards as tables for SQL, and token sums as bills."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from prefixledger.config.pricing import ENGINE_RATES, Pricing
from prefixledger.config.registry import HOSTED_PROVIDERS, OWN_MODELS, PROFILES
from prefixledger.config.scenario import Pool
from prefixledger.economics.bill import Bill, BilledTokens, MissedTokens, bill, total
from prefixledger.economics.rates import BY_MODEL, SLOT_US, RateCard, Tier, resolve
from prefixledger.errors import UsageError
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prefixledger.config.scenario import Scenario

# 18 digits behind the point hold a millionth of 0.075 times 0.1 exactly; 38 digits are what DuckDB can sum.
PRICE = pa.decimal128(22, 18)
AMOUNT = pa.decimal128(38, 18)
_QUANTUM = Decimal(1).scaleb(-18)
_LONGEST = 2**62


@dataclass(frozen=True, slots=True)
class CardUse:
    """A rate card under the TTL of a pool.

    Attributes:
        card: Prices of single tokens.
        ttl_us: TTL that writes are made for, microseconds; None is for ever.
    """

    card: RateCard
    ttl_us: int | None


@dataclass(frozen=True, slots=True)
class PriceTables:
    """What the lookups of a window pay.

    Attributes:
        used: The cards in the order of their numbers.
        prices: Columns pool, provider, model, service_tier, inference_geo, slot, basis, above_tokens, upto_tokens, card: which card when.
        cards: Columns card, currency, base_price, read_price, write_price, write_1h_price, output_price,
            storage_price (a second), short_ttl_us, long_ttl_us (what its two prices of writes pay for).
    """

    used: tuple[CardUse, ...]
    prices: pa.Table
    cards: pa.Table


def price_tables(uses: pa.Table, scenario: Scenario) -> PriceTables:
    """Resolve the prices that a window needs.

    Args:
        uses: Columns pool, provider, model, service_tier, inference_geo, slot, basis; one row for each combination that occurs.
        scenario: Its pools and prices.

    Raises:
        UsageError: A model has no rate.
    """
    used: dict[CardUse, int] = {}
    rows = []
    # A use for each half hour of each model, and few pools and providers: their prices are put together once.
    known: dict[tuple[int | None, str | None, str], tuple[Pricing, int | None]] = {}
    for use in uses.to_pylist():
        pool = Pool() if use["pool"] is None else scenario.pool[use["pool"]]
        kind = (use["pool"], use["provider"], use["basis"])
        if kind not in known:
            # Usage says for how long it wrote, whatever the pool is replayed under.
            lives_us = None if use["basis"] == "observed" else pool.cache.ttl_us
            known[kind] = _pricing(scenario, pool, use), lives_us
        pricing, ttl_us = known[kind]
        tiers = _tiers(scenario, pool, pricing, use)
        ends = [tier.above_tokens for tier in tiers[1:]] + [_LONGEST]
        for tier, upto in zip(tiers, ends, strict=True):
            number = used.setdefault(CardUse(tier.card, ttl_us), len(used))
            rows.append({**use, "above_tokens": tier.above_tokens, "upto_tokens": upto, "card": number})
    fields = [(name, pa.int64()) for name in ("above_tokens", "upto_tokens", "card")]
    prices = pa.Table.from_pylist(rows, schema=pa.schema([*uses.schema, *fields]))
    return PriceTables(tuple(used), prices, _cards(used))


def simulated_bills(used: tuple[CardUse, ...], reads: pa.Table, misses: pa.Table) -> tuple[Bill, ...]:
    """Bill the hits and misses of the replay, one bill for each currency.

    Args:
        used: As in ``PriceTables``.
        reads: Columns card, read_tokens, output_tokens, storage_token_s.
        misses: Columns card, cause, written_tokens, written_1h_tokens, uncached_tokens.
    """
    missed: dict[int, dict[str, MissedTokens]] = {}
    for row in misses.to_pylist():
        missed.setdefault(row["card"], {})[row["cause"]] = MissedTokens(
            written=row["written_tokens"],
            written_1h=row["written_1h_tokens"],
            uncached=row["uncached_tokens"],
        )
    return total(
        bill(
            BilledTokens(
                read=row["read_tokens"],
                output=row["output_tokens"],
                missed=missed.get(row["card"], {}),
                storage_token_s=row["storage_token_s"],
            ),
            used[row["card"]].card,
            ttl_us=used[row["card"]].ttl_us,
        )
        for row in reads.to_pylist()
    )


def observed_bills(used: tuple[CardUse, ...], usage: pa.Table) -> tuple[Bill, ...]:
    """Bill what the service itself counted; the log does not say which cause a write had, so there is none.

    Args:
        used: As in ``PriceTables``.
        usage: Columns card, read_tokens, output_tokens, written_5m_tokens, written_1h_tokens, uncached_tokens.
    """
    return total(
        bill(
            BilledTokens(
                read=row["read_tokens"],
                output=row["output_tokens"],
                missed={
                    "unexplained": MissedTokens(
                        written=row["written_5m_tokens"],
                        written_1h=row["written_1h_tokens"],
                        uncached=row["uncached_tokens"],
                    )
                },
            ),
            used[row["card"]].card,
        )
        for row in usage.to_pylist()
    )


def open_costs(used: tuple[CardUse, ...], usage: pa.Table) -> dict[str, Decimal]:
    """Return by currency how much more the observed bills are if all writes of untold lifetime were for the longest.

    Args:
        used: As in ``PriceTables``.
        usage: Columns card, open_tokens.
    """
    found: dict[str, Decimal] = {}
    for row in usage.to_pylist():
        card = used[row["card"]].card
        more = row["open_tokens"] * (card.write_1h - card.write)
        if more > 0:
            found[card.currency] = found.get(card.currency, Decimal(0)) + more
    return found


def costs_table(books: Iterable[tuple[str, tuple[Bill, ...]]]) -> pa.Table:
    """Return bills as a table: book, currency, the amounts, and excess_<cause> for every cause.

    Args:
        books: Name of each book (simulated, observed) and its bills.
    """
    rows = [
        {
            "book": book,
            "currency": part.currency,
            "uncached_input": _amount(part.uncached_input),
            "input": _amount(part.input),
            "output": _amount(part.output),
            **{f"excess_{cause}": _amount(part.by_cause[cause]) for cause in CAUSES},
        }
        for book, bills in books
        for part in bills
    ]
    amounts = ("uncached_input", "input", "output", *(f"excess_{cause}" for cause in CAUSES))
    schema = [("book", pa.string()), ("currency", pa.string()), *((name, AMOUNT) for name in amounts)]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def _tiers(scenario: Scenario, pool: Pool, pricing: Pricing, use: dict[str, Any]) -> tuple[Tier, ...]:
    asked = {
        "model": use["model"],
        "provider": use["provider"],
        "at_us": use["slot"] * SLOT_US,
        "service_tier": use["service_tier"],
        "geo": use["inference_geo"],
    }
    try:
        return resolve(pricing, **asked)
    except UsageError:
        if not _may_lack_a_price(scenario, pool, use):
            raise
        return resolve(pricing.model_copy(update={"rates": ENGINE_RATES}), **asked)


def _may_lack_a_price(scenario: Scenario, pool: Pool, use: dict[str, Any]) -> bool:
    """Say whether tokens may be counted without a price, where nobody gave one.

    A provider that serves models of others has more of them than any list, and one of them is no reason for no report. One
    that serves its own alone has no model that nobody knows: there it is a mistake, to be told.
    """
    given = (pool.pricing or Pricing()).over(scenario.pricing)
    if given.rates not in (None, BY_MODEL) or given.gpu_hour is not None:
        return False
    if use["model"] is None:
        return not PROFILES[pool.cache.profile].replayed
    return str(use["provider"]).lower() in HOSTED_PROVIDERS - OWN_MODELS


def _pricing(scenario: Scenario, pool: Pool, use: dict[str, object]) -> Pricing:
    pricing = scenario.pricing_of(pool)
    given = (pool.pricing or Pricing()).over(scenario.pricing)
    # A hosted provider's rows without keys were replayed by no engine, whichever pool took them as the last resort.
    by_default = given.rates is None and given.gpu_hour is None
    hosted = str(use["provider"]).lower() in HOSTED_PROVIDERS
    if use["basis"] == "observed" and by_default and hosted and not pool.hosted:
        return pricing.model_copy(update={"rates": BY_MODEL})
    return pricing


def _cards(used: Iterable[CardUse]) -> pa.Table:
    rows = [
        {
            "card": number,
            "currency": use.card.currency,
            "base_price": _amount(use.card.base),
            "read_price": _amount(use.card.read),
            "write_price": _amount(use.card.write_for(use.ttl_us)),
            "write_1h_price": _amount(use.card.write_1h),
            "output_price": _amount(use.card.output),
            "storage_price": _amount(use.card.storage_second),
            "short_ttl_us": use.card.short_ttl_us,
            "long_ttl_us": use.card.long_ttl_us,
        }
        for number, use in enumerate(used)
    ]
    prices = ("base_price", "read_price", "write_price", "write_1h_price", "output_price", "storage_price")
    schema = [
        ("card", pa.int64()),
        ("currency", pa.string()),
        *((name, PRICE) for name in prices),
        ("short_ttl_us", pa.int64()),
        ("long_ttl_us", pa.int64()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def _amount(value: Decimal) -> Decimal:
    return value.quantize(_QUANTUM, rounding=ROUND_HALF_EVEN)
