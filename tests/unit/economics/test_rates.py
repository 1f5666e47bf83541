"""Rate cards from scenarios, GPU hours and the shipped price list."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from prefixledger.config.pricing import ENGINE_RATES, Pricing, Rates
from prefixledger.config.units import datetime_us
from prefixledger.economics import rates
from prefixledger.economics.rate_sheet import rate_sheet
from prefixledger.errors import UsageError

HOUR_US = 3_600_000_000


def _us(text: str) -> int:
    return datetime_us(datetime.fromisoformat(text).replace(tzinfo=UTC))


NOW = _us("2026-11-29T12:00")


def _per_million(card: rates.RateCard) -> tuple[str, ...]:
    prices = (card.base, card.read, card.write, card.write_1h)
    return tuple(f"{(price * 1_000_000).normalize():f}" for price in prices)


@pytest.mark.parametrize(
    ("model", "provider", "prices"),
    [
        ("claude-opus-5-5", "anthropic", ("4", "0.2", "5", "8")),
        ("gpt-6.1-sol", "openai", ("2", "0.1", "2.5", "5")),
        ("kimi-k3", "moonshotai", ("3", "0.3", "3", "6")),
        ("gemini-3.8-flash", "google", ("0.75", "0.075", "0.75", "0.75")),
        ("us.anthropic.claude-opus-5-5", "bedrock", ("4.4", "0.22", "5.5", "8.8")),
    ],
)
def test_listed_models(model: str, provider: str, prices: tuple[str, ...]) -> None:
    """The list gives base, read, 5-minute and 1-hour write; what has no price of its own is plain input."""
    assert _per_million(rates.model_cards(model, provider, NOW)[0].card) == prices


def test_prices_have_dates() -> None:
    """A price that changes at the turn of the year is taken as of the request."""
    before, after = (
        rates.model_cards("gemini-3.8-flash", "google", _us(day))[0].card
        for day in ("2026-12-31T23:59", "2027-01-01T00:00")
    )
    assert after.base == 2 * before.base


def test_prices_have_times_of_day() -> None:
    """An off-peak hour of the same day has a price of its own."""
    peak, off = (
        rates.model_cards("deepseek-flash", "deepseek", _us(at))[0].card
        for at in ("2026-11-27T02:00", "2026-11-27T12:00")
    )
    assert (peak.base, off.base) == (Decimal("0.3") / 1_000_000, Decimal("0.15") / 1_000_000)


def test_long_prompts_fall_into_another_tier() -> None:
    """The whole prompt is charged by its tier: 100,000 tokens are the cheap one, one more is not."""
    short, long = rates.model_cards("claude-haiku-5-5", "anthropic", NOW)
    assert (short.above_tokens, long.above_tokens) == (-1, 100_000)
    assert _per_million(short.card) == ("0.1", "0.01", "0.125", "0.2")
    assert _per_million(long.card) == ("0.5", "0.05", "0.625", "1")


def test_a_gateway_is_no_provider() -> None:
    """Under a provider that the list does not know, the model alone decides."""
    assert rates.model_cards("claude-opus-5-5", "my-gateway", NOW) == rates.model_cards(
        "claude-opus-5-5", "anthropic", NOW
    )


def test_an_unknown_model_is_an_error_with_near_names() -> None:
    """A model without a rate is named, with the names nearest to it; nothing is taken in its place."""
    with pytest.raises(UsageError, match="claude-opos-5-5") as caught:
        rates.resolve(Pricing(rates="by-model"), model="claude-opos-5-5", provider="anthropic", at_us=NOW)
    assert "claude-opus-5-5" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("model", "provider", "listed"),
    [
        ("anthropic/claude-sonnet-4-5", None, "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", None, "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic", "anthropic/claude-sonnet-4-5"),
        ("openai/gpt-5.5", "openai", "openai/gpt-5.5"),
        ("azure/gpt-4o", None, "azure/gpt-4o"),
        ("vertex_ai/gemini-2.5-pro", "vertex", "google/gemini-2.5-pro"),
        ("bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0", None,
         "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic/claude-sonnet-4.5", "openrouter", "openrouter/anthropic/claude-sonnet-4.5"),
        ("openrouter/anthropic/claude-sonnet-4.5", None, "openrouter/anthropic/claude-sonnet-4.5"),
        ("anthropic/claude-sonet", None, None),
        ("nobody/claude-sonnet-4-5", None, None),
        ("azure/my-deployment", "azure", None),
        ("qwen/qwen3-32b", None, None),
    ],
)  # fmt: skip
def test_gateways_name_who_serves_a_model_in_front_of_it(
    model: str, provider: str | None, listed: str | None
) -> None:
    """The sheet and the bill take the price of that provider, and of no other; what it does not have is unknown."""
    if listed is None:
        with pytest.raises(UsageError, match="no rate for the model"):
            rate_sheet(model, provider, NOW)
        return
    sheet, found = rate_sheet(model, provider, NOW), rates.listed_model(model, provider, NOW)
    assert f"{sheet.provider}/{sheet.listed_as}" == f"{found.provider}/{found.model}" == listed


def test_by_model_needs_a_model() -> None:
    """A request without a model has no rate of its own."""
    with pytest.raises(UsageError, match="names no model"):
        rates.resolve(Pricing(rates="by-model"), model=None, provider="openai", at_us=NOW)


def test_one_model_for_all() -> None:
    """Rates that name a model apply to every row, whatever it says."""
    pricing = Pricing(rates="claude-opus-5-5")
    (tier,) = rates.resolve(pricing, model="llama", provider="vllm", at_us=NOW)
    assert tier.card.base == Decimal(4) / 1_000_000
    assert rates.varies(pricing)


def test_rates_of_a_scenario() -> None:
    """Base and output are per million; write and read are multiples of base."""
    given = Rates(base=Decimal(3), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(15))
    (tier,) = rates.resolve(Pricing(rates=given), model=None, provider=None, at_us=NOW)
    card = tier.card
    assert _per_million(card) == ("3", "0.3", "3.75", "3.75")
    assert card.output == Decimal("0.000015")
    assert (card.w(), card.r) == (Decimal("1.25"), Decimal("0.1"))


def test_engine_default_counts_prefill_tokens() -> None:
    """An engine charges one prefill token for each token it computes, and nothing for reads and output."""
    card = rates.card_of(ENGINE_RATES)
    assert (card.currency, card.base, card.read, card.write, card.output) == ("prefill tokens", 1, 0, 1, 0)


def test_price_of_gpu_hours() -> None:
    """2.5 an hour at 10,000 prefilled tokens a second are 2.5 for 36 million tokens."""
    (tier,) = rates.resolve(
        Pricing(gpu_hour=Decimal("2.5"), prefill_tokens_per_s=10_000.0), model=None, provider=None, at_us=NOW
    )
    assert tier.card.base * 36_000_000 == pytest.approx(Decimal("2.5"))
    assert (tier.card.read, tier.card.output) == (0, 0)


def test_no_price_at_all_is_an_error() -> None:
    """Half a GPU price is none."""
    with pytest.raises(UsageError, match="neither rates nor gpu_hour"):
        rates.resolve(Pricing(gpu_hour=Decimal(1)), model=None, provider=None, at_us=NOW)


@pytest.mark.parametrize(("ttl_us", "price"), [(None, "5"), (HOUR_US // 12, "5"), (HOUR_US, "8")])
def test_a_long_ttl_has_its_own_write_price(ttl_us: int | None, price: str) -> None:
    """Writes that live longer than 5 minutes are charged as 1-hour writes."""
    card = rates.model_cards("claude-opus-5-5", "anthropic", NOW)[0].card
    assert card.write_for(ttl_us) * 1_000_000 == Decimal(price)


def test_free_input_has_no_ratios() -> None:
    """Where input is free, reads and writes cost as much as it."""
    free = rates.RateCard("USD", *(Decimal(0) for _ in range(5)), source="")
    assert (free.w(), free.r) == (1, 0)


@pytest.mark.parametrize(
    ("model", "provider", "tier", "prices"),
    [
        ("claude-opus-5-5", "anthropic", "batch", ("2", "0.1", "2.5", "4")),
        ("gpt-6.1-sol", "openai", "BATCH", ("1", "0.05", "1.25", "2.5")),
        ("gpt-6.1-sol", "openai", "default", ("2", "0.1", "2.5", "5")),
        # Batches of Gemini 2.5 Pro pay half for input and the standard price for reads.
        ("gemini-2.5-pro", "google", "batch", ("0.625", "0.125", "0.625", "0.625")),
    ],
)
def test_service_tiers_have_prices_of_their_own(
    model: str, provider: str, tier: str, prices: tuple[str, ...]
) -> None:
    """Batches pay what the list says of them, reads and writes each by itself; a standard tier changes nothing."""
    assert _per_million(rates.listed_model(model, provider, NOW, tier).tiers[0].card) == prices


def test_a_tier_without_a_price_says_so() -> None:
    """No price for priority is no reason to guess one: the standard price, and the source says it."""
    card = rates.listed_model("claude-haiku-4-5", "anthropic", NOW, "priority").tiers[0].card
    assert card.base * 1_000_000 == 1
    assert "priority at the standard price" in card.source


def test_factors_discount_and_currency() -> None:
    """Batch 0.5, region 1.1, 20 % off, 0.9 EUR for a dollar: 4 dollars are 4 · 0.5 · 1.1 · 0.8 · 0.9 = 1.584 EUR."""
    pricing = Pricing(
        rates="claude-opus-5-5", batch_factor=0.5, region_factor=1.1, discount=0.2, currency="EUR", exchange_rate=0.9
    )  # fmt: skip
    ((tier),) = rates.resolve(pricing, model=None, provider=None, at_us=NOW, service_tier="batch")
    assert _per_million(tier.card)[0] == "1.584"
    assert tier.card.currency == "EUR"
    assert tier.card.r == Decimal("0.05")
    assert "less 20 %" in tier.card.source
    ((standard),) = rates.resolve(pricing, model=None, provider=None, at_us=NOW)
    assert _per_million(standard.card)[0] == "3.168"


@pytest.mark.parametrize(
    ("model", "provider", "geo", "factor", "base"),
    [
        ("claude-opus-5-5", "anthropic", "us", None, "4.4"),
        ("claude-opus-5-5", "anthropic", "global", None, "4"),
        ("claude-opus-5-5", "anthropic", "us", "1.2", "4.8"),
        ("gpt-6.1-sol", "openai", "us", None, "2"),
    ],
    ids=["where it must be", "anywhere", "as the scenario says", "nothing is said of it"],
)
def test_where_it_was_computed_has_a_price(
    model: str, provider: str, geo: str, factor: str | None, base: str
) -> None:
    """What the service says of its place decides, unless the scenario gives the factor; never both."""
    pricing = Pricing(rates="by-model", region_factor=None if factor is None else Decimal(factor))
    found = rates.resolve(pricing, model=model, provider=provider, at_us=NOW, geo=geo)
    assert _per_million(found[0].card)[0] == base
    assert ("pricing, platform.claude.com" in found[0].card.source) == (base == "4.4")


def test_prefill_tokens_are_no_money() -> None:
    """A discount on an invoice does not make fewer tokens of those that an engine computes."""
    pricing = Pricing(rates=ENGINE_RATES, discount=0.2, currency="EUR", exchange_rate=0.9)
    ((tier),) = rates.resolve(pricing, model=None, provider=None, at_us=NOW)
    assert (tier.card.base, tier.card.currency) == (1, "prefill tokens")


def test_a_currency_needs_a_rate() -> None:
    """Amounts in another currency are never made without a rate that was given."""
    with pytest.raises(ValueError, match="go together"):
        Pricing(currency="EUR")
