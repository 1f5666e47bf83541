"""A scenario file is read to the last key, or refused with the place and the way out."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.config.registry import PROFILES, ROUTINGS
from prefixledger.config.scenario import (
    ENGINE_RATES,
    Cache,
    Fleet,
    Match,
    Pool,
    Pricing,
    Rates,
    Scenario,
    default_scenario,
    dump,
    load_scenario,
    parse_scenario,
)
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
name = "as-is"
[[pool]]
match = { provider = "vllm", replica = ["h100-*", "h200-*"] }
[pool.cache]
profile = "vllm"
capacity = "60000 blocks"
ttl = "none"
[pool.fleet]
routing = "as-logged"
replicas = 8
[pool.in_flight]
residence = "auto"
output = "auto"
[[pool]]
[pool.cache]
profile = "textbook"
capacity = "60GiB"
[pool.model]
layers = 32
kv_heads = 8
head_dim = 128
[[event]]
at = 2026-11-24T10:00:00Z
kind = "restart"
replica = "r3"
[pricing]
rates = { base = 3.0, write = 1.25, read = 0.1, output = 15.0 }
gpu_hour = 2.5
"""


def test_every_part_of_a_scenario_is_read() -> None:
    """Pools, match, cache, fleet, event and prices come out as written."""
    scenario = parse_scenario(FULL)
    first, second = scenario.pool
    assert first.match == Match(provider=("vllm",), replica=("h100-*", "h200-*"))
    assert (first.capacity_blocks(16), second.capacity_blocks(16)) == (60_000, 30_720)
    assert (first.cache.ttl_us, first.fleet.replica_grace_us) == (None, 600_000_000)
    assert scenario.event[0].at_us == 1_795_514_400_000_000
    assert scenario.pricing.rates == Rates(
        base=Decimal("3.0"), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal("15.0")
    )


def test_prices_are_exact_decimals() -> None:
    """0.1 in the file is one tenth, not the nearest binary fraction."""
    rates = parse_scenario(FULL).pricing.rates
    assert isinstance(rates, Rates)
    assert rates.read * 10 == Decimal(1)


def test_the_name_is_the_stem_of_the_file(tmp_path: Path) -> None:
    """Unless the file says another."""
    path = tmp_path / "bigger-cache.toml"
    path.write_text("[cache]\ncapacity = '9 blocks'\n", encoding="utf-8")
    assert load_scenario(path).name == "bigger-cache"
    path.write_text("name = 'mine'\n", encoding="utf-8")
    assert load_scenario(path).name == "mine"


def test_top_level_tables_are_one_pool_that_takes_all() -> None:
    """[cache], [fleet], [in_flight] and [model] are shorthand."""
    short = parse_scenario(
        "[cache]\ncapacity='60GiB'\n[fleet]\nrouting='random'\nreplicas=4\n[in_flight]\nresidence='none'\n"
        "[model]\nlayers=32\nkv_heads=8\nhead_dim=128\n"
    )
    (pool,) = short.pool
    assert pool.match is None
    assert (pool.fleet.routing, pool.fleet.replicas, pool.in_flight.residence) == ("random", 4, "none")
    assert pool.capacity_blocks(16) == 30_720


def test_tokens_make_whole_blocks_only() -> None:
    """100 tokens are 6 blocks of 16, and 15 tokens are refused."""
    assert Pool(cache=Cache(capacity="100 tokens")).capacity_blocks(16) == 6
    with pytest.raises(UsageError, match="no block of 16"):
        Pool(cache=Cache(capacity="15 tokens")).capacity_blocks(16)
    assert Pool().capacity_blocks(16) is None


def test_the_first_pool_that_matches_wins() -> None:
    """Globs are case-sensitive; null matches no glob; a pool without match takes the rest."""
    scenario = Scenario(
        pool=(
            Pool(match=Match(provider=("vllm",), replica=("h100-*",))),
            Pool(match=Match(model=("*",))),
            Pool(),
        )
    )
    assert scenario.pool_of({"provider": "vllm", "replica": "h100-3", "model": "m"}) == 0
    assert scenario.pool_of({"provider": "VLLM", "replica": "h100-3", "model": "m"}) == 1
    assert scenario.pool_of({"provider": "vllm", "replica": None, "model": None}) == 2
    assert Scenario(pool=(Pool(match=Match(model=("x",))),)).pool_of({}) is None


def test_prices_come_from_the_pool_then_the_scenario_then_the_profile() -> None:
    """Each field falls back by itself; GPU hours replace the default rates of an engine."""
    general = Pricing(gpu_hour=Decimal("2.5"))
    assert Scenario(pricing=general).pricing_of(Pool()).rates == ENGINE_RATES
    assert Scenario(pricing=Pricing(rates="m")).pricing_of(Pool(pricing=general)) == Pricing(
        rates="m", gpu_hour=Decimal("2.5")
    )
    by_gpu = Pricing(gpu_hour=Decimal(2), prefill_tokens_per_s=1000.0)
    assert Scenario(pricing=by_gpu).pricing_of(Pool()) == by_gpu
    assert ENGINE_RATES.per_tokens == 1


def test_printing_shows_every_default_and_reads_back() -> None:
    """What is printed says the same when it is read, and every key of every part stands in it."""
    for scenario in (default_scenario(), parse_scenario(FULL)):
        text = dump(scenario)
        again = parse_scenario(text)
        assert dump(again) == text
        assert [p.model_dump(exclude={"pricing"}) for p in again.pool] == [
            p.model_dump(exclude={"pricing"}) for p in scenario.pool
        ]
        assert [again.pricing_of(p) for p in again.pool] == [scenario.pricing_of(p) for p in scenario.pool]
        for part in (Cache, Fleet, Pool, Pricing):
            for key in part.model_fields:
                # Most routings have no options, and then no table of them.
                assert f"{key} = " in text or f"[pool.{key}]" in text or key == "router"


@given(
    st.text(min_size=1, max_size=20).filter(lambda s: not s.startswith(".") and not set(s) & set("/\\\0")),
    st.integers(0, 2**63 - 1),
    st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3),
)
def test_any_text_survives_printing(name: str, seed: int, globs: list[str]) -> None:
    """Quotes, control letters and emoji are escaped so that TOML reads them back."""
    scenario = Scenario(name=name, seed=seed, pool=(Pool(match=Match(model=tuple(globs))),))
    again = parse_scenario(dump(scenario))
    assert (again.name, again.seed, again.pool[0].match) == (name, seed, scenario.pool[0].match)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("[cache]\nprofil = 'x'", "2:1", "unknown key 'cache.profil'\nhint: did you mean 'profile'?"),
        ("[[pool]]\nmatch = { providr = 'x' }", "2:11", "did you mean 'provider'?"),
        ("[[pool]]\n[[pool]]\n[pool.fleet]\n  replicas = '8'", "4:3", "valid integer, not '8'"),
        ("[cache]\nttl = '5x'", "2:1", "not a duration"),
        ("[cache]\ncapacity = '60GiB'", "2:1", "needs the shape of the model"),
        ("[cache]\nprofile = 'anthropic'\ncapacity = 'from-log'", "1:2", "has no capacity"),
        ("[tier]\ncapacity = 'from-log'", "2:1", "give it in numbers"),
        (
            "[pricing]\nrates = { base = -3, write = 1, read = 0, output = 1 }",
            "2:11",
            "greater than or equal to 0",
        ),
        ("name = 'x'\nseed = ", "2:8", "not TOML"),
        ("a = 1\na = 2", "2:6", "not TOML"),
        ("[[event]]\nat = 'x'\nkind = 'restart'", "2:1", "not a time"),
        ("[[event]]\nat = 2026-01-01T00:00:00Z\nkind = 'restat'", "3:1", "did you mean 'restart'?"),
        ("[[event]]\nat = 2026-01-01T00:00:00Z\nkind = 'scale'", "1:3", "takes replicas"),
        ("[[event]]\nat = 2026-01-01T00:00:00Z\nkind = 'flush'\npool = 'x'", "", "pools that exist: pool-1"),
        ("[[pool]]\n[cache]", "2:2", "does not go with [[pool]]"),
        ("[pool]", "1:2", "write [[pool]]"),
        ("[model]\nlayers = 4", "1:2", "incomplete"),
        ("[in_flight]\nresidence = 'estimated'", "1:2", "needs prefill_ms_per_token"),
        ("name = '../x'", "", "cannot name a scenario"),
        ("pool = []", "", "no pool"),
    ],
)
def test_a_fault_is_said_with_its_place(text: str, place: str, said: str) -> None:
    """Every fault ends in exit code 2 with file, line, column, and what to do."""
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, "s.toml")
    message = str(caught.value)
    assert message.startswith(f"s.toml:{place}: " if place else "s.toml: ")
    assert said in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "known"), [("[cache]\nprofile = 'sglangg'", PROFILES), ("[fleet]\nrouting = 'best'", ROUTINGS)]
)
def test_what_does_not_exist_is_refused_and_what_does_is_listed(text: str, known: dict[str, object]) -> None:
    """There is no falling back to another profile or routing."""
    with pytest.raises(UsageError) as caught:
        parse_scenario(text)
    assert all(name in str(caught.value) for name in known)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """As is one that is not text."""
    with pytest.raises(UsageError, match="cannot read it"):
        load_scenario(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_scenario(tmp_path / "bad.toml")


def test_events_are_in_order_of_time_and_name_pools_that_exist() -> None:
    """The order of the file does not count; a pool that is not there is an error, also in an event file."""
    scenario = parse_scenario(FULL + "[[event]]\nat = 2026-01-01T00:00:00Z\nkind = 'flush'\n")
    assert [event.kind for event in scenario.event] == ["flush", "restart"]
    scenario.check_events(scenario.event)
    with pytest.raises(UsageError, match="no pool 'gone'"):
        scenario.check_events((scenario.event[0].model_copy(update={"pool": "gone"}),))


def test_the_grace_of_replicas_can_be_set_for_all_pools() -> None:
    """As the option --replica-grace does."""
    changed = parse_scenario(FULL).with_replica_grace("1h")
    assert [pool.fleet.replica_grace_us for pool in changed.pool] == [3_600_000_000] * 2
    with pytest.raises(UsageError, match="not a duration"):
        changed.with_replica_grace("soon")


def test_prices_alone_leave_the_pools_as_they_are() -> None:
    """Who gives a discount and nothing else still has each provider replayed under its own rules."""
    alone = parse_scenario("[pricing]\ndiscount = 0.1\n")
    assert alone.pool == default_scenario().pool
    assert alone.pricing.discount == Decimal("0.1")
    assert len(parse_scenario('[pricing]\ndiscount = 0.1\n[cache]\nprofile = "vllm"\n').pool) == 1
