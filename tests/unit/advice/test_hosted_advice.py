"""Advice on hosted caches, from logs whose best policies are known by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prefixledger.advice.advise import advise_on
from prefixledger.advice.calls import calls_after
from prefixledger.attribute.noise import draw_noise
from prefixledger.attribute.trial import Trials
from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.replay.prepared import prepared
from stage_support import MINUTE, SECOND, make_log

if TYPE_CHECKING:
    from prefixledger.advice.parts import Advice

DAY = 24 * 60 * MINUTE
HEAD = 70
"""Blocks of 16 tokens: 1,120, more than the least that Sonnet stores."""
DOLLARS_A_TOKEN = 3e-6


def asks(tenant: int, times: list[int], tail_blocks: int) -> list[dict[str, Any]]:
    """Return requests that share the head of their tenant, each with a tail of its own."""
    head = list(range(1000 * tenant, 1000 * tenant + HEAD))
    return [
        {
            "at_us": at,
            "ids": [
                *head,
                *range(10**6 * (tenant + 1) + 100 * n, 10**6 * (tenant + 1) + 100 * n + tail_blocks),
            ],
            "tenant": f"t{tenant}",
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "first_token_at": at + 2 * SECOND,
        }
        for n, at in enumerate(times)
    ]


def advice_on(*rows: list[dict[str, Any]], ttl: str = "5m") -> Advice:
    """Advise on requests of several tenants, all marked at their heads and ends."""
    return advise_on(*opened(*rows, ttl=ttl))


def opened(*rows: list[dict[str, Any]], ttl: str = "5m") -> tuple[Trials, Scenario]:
    """Return the log of such requests, and the scenario."""
    ordered = sorted((row for part in rows for row in part), key=lambda row: row["at_us"])
    log = make_log([{**row, "request_id": f"q{n:05d}"} for n, row in enumerate(ordered)])
    cache = Cache(profile="anthropic", ttl=ttl, marks=(HEAD * 16,))
    return Trials(prepared(log), draw_noise(log)), Scenario(pool=(Pool(name="api", cache=cache),))


def days(offsets: list[int]) -> list[int]:
    """Repeat the offsets of one day for a week."""
    return [day * DAY + offset for day in range(7) for offset in offsets]


CHAT = asks(0, days([8 * 60 * MINUTE + n * 2 * MINUTE for n in range(60)]), tail_blocks=40)
MIDDLE = asks(1, days([n * 20 * MINUTE for n in range(24)]), tail_blocks=2)
RARE = asks(2, days([n * 180 * MINUTE for n in range(8)]), tail_blocks=2)


@pytest.fixture(scope="module")
def mixed() -> Advice:
    """A chat, a tenant who comes back within the hour, and one who does not."""
    return advice_on(CHAT, MIDDLE, RARE)


def test_each_prefix_gets_the_policy_that_its_gaps_ask_for(mixed: Advice) -> None:
    """Two minutes apart: 5 minutes; twenty: an hour for the head; three hours: nothing."""
    found = {one.name: one for one in mixed.decisions}
    assert found["t0"].decision == "5m"
    assert found["t1"].decision in ("1h", "split")
    assert found["t2"].decision == "none"
    assert (found["t2"].hit_share, found["t0"].hit_share > 0.95) == (0, True)
    assert found["t0"].break_even == pytest.approx(0.25 / 1.15)
    assert found["t1"].break_even == pytest.approx(1.0 / 1.9)
    assert all(one.loss >= 0 and one.saved >= 0 for one in mixed.decisions)
    # Three hours apart every prompt is written for nothing: a quarter of its stored tokens.
    assert float(found["t2"].saved) == pytest.approx(0.25 * 72 * 16 * len(RARE) * DOLLARS_A_TOKEN, rel=1e-6)


def test_a_blanket_hour_costs_more_than_five_minutes(mixed: Advice) -> None:
    """What the middle tenant saves is less than the premium that the others pay; and it is said."""
    assert any("1h for all of it costs $" in note for note in mixed.notes)
    assert {one.kind for one in mixed.recommendations} == {"split", "caching_off"}


def test_savings_of_the_fitted_days_hold_on_those_that_judge(mixed: Advice) -> None:
    """Every week day is the same here, so three of seven days save three sevenths of all, within the interval."""
    assert mixed.fitted_to_us == 4 * DAY
    for one in mixed.recommendations:
        assert one.effect.from_us >= 4 * DAY
        assert one.as_predicted
        assert one.effect.saved_low <= one.effect.saved <= one.effect.saved_high
        share = float(one.in_full.saved) * 3 / 7
        assert float(one.effect.saved_low) <= share <= float(one.effect.saved_high)
        assert one.scenario
        assert one.verify
        assert one.side_effects
    assert mixed.together is not None
    alone = sum(one.in_full.saved for one in mixed.recommendations)
    assert float(mixed.together.saved) == pytest.approx(float(alone), rel=1e-6)  # two tenants share nothing


def test_caching_that_loses_money_is_to_be_turned_off() -> None:
    """Nobody reads what is written: off saves the premium, a quarter of what is stored."""
    advice = advice_on(RARE, asks(3, days([n * 240 * MINUTE + MINUTE for n in range(6)]), tail_blocks=2))
    (one,) = advice.recommendations
    assert one.kind == "caching_off"
    assert one.action.startswith("Turn prompt caching off for pool api")
    written = 72 * 16 * (8 + 6) * 7
    assert float(one.in_full.saved) == pytest.approx(0.25 * written * DOLLARS_A_TOKEN, rel=1e-6)
    assert one.in_full.tokens == 0
    assert one.in_full.saved_share == pytest.approx(0.2, abs=0.01)


def test_bursts_are_warmed_up_before_they_come() -> None:
    """Twelve at once every six hours: without a call before them each writes, for nobody has a first token yet."""
    bursts = [n * 360 * MINUTE + second * SECOND // 10 for n in range(4) for second in range(12)]
    advice = advice_on(CHAT, asks(4, days(bursts), tail_blocks=2))
    found = {one.name: one for one in advice.decisions}
    assert found["t4"].decision == "pre-warm"
    (one,) = (one for one in advice.recommendations if one.kind == "pre_warm")
    assert "28 calls" in one.action
    # Of each burst 12 writes become reads, and the call writes once and asks for one token.
    head = HEAD * 16
    burst = 12 * head * 1.15 - head * 1.25 - 1
    assert float(one.in_full.saved) == pytest.approx(28 * burst * DOLLARS_A_TOKEN, rel=1e-6)


def test_one_lifetime_for_all_is_advised_where_all_of_a_prompt_comes_back() -> None:
    """The same prompt every twenty minutes: an hour for the head alone would write the rest again and again."""
    rows = asks(5, days([n * 20 * MINUTE for n in range(40)]), tail_blocks=60)
    same = [{**row, "ids": rows[0]["ids"]} for row in rows]
    (one,) = advice_on(same).recommendations
    assert one.kind == "ttl"
    assert "a time to live of 1h in place of 5m" in one.action
    prompt = (HEAD + 60) * 16
    # Of 280 prompts one is written for an hour a day, for the nights are longer, and all others are read.
    five, hour = 280 * 1.25, 7 * 2.0 + 273 * 0.1
    assert float(one.in_full.saved) == pytest.approx((five - hour) * prompt * DOLLARS_A_TOKEN, rel=1e-6)


def test_a_call_between_two_uses_is_advised_where_it_costs_less_than_an_hour() -> None:
    """Two uses eight minutes apart, then three hours of nothing: one call is a tenth, the premium of an hour three quarters."""
    pairs = [n * 188 * MINUTE + after * 8 * MINUTE for n in range(7) for after in range(2)]
    (one,) = advice_on(asks(6, days(pairs), tail_blocks=2)).recommendations
    assert one.kind == "keep_alive"
    made = 7 * 7 * 2 - 1  # one after each use but the last, which nothing follows
    assert f"{made} calls" in one.action
    head = HEAD * 16
    saved = 49 * 1.15 * head - made * (0.1 * head + 1)
    assert float(one.in_full.saved) == pytest.approx(saved * DOLLARS_A_TOKEN, rel=0.01)


def test_caches_that_keep_the_same_prompts_are_to_be_one() -> None:
    """Two workspaces in turn, four minutes apart: each forgets in eight what the other would have read."""
    rows = asks(7, days([n * 4 * MINUTE for n in range(120)]), tail_blocks=2)
    apart = [{**row, "replica": f"w{n % 2}"} for n, row in enumerate(rows)]
    (one,) = advice_on(apart).recommendations
    assert one.kind == "merge"
    assert one.side_effects[-1].startswith("Isolation:")
    # What a log of one workspace comes to.
    trials, scenario = opened(rows)
    assert (
        one.in_full.tokens == int(trials.run(scenario).by_arrival("hit_tokens").sum()) == HEAD * 16 * 7 * 119
    )


def test_caches_that_load_spills_into_are_not_to_be_merged() -> None:
    """Five uses a minute fit one cache; a sixth every twelve minutes asks one of the service's own, cold each time."""
    bursts = [n * 4 * MINUTE + turn * 3 * SECOND for n in range(60) for turn in range(6 - (n % 3 > 0))]
    trials, scenario = opened(asks(8, days(bursts), tail_blocks=2))
    (pool,) = scenario.pool
    cache = pool.cache.model_copy(update={"overflow_rpm": 5})
    advice = advise_on(trials, Scenario(pool=(pool.model_copy(update={"cache": cache}),)))
    assert all(one.kind != "merge" for one in advice.recommendations)


def test_nothing_is_advised_on_a_chat_that_pays() -> None:
    """Two minutes apart, under five minutes: no other lifetime, no call, no split, no merging and no turning off."""
    advice = advice_on(CHAT)
    assert advice.recommendations == ()
    assert any("no policy that was tried costs less" in note for note in advice.notes)


def test_calls_keep_alive_what_comes_back_soon_enough() -> None:
    """A call costs r and a lapse w - r: with 1.25 and 0.1 no more than eleven calls pay."""
    gap = np.full(100, 8 * MINUTE)
    assert calls_after(gap, 5 * MINUTE, 1.25, 0.1) == 1
    assert calls_after(np.full(100, 40 * MINUTE), 5 * MINUTE, 1.25, 0.1) == 8
    assert calls_after(np.full(100, 70 * MINUTE), 5 * MINUTE, 1.25, 0.1) == 0
    assert calls_after(np.full(100, 2 * MINUTE), 5 * MINUTE, 1.25, 0.1) == 0
