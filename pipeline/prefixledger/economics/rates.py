"""Rate cards: what one token costs, from a scenario, from GPU hours or from the shipped price list."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from genai_prices import data_snapshot, types

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.economics.formulas import SECONDS_PER_HOUR, divide
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from prefixledger.config.pricing import Pricing, Rates

BY_MODEL = "by-model"
PER_MILLION = 1_000_000
SHORT_TTL_US = 300_000_000
"""A price list has one price for 5-minute writes and one for longer ones (providers.md §6)."""
SLOT_US = 1_800_000_000
"""Prices of the list change on the half hour at the soonest: DeepSeek's off-peak starts at 16:30 UTC."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEAR_NAMES = 5


@dataclass(frozen=True, slots=True)
class RateCard:
    """Prices of single tokens.

    Attributes:
        currency: What the prices are in.
        base: Uncached input.
        read: Input read from the cache.
        write: Input written to it, to live 5 minutes or as long as the cache likes.
        write_1h: Input written to live longer than 5 minutes.
        output: Generated.
        source: Where the prices come from.
    """

    currency: str
    base: Decimal
    read: Decimal
    write: Decimal
    write_1h: Decimal
    output: Decimal
    source: str

    def write_for(self, ttl_us: int | None) -> Decimal:
        """Return the price of a token written under a TTL in microseconds; None lives for ever."""
        return self.write if ttl_us is None or ttl_us <= SHORT_TTL_US else self.write_1h

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


def resolve(pricing: Pricing, *, model: str | None, provider: str | None, at_us: int) -> tuple[Tier, ...]:
    """Return the rate cards of one model at one time, by length of prompt, shortest first.

    Args:
        pricing: The prices of a pool, as ``Scenario.pricing_of`` gives them.
        model: Model as logged; asked for only where rates go by model.
        provider: Provider as logged.
        at_us: Time of the request, microseconds since 1970: prices have dates.

    Raises:
        UsageError: The price list lacks the model; the nearest names are listed.
    """
    rates = pricing.rates
    if rates is None:
        return (Tier(-1, _gpu_card(pricing)),)
    if not isinstance(rates, str):
        return (Tier(-1, card_of(rates)),)
    if rates != BY_MODEL:
        return model_cards(rates, None, at_us)
    if model is None:
        raise UsageError(
            "a request names no model, so it has no rate",
            hint='give one for all: [pricing] rates = "<model>" or {base=…}',
        )
    return model_cards(model, provider, at_us)


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


def model_cards(model: str, provider: str | None, at_us: int) -> tuple[Tier, ...]:
    """Look a model up in the price list that ships with genai-prices; nothing is fetched.

    Args:
        model: Model id as a provider or a gateway writes it.
        provider: Provider as logged. One that the list does not know is a gateway: the model alone decides.
        at_us: Microseconds since 1970.

    Raises:
        UsageError: The list lacks the model.
    """
    return _listed(model, provider, at_us // SLOT_US)


@lru_cache(maxsize=65_536)
def _listed(model: str, provider: str | None, slot: int) -> tuple[Tier, ...]:
    found_provider, found = _find(model, provider)
    prices = found.get_prices(_EPOCH + timedelta(microseconds=slot * SLOT_US))
    source = f"genai-prices {version('genai-prices')}: {found_provider.id}/{found.id}"
    fields = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok")
    listed = [getattr(prices, name) for name in fields]
    if listed[0] is None:
        raise UsageError(
            f"the price list has no price for input tokens of {found.id!r}",
            hint="give the rates in [pricing]",
        )
    starts = {tier.start for price in listed if isinstance(price, types.TieredPrices) for tier in price.tiers}
    return tuple(
        Tier(above, _card([_at_length(price, above) for price in listed], source))
        for above in (-1, *sorted(starts))
    )


def _card(listed: list[Decimal | None], source: str) -> RateCard:
    base, read, write, write_1h, output = (None if price is None else price / PER_MILLION for price in listed)
    assert base is not None
    # No price of its own means that the provider charges cached or written input like any other.
    write = base if write is None else write
    return RateCard(
        currency="USD",
        base=base,
        read=base if read is None else read,
        write=write,
        write_1h=write if write_1h is None else write_1h,
        output=Decimal(0) if output is None else output,
        source=source,
    )


def _at_length(price: Any, above_tokens: int) -> Decimal | None:
    if not isinstance(price, types.TieredPrices):
        return None if price is None else Decimal(price)
    reached = [tier.price for tier in price.tiers if tier.start <= above_tokens]
    return Decimal(reached[-1] if reached else price.base)


def _find(model: str, provider: str | None) -> tuple[Any, Any]:
    snapshot = data_snapshot.get_snapshot()
    known = None
    if provider is not None:
        try:
            known = snapshot.find_provider(None, provider, None)
        except LookupError:
            known = None
    try:
        return snapshot.find_provider_model(model, known, None, None)
    except LookupError:
        where = f" of {known.id}" if known else ""
        providers = [known] if known else snapshot.providers
        names = sorted({entry.id for listed in providers for entry in listed.models})
        near = difflib.get_close_matches(model, names, n=_NEAR_NAMES)
        listing = f"near it: {', '.join(near)}" if near else "no name is near it"
        raise UsageError(
            f"no rate for the model {model!r}{where}",
            hint=f'{listing}; or give prices: [pricing] rates = "<model>" or {{base=…, write=…, read=…, output=…}}',
        ) from None


def _gpu_card(pricing: Pricing) -> RateCard:
    if pricing.gpu_hour is None or pricing.prefill_tokens_per_s is None:
        raise UsageError(
            "[pricing] has neither rates nor gpu_hour with prefill_tokens_per_s", hint="give one of them"
        )
    tokens_per_hour = Decimal(str(pricing.prefill_tokens_per_s)) * SECONDS_PER_HOUR
    token = divide(pricing.gpu_hour, tokens_per_hour)
    return RateCard("USD", token, Decimal(0), token, token, Decimal(0), "price of GPU hours")
