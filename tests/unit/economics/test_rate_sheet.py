"""The answer of ``prefixledger rates``: prices, rules and their sources."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from prefixledger import api
from prefixledger.cli import app
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_twelve_hours_cost_two_and_a_half_times() -> None:
    """The price list lacks OpenAI's 12-hour writes; the sheet has them, and says where from."""
    sheet = api.rates("gpt-6.1-sol", provider="openai", at="2026-11-29")
    assert [tier.above_tokens for tier in sheet.tiers] == [0, 272_000]
    assert sheet.tiers[0].write == {"30m": Decimal("2.5"), "12h": Decimal(5)}
    assert sheet.tiers[0].w == {"30m": Decimal("1.25"), "12h": Decimal("2.5")}
    assert sheet.tiers[1].write == {"30m": Decimal(5), "12h": Decimal(10)}
    assert any("LiteLLM 1.110.2" in source for source in sheet.price_sources)
    assert sheet.price_sources[0].startswith("genai-prices")
    assert sheet.profile == "openai"


@pytest.mark.parametrize(
    ("at", "read"), [("2026-10-06", "0.2"), ("2026-10-07", "0.1")], ids=["before", "after"]
)
def test_sonnet_reads_were_dearer_before_october(at: str, read: str) -> None:
    """One undated row of the price list under-prices the older half of a log."""
    assert api.rates("claude-sonnet-5-5", at=at).tiers[0].read == Decimal(read)


@pytest.mark.parametrize(
    ("at", "base"),
    [("2026-11-27T02:00Z", "0.30"), ("2026-11-28T02:00Z", "0.15"), ("2026-11-29T07:00Z", "0.15")],
    ids=["Friday", "Saturday", "Sunday"],
)
def test_weekends_are_off_peak(at: str, base: str) -> None:
    """DeepSeek has no peak on Saturday and Sunday."""
    assert api.rates("deepseek-flash", provider="deepseek", at=at).tiers[0].base == Decimal(base)


def test_storage_has_a_rent() -> None:
    """Neither price list has Gemini's rent per hour; it changes with the year."""
    old, new = (
        api.rates("gemini-3.8-flash", provider="google", at=at).tiers[0].storage_per_hour
        for at in ("2026-12-31", "2027-01-01")
    )
    assert (old, new) == (Decimal("0.5"), Decimal(1))
    assert api.rates("claude-opus-5-5", at="2026-11-29").tiers[0].storage_per_hour is None


@pytest.mark.parametrize(
    ("model", "short", "long"),
    [
        ("claude-opus-4-8", "0.2174", "0.5263"),
        ("claude-opus-5-5", "0.2083", "0.5128"),
        ("claude-fable-5-1", "0.2041", "0.5063"),
    ],
)
def test_break_evens_of_claude(model: str, short: str, long: str) -> None:
    """Break-even hit rates follow from w and r of the model."""
    even = api.rates(model, at="2026-11-29").tiers[0].break_even_hit_rate
    assert [f"{even[ttl]:.4f}" for ttl in ("5m", "1h")] == [short, long]


def test_what_prices_mean_for_lifetimes(capsys: pytest.CaptureFixture[str]) -> None:
    """Pings of both lifetimes and the share of gaps for the longer; the reads that pay a rent; nothing where all is one price."""
    assert app.run(["rates", "claude-opus-5-5", "--at", "2026-11-29"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "5m 1 21.4 min 23 2 h 4.2% 2 h",
        "1h 2 83.4 min 38 39 h 2.6% 24 h",
        "longer than 5m more than 38.5%",
        "by mean gap: 30 s: 13,768, 60 s: 93.8, 2 min: 8.61, 5 min: 2.7",
        "worth padding to 512 tokens from 88 on",
        "pays from 2 simultaneous first uses on",
    ):
        assert words in shown
    assert api.rates("gpt-4o", at="2026-11-29").tiers[0].long_ttl_share is None


@pytest.mark.parametrize(
    ("model", "tier", "reads"),
    [
        ("gemini-2.5-pro", 0, "4.0"),
        ("gemini-2.5-pro", 1, "2.0"),
        ("gemini-2.5-flash", 0, "3.7"),
        ("gemini-2.5-flash-lite", 0, "11.1"),
        ("gemini-3.1-pro-preview", 0, "2.5"),
        ("gemini-3.8-flash", 0, "0.7"),
    ],
)
def test_reads_that_pay_the_rent(model: str, tier: int, reads: str) -> None:
    """By the prices of the list and the rents of the rules, above a cliff, too."""
    found = api.rates(model, provider="google", at="2026-11-29").tiers[tier].rent_reads_per_hour
    assert f"{found:.1f}" == reads


def test_a_model_that_is_not_cached_gets_no_cache_price() -> None:
    """A family's write price is no price of a member that the list says nothing of."""
    tier = api.rates("claude-2", at="2026-11-29").tiers[0]
    assert {*tier.write.values(), tier.read} == {tier.base}


def test_rates_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout is one JSON document with every rule and its sources."""
    assert app.run(["rates", "claude-opus-4-7", "--at", "2026-11-29", "--json"]) == 0
    sheet = json.loads(capsys.readouterr().out)
    assert sheet["rules"]["minimum_tokens"]["value"] == 2048
    assert "2026-08-22" in sheet["rules"]["minimum_tokens"]["sources"][0]
    assert sheet["tiers"][0]["write"] == {"5m": 6.25, "1h": 10}


def test_rates_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The cliff, both lifetimes and the numbered sources are shown."""
    assert app.run(["rates", "claude-haiku-5-5", "--at", "2026-11-29"]) == 0
    shown = capsys.readouterr().out
    for words in ("above 100000 tokens", "written for 1h", "21.7%", "minimum tokens", "[1] genai-prices"):
        assert words in shown


def test_an_unknown_model_is_refused_with_near_names() -> None:
    """Never a guess: exit 2, and what is near."""
    with pytest.raises(UsageError, match=r"gpt-6\.2-sol") as caught:
        api.rates("gpt-6.2-sol", provider="openai")
    assert "gpt-6.1-sol" in (caught.value.hint or "")


def test_what_is_asked_for_explicitly_has_rules_of_its_own() -> None:
    """A cached content ends an hour after it was made; what Gemini caches unasked has no clock."""
    sheet = api.rates("gemini-2.5-pro", at="2026-11-29")
    assert (sheet.profile, sheet.explicit_profile) == ("gemini-implicit", "gemini-explicit")
    assert "clock" not in sheet.rules
    assert (sheet.explicit["clock"].value, sheet.explicit["refresh"].value) == ("creation", False)
    assert sheet.tiers[0].storage_per_hour == Decimal("4.5")
    assert api.rates("claude-opus-5-5", at="2026-11-29").explicit == {}


def test_rules_without_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    """The price list lacks Model Studio: its rules are shown, and that a bill needs rates; a wrong name stays an error."""
    assert app.run(["rates", "qwen3.7-max", "--provider", "dashscope", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["profile"], shown["explicit_profile"], shown["tiers"]) == (
        "qwen-implicit",
        "qwen-explicit",
        [],
    )
    assert shown["explicit"]["write"]["value"] == {"5m": 1.25}
    with pytest.raises(UsageError, match="no rate"):
        api.rates("qwertz", provider="dashscope")


def test_a_hit_on_gpus_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """70 billion parameters, 32k tokens, 8 cards at half of 989 TFLOP/s: 6.0e15 operations, 1.5 s, 10.7 GB, 0.84 cents a hit."""
    file = tmp_path / "h100.toml"
    file.write_text(
        "parameters = 70e9\nhidden_size = 8192\ngpus = 8\ntflops = 989\ngpu_hour = 2.5\n"
        "model = { layers = 80, kv_heads = 8, head_dim = 128 }\n"
    )
    own = api.rates("my-70b", gpus=file).own
    assert own is not None
    assert (f"{own.flops:.1e}", f"{own.prefill_s:.1f}", f"{own.kv_bytes / 1e9:.1f}") == (
        "6.0e+15",
        "1.5",
        "10.7",
    )
    assert (f"{own.load_s:.1f}", f"{own.cost:.4f}", f"{own.cost_per_million:.2f}") == (
        "0.2",
        "0.0084",
        "0.26",
    )
    # The speed that a scenario's prices take gives the same cost: tokens / speed / 3600 hours of a card at 2.5.
    assert 32_768 / own.prefill_tokens_per_s / 3600 * 2.5 == pytest.approx(own.cost)
    assert app.run(["rates", "my-70b", "--gpus", str(file)]) == 0
    assert "prefill_tokens_per_s = 2703" in capsys.readouterr().out
    file.write_text("parameters = 0\n")
    with pytest.raises(UsageError, match=r"greater than 0"):
        api.rates("my-70b", gpus=file)
