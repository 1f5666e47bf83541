"""What people report of hosted caches, by its kind: too short, unmarked, out of words, out of luck."""

from __future__ import annotations

import re

import numpy as np
import pytest

from prefixledger.config.scenario import Cache, Fleet, InFlight, Match, Pool, Scenario, default_scenario
from prefixledger.errors import UsageError
from prefixledger.replay.stage import replay_log
from stage_support import MINUTE, SECOND, make_log

BLOCK = 128
SONNET = {"provider": "anthropic", "model": "claude-sonnet-4-5"}  # from 1,024 tokens
GPT = {"provider": "openai", "model": "gpt-4o"}
HEAD = tuple(range(16))  # 2,048 tokens


def _ask(at_us, ids=HEAD, *, read=None, wrote=None, tail=20, **columns):
    usage = {} if read is None else {"cached_tokens_observed": read, "usage_state": "present"}
    if wrote is not None:
        usage["cache_write_5m_tokens_observed"] = wrote
    return {
        "at_us": at_us,
        "ids": list(ids),
        "block_size": BLOCK,
        "prompt_tokens": BLOCK * len(ids) + tail,
        **SONNET,
        **usage,
        **columns,
    }


def _replay(rows, **cache):
    scenario = default_scenario()
    if cache:
        scenario = Scenario(
            pool=(
                Pool(cache=Cache(**{"profile": "anthropic", **cache}), fleet=Fleet(), in_flight=InFlight()),
            )
        )
    return replay_log(make_log(rows), scenario, [])


def _notes(rows, **cache):
    return " ".join(_replay(rows, **cache)[1].notes)


def _lengths(*lengths, stored):
    """Return prompts of so many blocks, of which only some are written."""
    return [
        _ask(
            n * SECOND,
            range(100 * n, 100 * n + length),
            read=0,
            wrote=BLOCK * length if stored(length) else 0,
        )
        for n, length in enumerate(lengths)
    ]


def test_a_minimum_that_the_log_does_not_bear_out() -> None:
    """The rules say 1,024 tokens; 1,152 to 1,920 were never written, 2,048 and more always: said, with both numbers."""
    told = _notes(_lengths(9, 12, 15, 16, 18, 20, stored=lambda length: length >= 16))
    assert "stored nothing of 3 marked prompts up to 1920 tokens" in told
    assert "something of 3 from 2048 tokens on" in told
    assert "shortest stored prefix is 1024 tokens" in told


def test_prefixes_that_are_stored_below_the_minimum_are_told_to_the_token() -> None:
    """Three prompts of 640 to 896 tokens were written, where nothing below 1,024 is by the rules; two would be chance."""
    told = _notes(_lengths(5, 6, 7, stored=lambda _: True))
    assert (
        "stored prefixes of 3 prompts that are shorter than the 1024 tokens of the rules, from 640 tokens on"
        in told
    )
    assert "stored prefixes of" not in _notes(_lengths(5, 6, stored=lambda _: True))


@pytest.mark.parametrize(
    "rows",
    [
        _lengths(5, 6, 7, 8, 9, 10, stored=lambda length: length >= 8),
        _lengths(9, 12, 15, 16, 18, 20, stored=lambda length: length % 2 == 0),
        _lengths(9, 20, stored=lambda length: length >= 16),
    ],
    ids=["as the rules say", "no threshold", "too few"],
)
def test_a_minimum_is_not_doubted_without_proof(rows) -> None:
    """A threshold that fits, writes without one, or two prompts say nothing against the rules."""
    assert "by the rules" not in _notes(rows)


def test_marks_in_the_words_of_another_api() -> None:
    """One model never reads nor writes although prompts repeat, another one does: only the first is told."""
    dead = [_ask(n * SECOND, read=0, wrote=0, model="claude-sonnet-4-6", namespace="b") for n in range(25)]
    good = [_ask(n * SECOND, read=2048 if n else 0, wrote=0 if n else 2048, namespace="a") for n in range(25)]
    rows = sorted(dead + good, key=lambda row: row["at_us"])
    told = _notes(rows)
    assert "anthropic/claude-sonnet-4-6: the service read and wrote nothing of any of 25 prompts" in told
    assert "claude-sonnet-4-5: the service" not in told


def test_one_name_of_a_model_is_served_without_a_cache() -> None:
    """Two names of one model with one rule: the one that is never cached is told by the name it is called by."""
    names = (
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-v1:0",
        "anthropic.claude-sonnet-4-5",
    )
    rows = [
        _ask(
            n * SECOND,
            read=cached if n > 1 else 0,
            wrote=cached if n < 2 else 0,
            provider="bedrock",
            model=name,
            namespace=name,
        )
        for n in range(50)
        for name, cached in [(names[n % 2], 2048 * (n % 2))]
    ]
    told = _notes(rows)
    assert f"bedrock/{names[0]}: the service read and wrote nothing of any of 25 prompts" in told
    assert f"bedrock/{names[1]}: the service" not in told


def test_marks_that_take_effect_on_some_turns_only() -> None:
    """Every second turn writes nothing and reads nothing: so many prompts, and what they should have hit."""
    rows = [
        _ask(n * SECOND, (*HEAD, *range(1000, 1001 + n)), read=0, wrote=2048 if n % 2 else 0)
        for n in range(50)
    ]
    assert "nothing of 25 of 50 prompts that should be stored" in _notes(rows)


def test_prompts_that_share_nothing_accuse_nobody() -> None:
    """Zero reads of prompts that share 30 tokens: nothing should have hit, so nothing is said."""
    rows = [_ask(n * SECOND, range(100 * n, 100 * n + 16), read=0, wrote=0) for n in range(25)]
    assert "the service" not in _notes(rows)


def test_a_gap_below_the_lifetime_is_never_an_expiry() -> None:
    """Turns 5 to 20 s apart with reads of 0: the replay hits, so the misses stay unexplained; a longer life hits no more."""
    rows = [_ask(n * 12 * SECOND, read=0 if n % 2 else 2048, wrote=0) for n in range(10)]
    files, summary = _replay(rows)
    _, longer = _replay(rows, ttl="1h")
    assert summary.hit_tokens == longer.hit_tokens == 9 * 2048
    assert all(row["hit"] or row["own_previous"] is None for row in files["facts.parquet"].to_pylist())


def test_a_lifetime_that_one_lane_does_not_sell() -> None:
    """Twelve hours can be had of OpenAI, not of Azure: a what-if over both says who cannot, and what there is."""
    rows = [
        _ask(0, provider="openai", model="gpt-6-sol"),
        _ask(SECOND, provider="azure", model="gpt-6-sol"),
    ]
    with pytest.raises(UsageError, match=r"served by 'azure'.*no ttl '12h'") as caught:
        _replay(rows, profile="openai", ttl="12h")
    assert "30m" in (caught.value.hint or "")
    lanes = (
        Pool(match=Match(provider=("openai",)), cache=Cache(profile="openai", ttl="12h")),
        Pool(cache=Cache(profile="openai")),
    )
    assert replay_log(make_log(rows), Scenario(pool=lanes), [])[1].lookups == 2


def test_a_lifetime_that_changed_in_the_log() -> None:
    """First written for an hour, then for 5 minutes: the same gap of 20 minutes hits before, and not after."""
    hour = {"cache_write_1h_tokens_observed": 2048, "cache_write_5m_tokens_observed": 0}
    rows = [
        _ask(0, read=0, **hour),
        _ask(20 * MINUTE, read=2048, wrote=0),
        _ask(300 * MINUTE, read=0, wrote=2048),
        _ask(320 * MINUTE, read=0, wrote=2048),
    ]
    files, _ = _replay(rows)
    hits = files["lookup_facts.parquet"]["hit_blocks"].to_pylist()
    assert hits == [0, 16, 0, 0]
    expired = [row for row in files["facts.parquet"].to_pylist() if row["lookup"] == 3 and not row["hit"]]
    assert {row["ttl_us"] for row in expired} == {5 * MINUTE}


def test_cached_or_not_at_random() -> None:
    """The same prompt again and again, half of it read: nobody is to blame, and about half is to be expected."""
    random = np.random.default_rng(3)
    rows = [
        _ask(n * 10 * SECOND, read=int(random.integers(0, 2)) * 2048, session_id=f"s{n}", **GPT)
        for n in range(200)
    ]
    files, summary = _replay(rows)
    assert summary.hit_tokens == 199 * 2048
    (told,) = (note for note in summary.notes if "is to be expected" in note)
    rate, low, high = _rates(told)
    assert low < rate < high
    assert 40 < rate < 60
    steps = files["survival.parquet"].to_pylist()
    assert sum(step["lookups"] for step in steps) == 199
    assert all(step["low"] <= step["kept_share"] <= step["high"] for step in steps)


def _rates(told: str) -> tuple[float, float, float]:
    """Take the rate and its interval out of the note."""
    found = re.search(r"a hit rate of ([\d.]+)% .*interval ([\d.]+)% to ([\d.]+)%", told)
    assert found is not None
    rate, low, high = map(float, found.groups())
    return rate, low, high


def test_a_model_that_takes_no_part() -> None:
    """7 of 10 tokens are shared and none is read of it, of the other model all: told by model, and nothing is expected."""
    dead = {"provider": "gemini", "model": "gemini-3.7-flash", "namespace": "b"}
    rows = [
        _ask(n * SECOND, (*range(40), *range(100 * n + 1000, 100 * n + 1017)), read=0, **dead)
        for n in range(40)
    ]
    told = _notes(rows)
    assert "gemini/gemini-3.7-flash: the service read and wrote nothing of any of 40 prompts" in told
    assert "a hit rate of 0.0% is to be expected" in told


def test_an_unknown_model_in_a_log() -> None:
    """Exit 2 with the model, names near it, and how to go on."""
    with pytest.raises(UsageError, match="claude-opsu-4-7") as caught:
        _replay([_ask(0, model="claude-opsu-4-7")], minimum_tokens=None)
    hint = caught.value.hint or ""
    assert "claude-opus-4-7" in hint
    assert "minimum_tokens" in hint
