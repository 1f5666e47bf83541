"""The shipped file of cache rules: complete, dated, and later rows over earlier ones."""

from __future__ import annotations

from decimal import Decimal

import pytest

from prefixledger.config import provider_rules as rules
from prefixledger.config.registry import PROFILES
from prefixledger.config.units import parse_time_us
from prefixledger.errors import UsageError

NOW = parse_time_us("2026-11-29")


def _of(provider: str, model: str, at: str = "2026-11-29") -> dict[str, object]:
    return {
        name: said.value for name, said in rules.rules_of(provider, model, parse_time_us(at)).said().items()
    }


@pytest.mark.parametrize(
    ("provider", "model", "tokens"),
    [
        ("anthropic", "claude-opus-5-5", 512),
        ("anthropic", "claude-opus-5-20260701", 512),
        ("anthropic", "claude-fable-5-1", 512),
        ("anthropic", "claude-sonnet-5", 1024),
        ("anthropic", "claude-sonnet-5-5", 512),
        ("anthropic", "claude-sonnet-4-5-20250929", 1024),
        ("anthropic", "claude-opus-4-7", 2048),
        ("bedrock", "us.anthropic.claude-opus-4-7-v1:0", 4096),
        ("aws", "global.anthropic.claude-opus-4-7-v1:0", 4096),
        ("anthropic", "claude-haiku-4-5", 4096),
        ("anthropic", "claude-haiku-5-5", 512),
        ("openai", "gpt-6.1-sol", 1024),
        ("google", "gemini-2.5-pro", 2048),
        ("google", "gemini-3.8-flash", 4096),
    ],
)
def test_siblings_have_minimums_of_their_own(provider: str, model: str, tokens: int) -> None:
    """The minimum is that of the model and the platform."""
    assert _of(provider, model)["minimum_tokens"] == tokens


def test_every_row_says_where_and_when_it_was_read() -> None:
    """Every rule has a source with a date, and no source stands idle."""
    file = rules.rule_file()
    assert len(file.rule) > 30
    for row in file.rule:
        assert [file.sources[key].day.year for key in row.sources] == [2026] * len(row.sources)


def test_rules_have_dates() -> None:
    """Sonnet 5.5 was read at a tenth until 7 October; Gemini's rent doubles with the year."""
    assert _of("anthropic", "claude-sonnet-5-5", "2026-10-06T23:59:59Z")["read"] == Decimal("0.1")
    assert "read" not in _of("anthropic", "claude-sonnet-5-5", "2026-10-07")
    assert _of("google", "gemini-3.8-flash", "2026-12-31T23:59Z")["storage"] == Decimal("0.5")
    assert _of("google", "gemini-3.8-flash", "2027-01-01")["storage"] == Decimal("1.0")


def test_every_rule_names_a_profile_that_exists() -> None:
    """Whatever has a minimum can be replayed, and each profile finds the rules that it is named for."""
    assert _of("vertex", "claude-opus-5-5@20260923")["profile"] == "anthropic"
    assert _of("azure", "gpt-5.6-sol")["profile"] == _of("openai", "gpt-5.5")["profile"] == "openai"
    named = {row.profile for row in rules.rule_file().rule if row.profile is not None}
    assert named == {name for name, profile in PROFILES.items() if profile.hosted}
    for name, profile in PROFILES.items():
        if profile.hosted:
            found = rules.rules_of(profile.home, profile.family, NOW, mode=profile.mode)
            assert found.profile is not None
            assert found.profile.value == name


def test_generations_have_rules_of_their_own() -> None:
    """What holds for one model of a provider does not hold for its older or newer ones."""
    old, middle, new = (_of("openai", model) for model in ("gpt-4o-mini", "gpt-5.5", "gpt-6.1-sol"))
    assert [each["entries"] for each in (old, middle, new)] == ["blocks", "blocks", "messages"]
    assert (old["interval_tokens"], middle["interval_tokens"]) == (128, 2048)
    assert [each["ttl_basis"] for each in (old, middle, new)] == ["typical", "typical", "minimum"]
    assert _of("azure", "gpt-5.4")["ttls"][0] == "10m"
    assert _of("azure", "gpt-5.5")["ttls"][0] == "30m"


def test_modes_do_not_mix() -> None:
    """What Gemini caches unasked has no clock of its own; what is created ends an hour after that."""
    implicit = rules.rules_of("google", "gemini-3.8-flash", NOW)
    explicit = rules.rules_of("google", "gemini-3.8-flash", NOW, mode="explicit")
    assert (implicit.clock, implicit.ttl_basis.value) == (None, "best_effort")
    assert (explicit.clock.value, explicit.refresh.value, explicit.ttls.value) == ("creation", False, ("1h",))
    assert rules.rules_of("dashscope", "qwen3.7-max", NOW).read.value == Decimal("0.2")
    assert rules.rules_of("dashscope", "qwen3.7-max", NOW, mode="explicit").read.value == Decimal("0.1")


def test_a_reseller_follows_whom_it_names() -> None:
    """The name in front of the model says whose rules hold."""
    assert _of("openrouter", "anthropic/claude-opus-4.5") == _of("anthropic", "claude-opus-4-5")
    assert "minimum_tokens" not in _of("openrouter", "nobody/model-1")


def test_near_models() -> None:
    """A name that is wrong by a letter is found."""
    assert "claude-opus-4-7" in rules.near_models("claude-opsu-4-7")
    assert "no model" in rules.near_models("zzzz")


def test_gateways_write_dots_for_dashes() -> None:
    """A model is found under either spelling."""
    assert _of("anthropic", "anthropic/claude-opus-4.5") == _of("anthropic", "claude-opus-4-5")


def test_writes_by_lifetime() -> None:
    """OpenAI's own API sells 12 hours, Azure does not."""
    hour_us = 3_600_000_000
    assert rules.rules_of("openai", "gpt-6-sol", NOW).write_by_us == {
        hour_us // 2: Decimal("1.25"),
        12 * hour_us: Decimal("2.5"),
    }
    assert list(rules.rules_of("azure", "gpt-6-sol", NOW).write_by_us) == [hour_us // 2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('providers = ["p"]\nmodels = ["m"]\nsources = ["B"]', "no source 'B'"),
        ('providers = ["p"]\nmodels = ["m"]\nsources = ["A"]\nminimum = 3', "unknown key"),
        ('providers = ["p"]\nmodels = ["m"]\nsources = ["A"]\nttls = ["5 parsecs"]', "not a duration"),
        (
            'providers = ["p"]\nmodels = ["m"]\nsources = ["A"]\nttls = ["5m"]\nwrite = { "1h" = 2 }',
            "lifetime",
        ),
        (
            'providers = ["p"]\nmodels = ["m"]\nsources = ["A"]\nfrom = 2026-02-01\nuntil = 2026-01-01',
            "ends before",
        ),
    ],
)
def test_a_wrong_file_is_refused(row: str, message: str) -> None:
    """Unknown keys and sources, lifetimes without a meaning and empty spans are errors with a place."""
    head = 'schema_version = 1\n[sources]\nA = { title = "a page", date = 2026-01-01 }\n[[rule]]\n'
    with pytest.raises(UsageError, match=message) as caught:
        rules.check(head + row)
    assert caught.value.place is not None
