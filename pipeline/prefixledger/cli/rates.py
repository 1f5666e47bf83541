"""``prefixledger rates``: what a model charges and how it caches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, talk_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from prefixledger.economics.own_gpus import OwnHit
    from prefixledger.economics.rate_sheet import RateSheet


NO_LIMIT = "any"
_MANY, _MOST = 1000, 1_000_000
_LIFETIMES = (
    "written for", "reads that pay", "mean gap below", "reads to keep", "keep it for", "chance of return", "pause below",
)  # fmt: skip
"""A write; reads of it that pay for it; mean gap below which that pays; reads that cost less than another write, how long these
keep it, and the chance of a use from which on one more pays; the pause through which one read a lifetime costs less than to
write for the shortest lifetime after it."""


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("--provider", metavar="NAME", help="Who serves it; without one the model alone decides.")
@click.option("--at", metavar="TIME", help="When, ISO 8601; prices have dates. [default: now]")
@click.option(
    "--gpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Describe GPUs of your own and the model on them (TOML): what a hit is worth there.",
)
@json_option
@talk_options
def rates(model: str, provider: str | None, at: str | None, gpus: Path | None, as_json: bool) -> None:
    """Show the prices and cache rules of a hosted model, and where each is from.

    \b
    prefixledger rates claude-opus-5-5
    prefixledger rates gemini-3.8-flash --provider google --at 2027-01-01 --json
    prefixledger rates my-70b --gpus h100.toml
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json

    sheet = api.rates(model, provider=provider, at=at, gpus=gpus)
    if as_json:
        print_json(sheet)
        return
    for line in _own(sheet.own) if sheet.own is not None else ():
        click.echo(line)
    if sheet.own is None:
        _show(sheet)


def _show(sheet: RateSheet) -> None:
    """Print what a hosted model charges and how it caches."""
    from prefixledger.cli.show import print_table

    console = data_console()
    replay = f"profile {sheet.profile}" if sheet.profile else "no profile: no rules of its cache are known"
    click.echo(f"{sheet.provider}/{sheet.listed_as} at {sheet.at:%Y-%m-%dT%H:%MZ}; replayed by: {replay}")
    number: dict[str, int] = {}
    ruled = (*sheet.rules.values(), *sheet.explicit.values())
    for source in (*sheet.price_sources, *(name for rule in ruled for name in rule.sources)):
        number.setdefault(source, len(number) + 1)
    if sheet.tiers:
        columns = ("prompts", "per million tokens", sheet.currency, "of base", "break-even")
        print_table(console, columns, _prices(sheet), (2, 3, 4))
        click.echo(f"prices from {_numbers(sheet.price_sources, number)}")
    else:
        click.echo(
            "no price: the price list lacks this model; a bill needs [pricing] rates = {base=…, write=…, read=…}"
        )
    for title, rules in (("cache rule", sheet.rules), ("explicit cache rule", sheet.explicit)):
        if rules:
            rows = [
                (name.replace("_", " "), _text(rule.value), _numbers(rule.sources, number))
                for name, rule in rules.items()
            ]
            print_table(console, (title, "value", "from"), rows)
    if lived := list(_lifetimes(sheet)):
        print_table(console, _LIFETIMES, lived, tuple(range(1, len(_LIFETIMES))))
    for line in _thresholds(sheet):
        click.echo(line)
    if sheet.explicit_profile:
        click.echo(f"what is asked for explicitly is replayed by: profile {sheet.explicit_profile}")
    for source, place in number.items():
        click.echo(f"[{place}] {source}")


def _own(hit: OwnHit) -> Iterator[str]:
    """Say what a hit is worth on GPUs of one's own."""
    yield f"a hit of {hit.prompt_tokens} tokens spares {hit.flops:.3g} operations: {hit.prefill_s:.3g} s of all cards"
    yield f"it takes {hit.kv_bytes / 1e9:.3g} GB of KV, {hit.load_s:.2g} s to load from elsewhere"
    yield f"worth {hit.cost:.2g}, {hit.cost_per_million:.2g} for a million tokens, in the currency of gpu_hour"
    yield f"[pricing] prefill_tokens_per_s = {hit.prefill_tokens_per_s:.4g}, of one card at this length"


def _numbers(sources: tuple[str, ...], number: dict[str, int]) -> str:
    return " ".join(f"[{number[source]}]" for source in sources)


def _prices(sheet: RateSheet) -> Iterator[tuple[str, str, str, str, str]]:
    for tier in sheet.tiers:
        of = (
            f"above {tier.above_tokens} tokens"
            if tier.above_tokens
            else "all"
            if len(sheet.tiers) == 1
            else "shorter"
        )
        yield of, "input", f"{tier.base.normalize():f}", "1", ""
        yield "", "read from cache", f"{tier.read.normalize():f}", f"{tier.r.normalize():f}", ""
        for ttl, price in tier.write.items():
            even = tier.break_even_hit_rate[ttl]
            share = "never" if even is None else f"{float(even):.1%}"
            kept = "written to cache" if ttl == "any" else f"written for {ttl}"
            yield "", kept, f"{price.normalize():f}", f"{tier.w[ttl].normalize():f}", share
        if tier.storage_per_hour is not None:
            yield "", "stored for an hour", f"{tier.storage_per_hour.normalize():f}", "", ""
        yield "", "output", f"{tier.output.normalize():f}", "", ""


def _lifetimes(sheet: RateSheet) -> Iterator[tuple[str, ...]]:
    """Say what the prices of the shortest prompts mean for lifetimes; other lengths differ in the base price."""
    for tier in sheet.tiers[:1]:
        for one in tier.lifetimes:
            yield (
                one.ttl,
                NO_LIMIT if one.reads_per_write is None else str(one.reads_per_write),
                NO_LIMIT if one.mean_gap_s is None else _time(float(one.mean_gap_s)),
                NO_LIMIT if one.pings is None else str(one.pings),
                NO_LIMIT if one.bridged_s is None else _time(one.bridged_s),
                NO_LIMIT if one.chance_of_return is None else f"{float(one.chance_of_return):.1%}",
                NO_LIMIT if one.pause_s is None else _time(float(one.pause_s)),
            )


def _thresholds(sheet: RateSheet) -> Iterator[str]:
    """Say when the longer lifetime, padding, writing ahead and rent pay."""
    for tier in sheet.tiers[:1]:
        if tier.long_ttl_share is not None and len(tier.lifetimes) > 1:
            short, long = tier.lifetimes[0].ttl, tier.lifetimes[-1].ttl
            yield f"{long} pays where of the gaps longer than {short} more than {float(tier.long_ttl_share):.1%} end within it"
            uses = ", ".join(f"{_time(gap_s)}: {_count(uses)}" for gap_s, uses in tier.long_ttl_uses.items())
            yield f"uses at random until {long} has made up for its dearer first write, by mean gap: {uses}"
        if tier.padding_above_tokens is not None:
            shortest = sheet.rules["minimum_tokens"].value
            yield (
                f"a prompt that is used 10 times is worth padding to {shortest} tokens from "
                f"{int(tier.padding_above_tokens) + 1} on"
            )
        if tier.uses_at_once is not None:
            yield f"writing a prefix before it is asked for pays from {tier.uses_at_once} simultaneous first uses on"
        if tier.rent_reads_per_hour is not None:
            yield f"{float(tier.rent_reads_per_hour):.3g} reads an hour pay the rent of stored tokens"


def _count(uses: Decimal | None) -> str:
    """Write a number of uses that nobody counts beyond a million."""
    if uses is None or uses > _MOST:
        return f"over {_MOST:,}"
    return f"{uses:,.0f}" if uses >= _MANY else f"{float(uses):.3g}"


def _time(seconds: float) -> str:
    """Write a time with three digits."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.3g}'):g} {unit}"
    return f"{float(f'{seconds:.3g}'):g} s"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {factor}" for key, factor in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
