"""What one model of one provider charges and how it caches at one time, and where each of that is from."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from prefixledger.config.provider_rules import rules_of
from prefixledger.config.units import parse_duration_us, us_datetime
from prefixledger.economics import lifetimes
from prefixledger.economics.formulas import break_even_hit_rate, break_even_uses
from prefixledger.economics.own_gpus import OwnHit, own_hit
from prefixledger.economics.price_list import lists_provider
from prefixledger.economics.rates import PER_MILLION, Listed, listed_model
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from prefixledger.config.own_gpus import OwnGpus
    from prefixledger.config.provider_rules import ProviderRules
    from prefixledger.economics.rates import RateCard

MEAN_GAPS_S = (30, 60, 120, 300)
"""Of loops whose first write for the longer time is set against what it saves later."""
_PADDED_USES = 10
_PRICES = ("write", "read", "storage", "weekend_as")
"""Rules that are in the prices already."""


@dataclass(frozen=True, slots=True)
class SheetLifetime:
    """What a lifetime is worth at its price.

    Attributes:
        ttl: The lifetime.
        reads_per_write: Reads of one entry that pay for its write.
        mean_gap_s: Mean gap of uses at random below which caching pays, seconds; None: always.
        pings: Reads that only keep an entry alive and together cost less than to write it again; None: any number.
        bridged_s: How long these keep it, seconds.
        chance_of_return: Chance of a use within the next lifetime from which on one more such read pays.
        pause_s: Pause through which one read a lifetime costs less than to write for the shortest lifetime after it.
    """

    ttl: str
    reads_per_write: int | None
    mean_gap_s: Decimal | None
    pings: int | None
    bridged_s: int | None
    chance_of_return: Decimal | None
    pause_s: Decimal | None


@dataclass(frozen=True, slots=True)
class SheetTier:
    """Prices of prompts of one range of length, per million tokens.

    Attributes:
        above_tokens: For prompts longer than this; 0 for all.
        base: Uncached input.
        read: Input read from the cache.
        write: Input written to it, by lifetime.
        output: Generated.
        storage_per_hour: Rent of stored tokens; None where there is none or it is not known.
        r: Read over base.
        w: Write over base, by lifetime.
        break_even_hit_rate: Hit rate from which on caching costs no more than none, by lifetime.
        most_pings: Reads that only keep an entry alive and together cost less than to write it again, by lifetime.
        long_ttl_share: Share of the gaps that outlive the shortest lifetime which must end within the longest for that one
            to pay; None where there is one price of writes.
        rent_reads_per_hour: Reads an hour that pay the rent of stored tokens; None where there is none.
        lifetimes: What each lifetime with a write premium comes to, the shortest first.
        long_ttl_uses: By mean gap in seconds: uses at random after which the longest lifetime has made up for its dearer first
            write over the shortest; None: it never does. Empty where there is one price of writes.
        padding_above_tokens: Length above which a prompt used ten times is worth padding to the shortest one that is stored.
        uses_at_once: Simultaneous first uses from which on writing the prefix before them pays.
    """

    above_tokens: int
    base: Decimal
    read: Decimal
    write: dict[str, Decimal]
    output: Decimal
    storage_per_hour: Decimal | None
    r: Decimal
    w: dict[str, Decimal]
    break_even_hit_rate: dict[str, Decimal | None]
    most_pings: dict[str, int | None]
    long_ttl_share: Decimal | None
    rent_reads_per_hour: Decimal | None
    lifetimes: tuple[SheetLifetime, ...]
    long_ttl_uses: dict[int, Decimal | None]
    padding_above_tokens: Decimal | None
    uses_at_once: int | None


@dataclass(frozen=True, slots=True)
class SheetRule:
    """One cache rule.

    Attributes:
        value: What holds.
        sources: Where it was read, with dates.
    """

    value: Any
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RateSheet:
    """Answer of ``prefixledger rates``.

    Attributes:
        model: Model as asked for.
        provider: Provider in the price list.
        listed_as: Model in the price list.
        at: The time asked about.
        currency: What the prices are in.
        price_sources: Where the prices are from.
        tiers: Prices by length of prompt, shortest first; empty where only the rules are known.
        rules: Cache rules by name.
        profile: Replay profile that follows these rules; None: they cannot be replayed.
        explicit: Cache rules of what is asked for explicitly, where these are others.
        explicit_profile: Replay profile that follows those.
        own: What a hit is worth on GPUs of one's own; None where none were described.
    """

    model: str
    provider: str
    listed_as: str
    at: datetime
    currency: str
    price_sources: tuple[str, ...]
    tiers: tuple[SheetTier, ...]
    rules: dict[str, SheetRule]
    profile: str | None
    explicit: dict[str, SheetRule]
    explicit_profile: str | None
    own: OwnHit | None = None


def own_sheet(model: str, at_us: int, given: OwnGpus) -> RateSheet:
    """Say what a hit of a model is worth on GPUs of one's own; no list has a price of those."""
    return RateSheet(
        model=model,
        provider="own GPUs",
        listed_as=model,
        at=us_datetime(at_us),
        currency="",
        price_sources=(),
        tiers=(),
        rules={},
        profile=None,
        explicit={},
        explicit_profile=None,
        own=own_hit(given),
    )


def rate_sheet(model: str, provider: str | None, at_us: int) -> RateSheet:
    """Look up what applies to a model at a time.

    Args:
        model: Model as a provider or gateway writes it.
        provider: Provider; None: the model alone decides.
        at_us: Microseconds since 1970.

    Raises:
        UsageError: The price list lacks the model; the nearest names are listed.
    """
    try:
        found = listed_model(model, provider, at_us)
    except UsageError:
        # How some cache is known whom the price list lacks; whom it has, it has with all models.
        rules = None if provider is None or lists_provider(provider) else rules_of(provider, model, at_us)
        if provider is None or rules is None or rules.profile is None:
            raise
        found = Listed(provider.lower(), model, rules, ())
    cards = [tier.card for tier in found.tiers]
    explicit = rules_of(found.provider, found.model, at_us, mode="explicit")
    alike = explicit.profile is None or explicit.profile == found.rules.profile
    return RateSheet(
        model=model,
        provider=found.provider,
        listed_as=found.model,
        at=us_datetime(at_us),
        currency=cards[0].currency if cards else "",
        price_sources=tuple(cards[0].source.split("; ")) if cards else (),
        tiers=tuple(_tier(max(0, tier.above_tokens), tier.card, found.rules) for tier in found.tiers),
        rules=_rules(found.rules, priced=bool(cards)),
        profile=found.rules.profile.value if found.rules.profile else None,
        explicit={} if alike else _rules(explicit, priced=bool(cards)),
        explicit_profile=None if alike or explicit.profile is None else explicit.profile.value,
    )


def _rules(rules: ProviderRules, *, priced: bool) -> dict[str, SheetRule]:
    left_out = ("profile", *(_PRICES if priced else ()))
    return {
        name: SheetRule(said.value, tuple(map(str, said.sources)))
        for name, said in rules.said().items()
        if name not in left_out
    }


def _tier(above_tokens: int, card: RateCard, rules: ProviderRules) -> SheetTier:
    written = dict(zip(_lifetimes(card, rules), (card.write, card.write_1h), strict=False))
    w = {ttl: price / card.base if card.base else Decimal(1) for ttl, price in written.items()}
    cheapest, dearest = min(w.values()), max(w.values())
    minimum = rules.minimum_tokens.value if rules.minimum_tokens else None
    return SheetTier(
        above_tokens=above_tokens,
        base=card.base * PER_MILLION,
        read=card.read * PER_MILLION,
        write={ttl: price * PER_MILLION for ttl, price in written.items()},
        output=card.output * PER_MILLION,
        storage_per_hour=None if card.storage_hour is None else card.storage_hour * PER_MILLION,
        r=card.r,
        w=w,
        break_even_hit_rate={ttl: break_even_hit_rate(w=factor, r=card.r) for ttl, factor in w.items()},
        most_pings={ttl: lifetimes.most_pings(w=factor, r=card.r) for ttl, factor in w.items()},
        long_ttl_share=lifetimes.long_ttl_share(w_short=cheapest, w_long=dearest, r=card.r),
        rent_reads_per_hour=None
        if card.storage_hour is None or not card.base
        else lifetimes.reads_that_pay_rent(card.storage_hour, card.base, r=card.r),
        lifetimes=tuple(
            _lifetime(ttl, factor, w_again=cheapest, r=card.r) for ttl, factor in w.items() if ttl != "any"
        ),
        long_ttl_uses=_long_ttl_uses(w, card.r),
        padding_above_tokens=None
        if minimum is None or cheapest <= 1
        else lifetimes.padding_pays_above_tokens(minimum, _PADDED_USES, w=cheapest, r=card.r),
        uses_at_once=lifetimes.least_uses_at_once(w=cheapest, r=card.r) if cheapest > 1 else None,
    )


def _lifetime(ttl: str, w: Decimal, *, w_again: Decimal, r: Decimal) -> SheetLifetime:
    """Say what a lifetime comes to; ``w_again`` is the price of the write after a pause that nobody bridged."""
    ttl_s = (parse_duration_us(ttl) or 0) // 1_000_000
    uses, even = break_even_uses(w=w, r=r), break_even_hit_rate(w=w, r=r)
    pings = lifetimes.most_pings(w=w, r=r)
    return SheetLifetime(
        ttl=ttl,
        reads_per_write=None if uses is None else uses - 1,
        mean_gap_s=None if even is None else lifetimes.longest_mean_gap_s(even, ttl_s),
        pings=pings,
        bridged_s=None if pings is None else lifetimes.bridged_s(pings, ttl_s),
        chance_of_return=lifetimes.least_chance_of_return(w=w, r=r),
        pause_s=lifetimes.longest_pause_s(ttl_s, w_again=w_again, r=r),
    )


def _long_ttl_uses(w: dict[str, Decimal], r: Decimal) -> dict[int, Decimal | None]:
    if len(w) < 2:  # noqa: PLR2004
        return {}
    short, long = (
        ((parse_duration_us(ttl) or 0) // 1_000_000, w[ttl])
        for ttl in (min(w, key=w.__getitem__), max(w, key=w.__getitem__))
    )
    return {gap_s: lifetimes.uses_for_a_long_ttl(Decimal(gap_s), short, long, r=r) for gap_s in MEAN_GAPS_S}


def _lifetimes(card: RateCard, rules: ProviderRules) -> tuple[str, ...]:
    """Name the lifetimes that ``write`` and ``write_1h`` of a card pay for."""
    if rules.write is not None:
        return tuple(
            sorted(rules.write.value, key=lambda ttl: rules.write_by_us[parse_duration_us(ttl) or 0])
        )
    return ("any",) if card.write == card.write_1h else ("5m", "1h")
