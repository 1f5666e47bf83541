"""The cache rules of hosted APIs as the shipped file states them, by provider, model and date."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal  # noqa: TC003  # pydantic reads it
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from prefixledger.config.pricing import Amount  # noqa: TC001  # pydantic reads it
from prefixledger.config.toml_file import Part, checked, must_exist, parse_toml, refusal, validated
from prefixledger.config.units import EPOCH, parse_duration_us

FILE = "provider_rules.toml"
_NEAR_NAMES = 5


def _duration(value: str) -> str:
    if checked(parse_duration_us, value) is None:
        raise refusal("an entry that never expires has no lifetime", "leave the key out")
    return value


Duration = Annotated[str, AfterValidator(_duration)]
Mode = Literal["implicit", "explicit"]
Texts = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
Durations = Annotated[tuple[Duration, ...], Field(strict=False, min_length=1)]


class Source(Part):
    """Where a rule was read.

    Attributes:
        title: What it is.
        day: Its date; in the file ``date``.
        at: Where it is, without ``https://``.
    """

    title: str
    day: Annotated[date, Field(alias="date")]
    at: str | None = None

    def __str__(self) -> str:
        return ", ".join(part for part in (self.title, self.at, self.day.isoformat()) if part)


class RuleRow(Part):
    """One row of the file; its head says what each key means."""

    providers: Texts
    models: Texts
    sources: Texts
    since: Annotated[date | None, Field(alias="from")] = None
    until: date | None = None
    mode: Mode | None = None
    profile: str | None = None
    minimum_tokens: Annotated[int, Field(ge=1)] | None = None
    most_tokens: Annotated[int, Field(ge=1)] | None = None
    granularity: str | None = None
    entries: Literal["marks", "messages", "blocks", "units", "created"] | None = None
    interval_tokens: Annotated[int, Field(ge=1)] | None = None
    breakpoints: Annotated[int, Field(ge=1)] | None = None
    look_back: Annotated[int, Field(ge=1)] | None = None
    ttls: Durations | None = None
    ttl_basis: Literal["fixed", "minimum", "typical", "best_effort"] | None = None
    clock: Literal["request_start", "last_use", "creation"] | None = None
    refresh: bool | None = None
    takes_ttl: bool | None = None
    visible: Literal["first_token", "response_end", "seconds_later"] | None = None
    scope: str | None = None
    scope_by: Texts | None = None
    overflow: str | None = None
    overflow_rpm: Annotated[int, Field(ge=1)] | None = None
    write: dict[Duration, Amount] | None = None
    read: Amount | None = None
    storage: Amount | None = None
    geography: dict[str, Amount] | None = None
    weekend_as: time | None = None

    def applies(self, providers: tuple[str, ...], model: str, day: date, mode: Mode) -> bool:
        """Say whether the row is about one of these providers, this model, this day and this mode."""
        return (
            self.mode in (None, mode)
            and any(fnmatchcase(name, glob) for name in providers for glob in self.providers)
            and any(fnmatchcase(dashed(model), dashed(glob)) for glob in self.models)
            and (self.since is None or self.since <= day)
            and (self.until is None or day < self.until)
        )


class RuleFile(Part):
    """The whole file."""

    schema_version: Literal[1]
    sources: dict[str, Source]
    rule: Annotated[tuple[RuleRow, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _consistent(self) -> RuleFile:
        used = set()
        for row in self.rule:
            for key in row.sources:
                must_exist(key, self.sources, "source")
                used.add(key)
            if row.since is not None and row.until is not None and row.since >= row.until:
                raise refusal("a rule ends before it begins", "from must lie before until")
            if row.write is not None and row.ttls is not None and set(row.write) - set(row.ttls):
                raise refusal("a write price for a lifetime that cannot be had", "add it to ttls")
        if idle := sorted(set(self.sources) - used):
            raise refusal(f"no rule is from {', '.join(idle)}", "leave the source out")
        return self


_OTHER_NAMES = {
    "anthropic": ("anthropic",), "aws": ("aws", "bedrock"), "bedrock": ("aws", "bedrock"),
    "azure": ("azure",), "deepseek": ("deepseek",), "gemini": ("gemini", "google"), "google": ("google", "gemini"),
    "moonshot": ("moonshotai",), "kimi": ("moonshotai",), "xai": ("x-ai",), "moonshotai": ("moonshotai",),
    "x-ai": ("x-ai",), "fireworks_ai": ("fireworks",), "together_ai": ("together",), "dashscope": ("dashscope",), "qwen": ("dashscope",),
}  # fmt: skip
"""Logs and price lists call one provider by several names."""
RESELLERS = ("openrouter",)
"""They pass requests on, and name who serves them in front of the model: ``anthropic/claude-opus-5.5``."""


@dataclass(frozen=True, slots=True)
class Said:
    """One rule that applies.

    Attributes:
        value: What it says.
        sources: Where that was read.
    """

    value: Any
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """Everything the file says of one model of one provider at one time; None: it says nothing.

    The attributes are the keys of ``RuleRow``; lifetimes are text as in scenarios.
    """

    profile: Said | None = None
    minimum_tokens: Said | None = None
    most_tokens: Said | None = None
    granularity: Said | None = None
    entries: Said | None = None
    interval_tokens: Said | None = None
    breakpoints: Said | None = None
    look_back: Said | None = None
    ttls: Said | None = None
    ttl_basis: Said | None = None
    clock: Said | None = None
    refresh: Said | None = None
    takes_ttl: Said | None = None
    visible: Said | None = None
    scope: Said | None = None
    scope_by: Said | None = None
    overflow: Said | None = None
    overflow_rpm: Said | None = None
    write: Said | None = None
    read: Said | None = None
    storage: Said | None = None
    geography: Said | None = None
    weekend_as: Said | None = None

    def said(self) -> dict[str, Said]:
        """Return what is said, by key, in the order of the file's head."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def write_by_us(self) -> dict[int, Decimal]:
        """Price of a write over the base price by lifetime in microseconds; empty where nothing is said."""
        given: dict[str, Decimal] = self.write.value if self.write else {}
        return {parse_duration_us(ttl) or 0: factor for ttl, factor in given.items()}


def dashed(model: str) -> str:
    """Return a model with dashes for dots: gateways write ``claude-opus-5.5`` where the provider has ``claude-opus-5-5``."""
    return model.replace(".", "-")


def names_of(provider: str, model: str) -> tuple[str, ...]:
    """Return the names under which rules may speak of whoever serves a model, in lower case."""
    name = provider.lower()
    if name in RESELLERS and "/" in model:
        name = model.lower().split("/")[0]
    return _OTHER_NAMES.get(name, (name,))


def knows_provider(provider: str) -> bool:
    """Say whether a rule names this provider, under any of its names."""
    if provider.lower() in RESELLERS:
        return True
    return any(name in row.providers for row in rule_file().rule for name in names_of(provider, ""))


@lru_cache(maxsize=4096)
def has_rules(provider: str, model: str) -> bool:
    """Say whether the shortest stored prefix of a model is known, on whichever day."""
    names, lower = names_of(provider, model), model.lower()
    return any(
        row.minimum_tokens is not None
        and any(fnmatchcase(name, glob) for name in names for glob in row.providers)
        and any(fnmatchcase(dashed(lower), dashed(glob)) for glob in row.models)
        for row in rule_file().rule
    )


def near_models(model: str) -> str:
    """Say which models that the rules name are near one that they do not."""
    patterns = {pattern.strip("*").lstrip("/") for row in rule_file().rule for pattern in row.models}
    named = {dashed(pattern): pattern for pattern in sorted(patterns - {""})}
    near = [named[name] for name in difflib.get_close_matches(dashed(model.lower()), named, n=_NEAR_NAMES)]
    return (
        f"models with rules near it: {', '.join(near)}" if near else "no model with rules has a name near it"
    )


@cache
def rule_file() -> RuleFile:
    """Read and check the file that ships with the package.

    Raises:
        UsageError: It is wrong; the place is line and column.
    """
    text = (files("prefixledger") / "config" / FILE).read_text(encoding="utf-8")
    return check(text)


def check(text: str, path: str = FILE) -> RuleFile:
    """Read a rule file from text; ``path`` names it in messages."""
    file = parse_toml(text, path)
    return validated(RuleFile, file, file.data)


def rules_of(provider: str, model: str, at_us: int, *, mode: Mode = "implicit") -> ProviderRules:
    """Return what applies to a model at a time.

    Args:
        provider: Provider as logged or as a price list calls it, in any case.
        model: Model as logged, in any case.
        at_us: Microseconds since 1970.
        mode: Which of two where a provider caches both what is asked for and what is not.
    """
    day = (EPOCH + timedelta(microseconds=at_us)).astimezone(UTC).date()
    return _rules(names_of(provider, model), model.lower(), day, mode)


@lru_cache(maxsize=4096)
def _rules(providers: tuple[str, ...], model: str, day: date, mode: Mode) -> ProviderRules:
    found: dict[str, Said] = {}
    file = rule_file()
    for row in file.rule:
        if row.applies(providers, model, day, mode):
            sources = tuple(file.sources[key] for key in row.sources)
            for field in fields(ProviderRules):
                value = getattr(row, field.name)
                if value is not None:
                    found[field.name] = Said(value, sources)
    return ProviderRules(**found)


def weekend_time(rules: ProviderRules, moment: datetime) -> datetime:
    """Return the moment whose prices hold: that of the rule on Saturdays and Sundays, else the moment itself."""
    if rules.weekend_as is None or moment.weekday() < 5:  # noqa: PLR2004
        return moment
    return datetime.combine(moment.date(), rules.weekend_as.value, UTC)
