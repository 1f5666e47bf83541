"""Rate cards: what one token costs, from a scenario, from GPU hours or from the shipped price list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from genai_prices import types

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.config.provider_rules import ProviderRules, Said, knows_provider, rules_of, weekend_time
from prefixledger.economics.formulas import SECONDS_PER_HOUR, divide
from prefixledger.economics.price_list import find_model
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from prefixledger.config.pricing import Pricing, Rates

BY_MODEL = "by-model"
PRICE_LIST = "genai-prices"
"""What the source of a card begins with where its prices come from the list."""
PER_MILLION = 1_000_000
SHORT_TTL_US = 300_000_000
"""Lifetime that the cheaper price of a write pays for, where no rule says otherwise: 5 minutes."""
_HOUR_US = 3_600_000_000
SLOT_US = 1_800_000_000
"""Prices of the list change on the half hour at the soonest: DeepSeek's off-peak starts at 16:30 UTC."""
_TIERS = {
    "batch": {"processing": "batch"},
    "flex": {"service_tier": "flex"},
    "priority": {"service_tier": "priority"},
    "fast": {"service_tier": "fast", "speed": "fast"},
}
"""Service tiers that have prices of their own, as the price list asks for them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RateCard:
    """Prices of single tokens.

    Attributes:
        currency: What the prices are in.
        base: Uncached input.
        read: Input read from the cache.
        write: Input written to it, to live as long as ``short_ttl_us`` or as the cache likes.
        write_1h: Input written to live longer: an hour with Claude and Kimi, 12 hours with OpenAI.
        output: Generated.
        source: Where the prices come from.
        short_ttl_us: Longest lifetime that ``write`` pays for, microseconds.
        long_ttl_us: Longest lifetime that ``write_1h`` pays for; the same where there is one price.
        storage_hour: Rent of a stored token per hour; None where there is none or it is not known.
    """

    currency: str
    base: Decimal
    read: Decimal
    write: Decimal
    write_1h: Decimal
    output: Decimal
    source: str
    short_ttl_us: int = SHORT_TTL_US
    storage_hour: Decimal | None = None
    long_ttl_us: int = SHORT_TTL_US

    def write_for(self, ttl_us: int | None) -> Decimal:
        """Return the price of a token written under a TTL in microseconds; None lives for ever."""
        return self.write if ttl_us is None or ttl_us <= self.short_ttl_us else self.write_1h

    @property
    def storage_second(self) -> Decimal:
        """Rent of a stored token per second; 0 where there is none."""
        return (
            Decimal(0) if self.storage_hour is None else divide(self.storage_hour, Decimal(SECONDS_PER_HOUR))
        )

    @property
    def r(self) -> Decimal:
        """Price of a read token over an uncached one; 0 where uncached input is free."""
        return divide(self.read, self.base) if self.base else Decimal(0)

    def w(self, ttl_us: int | None = None) -> Decimal:
        """Return the price of a written token over an uncached one; 1 where uncached input is free."""
        return divide(self.write_for(ttl_us), self.base) if self.base else Decimal(1)


@dataclass(frozen=True, slots=True)
class Tier:
    """A rate card and the prompts it is for: the whole prompt is charged by the tier it falls into.

    Attributes:
        above_tokens: Prompts longer than this; -1 for all.
        card: Their prices.
    """

    above_tokens: int
    card: RateCard


def resolve(
    pricing: Pricing,
    *,
    model: str | None,
    provider: str | None,
    at_us: int,
    service_tier: str | None = None,
    geo: str | None = None,
) -> tuple[Tier, ...]:
    """Return the rate cards of one model at one time, by length of prompt, shortest first.

    Args:
        pricing: The prices of a pool, as ``Scenario.pricing_of`` gives them.
        model: Model as logged; asked for only where rates go by model.
        provider: Provider as logged.
        at_us: Time of the request, microseconds since 1970: prices have dates.
        service_tier: Tier as logged: batch, flex, priority … where the provider charges by it.
        geo: Where the service says that it computed, where the provider charges by it and the scenario gives no factor.

    Raises:
        UsageError: The price list lacks the model; the nearest names are listed.
    """
    return tuple(
        Tier(tier.above_tokens, adjusted(tier.card, pricing, service_tier))
        for tier in _listed_price(pricing, model, provider, at_us, service_tier, geo)
    )


def _listed_price(
    pricing: Pricing,
    model: str | None,
    provider: str | None,
    at_us: int,
    service_tier: str | None,
    geo: str | None,
) -> tuple[Tier, ...]:
    rates = pricing.rates
    told = None if is_batch(service_tier) and pricing.batch_factor is not None else service_tier
    if rates is None:
        return (Tier(-1, _gpu_card(pricing)),)
    if not isinstance(rates, str):
        return (Tier(-1, card_of(rates)),)
    if rates != BY_MODEL:
        return listed_model(rates, None, at_us, told).tiers
    if model is None:
        raise UsageError(
            "a request names no model, so it has no rate",
            hint='give one for all: [pricing] rates = "<model>" or {base=…}',
        )
    listed = listed_model(model, provider, at_us, told)
    return listed.tiers if pricing.region_factor is not None else _computed_in(listed, geo)


def _computed_in(listed: Listed, geo: str | None) -> tuple[Tier, ...]:
    """Return the prices of where a request was computed; anywhere else, or nowhere told, is the listed price."""
    rule = listed.rules.geography
    if rule is None or (factor := rule.value.get((geo or "").lower())) is None:
        return listed.tiers
    said = f", in {geo} x{factor:f} ({'; '.join(map(str, rule.sources))})"
    return tuple(Tier(t.above_tokens, _times(t.card, factor, t.card.source + said)) for t in listed.tiers)


def _times(card: RateCard, factor: Decimal, source: str) -> RateCard:
    return replace(
        card,
        base=card.base * factor,
        read=card.read * factor,
        write=card.write * factor,
        write_1h=card.write_1h * factor,
        output=card.output * factor,
        source=source,
        storage_hour=None if card.storage_hour is None else card.storage_hour * factor,
    )


def adjusted(card: RateCard, pricing: Pricing, service_tier: str | None = None) -> RateCard:
    """Return a card after batch and region factors, the discount of a contract and the exchange rate.

    Prefill tokens are no money and stay what they are.
    """
    batch = pricing.batch_factor if is_batch(service_tier) else None
    if card.currency == PREFILL_TOKENS:
        return card
    factor, said = Decimal(1), [card.source]
    for name, given in (("batch", batch), ("region", pricing.region_factor)):
        if given is not None:
            factor *= given
            said.append(f"{name} x{given:f}")
    if pricing.discount is not None:
        factor *= 1 - pricing.discount
        said.append(f"less {(100 * pricing.discount).normalize():f} %")
    if pricing.exchange_rate is not None:
        factor *= pricing.exchange_rate
        said.append(f"{pricing.exchange_rate:f} {pricing.currency} for 1 {card.currency}")
    if len(said) == 1:
        return card
    return replace(_times(card, factor, ", ".join(said)), currency=pricing.currency or card.currency)


def is_batch(service_tier: str | None) -> bool:
    """Say whether a tier as logged is that of batches."""
    return service_tier is not None and "batch" in service_tier.lower()


def varies(pricing: Pricing) -> bool:
    """Say whether these prices depend on the request (its model, its time, its length)."""
    return isinstance(pricing.rates, str)


def card_of(rates: Rates) -> RateCard:
    """Turn the rates of a scenario into prices of single tokens."""
    base = divide(rates.base, Decimal(rates.per_tokens))
    write = base * rates.write
    return RateCard(
        currency=rates.currency,
        base=base,
        read=base * rates.read,
        write=write,
        write_1h=write,
        output=divide(rates.output, Decimal(rates.per_tokens)),
        source="default of engines" if rates.currency == PREFILL_TOKENS else "scenario",
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """A model as the price list has it, with what the rules say of it.

    Attributes:
        provider: Provider in the price list.
        model: Model in the price list.
        rules: Cache rules, and the prices that the list lacks.
        tiers: Prices by length of prompt, shortest first.
    """

    provider: str
    model: str
    rules: ProviderRules
    tiers: tuple[Tier, ...]


def model_cards(model: str, provider: str | None, at_us: int) -> tuple[Tier, ...]:
    """Look a model up in the price list that ships with genai-prices, completed by our rules; nothing is fetched.

    Args:
        model: Model id as a provider or a gateway writes it.
        provider: Provider as logged. One that the list does not know is a gateway: the model decides.
        at_us: Microseconds since 1970.

    Raises:
        UsageError: The list lacks the model.
    """
    return listed_model(model, provider, at_us).tiers


def listed_model(model: str, provider: str | None, at_us: int, service_tier: str | None = None) -> Listed:
    """Return prices and rules of a model in a service tier; see ``model_cards``."""
    return _listed(model, provider, at_us // SLOT_US, _tier_name(service_tier))


def _tier_name(service_tier: str | None) -> str | None:
    """Return the tier as the price list calls it: ``ON_DEMAND_PRIORITY`` is ``priority``; standard ones are None."""
    if is_batch(service_tier):
        return "batch"
    name = (service_tier or "").lower().rsplit("_", 1)[-1]
    return name if name in _TIERS else None


@lru_cache(maxsize=1)
def _installed() -> str:
    """Return the version of the price list; a list of files is read for it."""
    return version(PRICE_LIST)


@lru_cache(maxsize=65_536)
def _listed(model: str, provider: str | None, slot: int, tier: str | None = None) -> Listed:
    found_provider, found = find_model(model, provider)
    who = provider if provider is not None and knows_provider(provider) else found_provider.id
    rules = rules_of(who, found.id, slot * SLOT_US)
    moment = weekend_time(rules, _EPOCH + timedelta(microseconds=slot * SLOT_US))
    prices = found.get_prices(moment, _TIERS.get(tier or ""))
    source = f"{PRICE_LIST} {_installed()}: {found_provider.id}/{found.id}"
    if tier is not None:
        same = prices == found.get_prices(moment)
        source += f", {tier}" + (" at the standard price, for want of another" if same else "")
    fields = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok")
    listed = [getattr(prices, name) for name in fields]
    if listed[0] is None:
        raise UsageError(
            f"the price list has no price for input tokens of {found.id!r}",
            hint="give the rates in [pricing]",
        )
    starts = {tier.start for price in listed if isinstance(price, types.TieredPrices) for tier in price.tiers}
    tiers = tuple(
        Tier(above, _card([_at_length(price, above) for price in listed], source, rules))
        for above in (-1, *sorted(starts))
    )
    return Listed(found_provider.id, found.id, rules, tiers)


def _card(listed: list[Decimal | None], source: str, rules: ProviderRules) -> RateCard:
    base, read, write, write_long, output = (
        None if price is None else price / PER_MILLION for price in listed
    )
    assert base is not None
    ruled: list[Said] = []
    # A model that the list gives no cache price at all is not cached, whatever is said of its family.
    factors = rules.write_by_us if (read, write) != (None, None) else {}
    short_us = min(factors, default=SHORT_TTL_US)
    if rules.write is not None and factors:
        long_us = max(factors)
        if write is None:
            write = base * factors[short_us]
            ruled.append(rules.write)
        if write_long is None and long_us > short_us:
            write_long = base * factors[long_us]
            ruled.append(rules.write)
    if rules.read is not None:
        read = base * rules.read.value
        ruled.append(rules.read)
    # No price of its own means that the provider charges cached or written input like any other.
    write = base if write is None else write
    card = RateCard(
        currency="USD",
        base=base,
        read=base if read is None else read,
        write=write,
        write_1h=write if write_long is None else write_long,
        output=Decimal(0) if output is None else output,
        source=source,
        short_ttl_us=short_us,
        # Prices of two lifetimes that no rule names are those of Claude: 5 minutes and an hour.
        long_ttl_us=short_us if write_long is None else max(factors, default=_HOUR_US),
    )
    if rules.storage is not None:
        ruled.append(rules.storage)
        card = replace(card, storage_hour=rules.storage.value / PER_MILLION)
    if rules.weekend_as is not None:
        ruled.append(rules.weekend_as)
    sources = dict.fromkeys(str(each) for said in ruled for each in said.sources)
    return replace(card, source="; ".join([source, *sources]))


def _at_length(price: Any, above_tokens: int) -> Decimal | None:
    if not isinstance(price, types.TieredPrices):
        return None if price is None else Decimal(price)
    reached = [tier.price for tier in price.tiers if tier.start <= above_tokens]
    return Decimal(reached[-1] if reached else price.base)


def _gpu_card(pricing: Pricing) -> RateCard:
    if pricing.gpu_hour is None or pricing.prefill_tokens_per_s is None:
        raise UsageError(
            "[pricing] has neither rates nor gpu_hour with prefill_tokens_per_s", hint="give one of them"
        )
    tokens_per_hour = Decimal(str(pricing.prefill_tokens_per_s)) * SECONDS_PER_HOUR
    token = divide(pricing.gpu_hour, tokens_per_hour)
    return RateCard("USD", token, Decimal(0), token, token, Decimal(0), "price of GPU hours")
