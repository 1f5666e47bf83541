"""A trial in memory comes to what a full replay of the same scenario writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger import attribute, replay
from prefixledger.attribute.cell import count, name_cells
from prefixledger.attribute.noise import draw_noise
from prefixledger.attribute.trial import Trials, open_trials
from prefixledger.config.scenario import Cache, Fleet, Pool, Scenario, parse_scenario
from prefixledger.config.tiers import Tier
from prefixledger.replay.named_events import name_events
from prefixledger.replay.prepared import prepared
from prefixledger.replay.stage import replay_log
from prefixledger.schema import CAUSES
from replayed import ingested
from stage_laws import logs, rows_of
from stage_support import SECOND, make_log, named

if TYPE_CHECKING:
    from pathlib import Path


@st.composite
def scenarios(draw: Any) -> tuple[Scenario, list[Any]]:
    """One pool under any rule of an engine, of one or of several replicas, with resets."""
    profile = draw(st.sampled_from(["vllm", "vllm", "sglang", "textbook"]))
    tier = draw(
        st.sampled_from(
            [
                None,
                None,
                Tier(capacity="6 blocks", output=True, min_load_tokens=0, chunk_tokens=0),
                Tier(capacity="6 blocks", output=True, min_load_tokens=0, chunk_tokens=0, scope="fleet"),
            ]
        )
    )
    tier = None if profile == "textbook" else tier
    fleet = draw(
        st.sampled_from(
            [
                Fleet(replica_grace="3s"),
                Fleet(routing="prefix-hash", replicas=1),
                Fleet(routing="random", replicas=1),
                Fleet(routing="random", replicas=3),
            ]
        )
    )
    cache = Cache(
        profile=profile,
        capacity=draw(st.sampled_from(["unlimited", "3 blocks", "5 blocks", "8 blocks"])),
        ttl=draw(st.sampled_from(["none", "2s", "5s"])),
    )
    kinds = st.sampled_from(["restart", "flush", "deploy"])
    events = [
        named(number, draw(st.integers(0, 40)) * SECOND, draw(kinds)).event
        for number in range(1, draw(st.integers(1, 3)))
    ]
    return Scenario(seeds=3, pool=(Pool(cache=cache, fleet=fleet, tier=tier),)), events


def replayed(
    log: Any, scenario: Scenario, events: list[Any]
) -> tuple[int, dict[str, int], tuple[float, ...]]:
    """Return hits, misses by cause and the rates of all seeds of the evidence that a full replay writes, by the rules in words."""
    files, summary = replay_log(log, scenario, name_events(scenario, events))
    facts, pool = rows_of(files, "lookup_facts"), scenario.pool[0]
    ttl_us = pool.cache.ttl_us if pool.tier is None else None  # what expires above a tier is kept there
    missed = dict.fromkeys(CAUSES, 0)
    for row in facts:
        behind = 0 if row["refused"] else row["cap_blocks"] * row["block_size"]
        missed["uncacheable"] += row["prompt_tokens"] - behind
    for segment in rows_of(files, "facts"):
        row = facts[segment["lookup"]]
        if not segment["hit"] and segment["first_block"] < row["cap_blocks"]:
            missed[rule_of(segment, facts, ttl_us)] += segment["n_blocks"] * row["block_size"]
    assert summary.drawn_hit_rates == () or len(summary.drawn_hit_rates) == scenario.seeds
    return summary.hit_tokens, missed, summary.drawn_hit_rates


def rule_of(segment: dict[str, Any], facts: list[dict[str, Any]], ttl_us: int | None) -> str:
    """Rules 1 to 4; an engine's pieces know one rule of their own, that somebody is computing them."""
    if segment["rule"] is not None:
        return segment["rule"]
    own, other = segment["own_previous"], segment["else_previous"]
    if own is None and segment["resident_replica"] is not None:
        return "misrouted"
    if own is None and other is None:
        return "cold"
    if (segment["else_reset"] if own is None else segment["own_reset"]) is not None:
        return "invalidated"
    used = facts[other if own is None else own]["admitted_at"]
    late = ttl_us is not None and facts[segment["lookup"]]["admitted_at"] - used > ttl_us
    return "expired" if late else "evicted"


@pytest.mark.parametrize("ends", [False, True], ids=["one at a time", "running"])
@settings(max_examples=5)
@given(data=st.data())
def test_hits_and_causes_are_those_of_a_full_replay(ends: bool, data: Any) -> None:
    """Token for token and cause for cause, whatever is routed, reset, refused, in flight or in a lower tier."""
    log = make_log(data.draw(logs(ends=ends)))
    counted, expected = [], []
    for scenario, events in data.draw(st.lists(scenarios(), min_size=6, max_size=6)):
        trials = Trials(prepared(log, events=events), draw_noise(log))
        for _ in range(2):  # the second takes what the first has kept
            trial = trials.run(scenario)
            counted.append(count(trial, {}, trials.loads(trial)))
        expected += 2 * [replayed(log, scenario, events)]
    for cell, (hit_tokens, missed, rates) in zip(name_cells(counted), expected, strict=True):
        assert cell.totals["hit_tokens"] == hit_tokens
        assert cell.misses["by_cause"] == missed
        if rates:
            spread = [cell.totals[f"token_hit_rate_{end}"] for end in ("low", "high")]
            assert (cell.totals["seeds"], *spread) == (3, min(rates), max(rates))


def test_capacities_and_lifetimes_share_what_was_routed_once() -> None:
    """A plan is made for each routing, not for each cell; the replicas it names are the same objects."""
    rows = [{"at_us": n * SECOND, "ids": [1, 2, n], "block_size": 2, "prompt_tokens": 7} for n in range(30)]
    found = prepared(make_log(rows))

    def plan(capacity: str, ttl: str, replicas: int = 2) -> Any:
        pool = Pool(cache=Cache(capacity=capacity, ttl=ttl), fleet=Fleet(routing="random", replicas=replicas))
        (made,) = found.plan(Scenario(pool=(pool,))).pools
        return made

    one, other, third = plan("8 blocks", "none"), plan("9 blocks", "2s"), plan("8 blocks", "none", 3)
    assert one.replica is other.replica
    assert (one.capacity_blocks, one.ttl_us) == (8, None)
    assert (other.capacity_blocks, other.ttl_us) == (9, 2 * SECOND)
    assert third.replica is not one.replica
    assert len(third.fleet.replicas) == 3


def test_a_difference_is_drawn_over_sessions_and_days() -> None:
    """The wider of both counts; a change in one session of many is noise, one in all of them is not."""
    day_us = 86_400 * SECOND
    rows = [
        {
            "at_us": n // 12 * day_us + n * SECOND,
            "ids": [n],
            "block_size": 2,
            "prompt_tokens": 3,
            "session_id": f"s{n % 40}",
        }
        for n in range(120)
    ]
    noise = draw_noise(make_log(rows))
    assert noise.clusters == (("session", 40), ("day", 10))
    whole = np.full(120, 1000)
    before = np.zeros(120, np.int64)
    everywhere = noise.of_share(before + 100, before, whole)
    assert everywhere is not None
    assert (everywhere.low, everywhere.high) == (pytest.approx(10), pytest.approx(10))
    assert not everywhere.holds_zero
    once = before.copy()
    once[7] = 1000
    rare = noise.of_share(once, before, whole)
    assert rare is not None
    assert rare.holds_zero
    one_day = np.where(np.arange(120) < 12, 500, 0)
    daily = noise.of_share(one_day, before, whole)
    assert daily is not None
    assert daily.clusters == "day"
    cost = noise.of_change(np.full(120, 0.5), np.full(120, 1.0))
    assert cost is not None
    assert (cost.low, cost.high) == (pytest.approx(-50), pytest.approx(-50))


def test_too_few_sessions_and_days_say_nothing() -> None:
    """Hours stand in where there are neither, and nothing where there are too few of them as well."""
    rows = [{"at_us": n * 1800 * SECOND, "ids": [n], "block_size": 2, "prompt_tokens": 3} for n in range(20)]
    assert draw_noise(make_log(rows)).clusters == (("hour", 10),)
    few = draw_noise(make_log(rows[:6]))
    assert few.clusters == ()
    assert few.of_share(np.ones(6, np.int64), np.zeros(6, np.int64), np.ones(6, np.int64)) is None


def test_money_load_and_rows_with_usage_alone_are_those_of_the_marts(tmp_path: Path) -> None:
    """Two pools, one of them a provider's, priced by model; rows without keys stand in every sum."""
    rows = [
        {
            "at_us": (1_000_000 + 40 * n) * SECOND,
            "ids": [n % 5, 10 + n % 5, 100 + n % 3],
            "prompt_tokens": 16 * 3 + n % 2,
            "output_tokens": n % 4,
            "provider": "anthropic" if n % 3 == 0 else "vllm",
            "model": "claude-sonnet-4-5" if n % 3 == 0 else "m",
            "replica": None if n % 3 == 0 else f"p{n % 4 // 2}",
            "session_id": f"s{n % 11}",
            "finished_at": (1_000_000 + 40 * n + 90) * SECOND,
        }
        for n in range(90)
    ]
    for n in (4, 7, 30):
        usage = {"usage_state": "present", "cached_tokens_observed": 16, "cache_write_5m_tokens_observed": 8}
        rows[n] |= {"keyed": False, "ids": [], **usage, "cache_write_1h_tokens_observed": 3}
    workspace = ingested(tmp_path, rows, 16)
    scenario = parse_scenario(
        "[[pool]]\nmatch = { provider = 'anthropic' }\n[pool.cache]\nprofile = 'anthropic'\nminimum_tokens = 16\n"
        "[[pool]]\n[pool.cache]\ncapacity = '9 blocks'\nttl = '4m'\n"
        "[pool.pricing]\nrates = { base = 2.0, write = 1.25, read = 0.1, output = 7.0 }\n"
    )
    trials = open_trials(workspace, scenario)
    trial = trials.run(scenario)
    (cell,) = name_cells([count(trial, {}, trials.loads(trial))])
    replay.run(workspace, scenario)
    attribute.run(workspace, scenario.name)
    whole = attribute.marts(workspace, scenario.name, attribute.Window(0, 2_000_000 * SECOND))
    (row,) = (row for row in whole.totals.to_pylist() if row["basis"] == "all")
    for name in ("requests", "prompt_tokens", "output_tokens", "hit_tokens", "hit_host_tokens"):
        assert cell.totals[name] == row[name]
    assert cell.misses["by_cause"] == {row["cause"]: row["tokens"] for row in whole.causes.to_pylist()}
    assert len(trial.askers.observed) == 3
    assert [(c["currency"], c["uncached"], c["actual"], c["multiplier"]) for c in cell.costs] == [
        (b.currency, b.uncached, b.actual, b.multiplier) for b in whole.bills
    ]
    asked = ("pool", "replica", "requests", "share", "prompt_tokens", "hit_tokens", "prefill_tokens")
    assert list(cell.replicas) == whole.by_replica.select(asked).to_pylist()
    balance = whole.balance.to_pylist()
    assert cell.totals["imbalance_prefill"] == max(pool["imbalance_prefill"] for pool in balance)
    fleet = [row["prefill_tokens"] for row in cell.replicas if row["pool"] == 1]
    assert cell.totals["busiest_prefill_tokens"] == max(fleet)  # one replica alone is no fleet
    assert cell.totals["peak_in_flight"] == max(pool["peak_in_flight"] or 0 for pool in balance)
    assert cell.totals["waited_s"] == sum(pool["waited_us"] for pool in balance) / 1e6
    assert cell.totals["imbalance_requests"] == max(pool["imbalance_requests"] for pool in balance)
