"""What a hosted pool refuses, and what it says of itself."""

from __future__ import annotations

import pytest

from prefixledger.config.provider_rules import rule_file
from prefixledger.config.registry import PROFILES
from prefixledger.config.scenario import (
    Cache,
    Fleet,
    InFlight,
    Match,
    Pool,
    Scenario,
    dump,
    parse_scenario,
)
from prefixledger.errors import UsageError
from prefixledger.replay.stage import replay_log
from stage_support import MINUTE, SECOND, make_log, named

IDS = list(range(80))  # 1,280 tokens in blocks of 16


def _rows(n=2, gap_us=MINUTE, **columns):
    given = {"provider": "anthropic", "model": "claude-sonnet-4-5", **columns}
    return [{"at_us": k * gap_us, "ids": IDS, **given} for k in range(n)]


def _hosted(*, fleet=None, in_flight=None, **cache):
    cache = Cache(**{"profile": "anthropic", **cache})
    return Scenario(pool=(Pool(cache=cache, fleet=fleet or Fleet(), in_flight=in_flight or InFlight()),))


@pytest.mark.parametrize(
    ("columns", "cache", "message"),
    [
        ({"model": "claude-zeta-9"}, {}, "'claude-zeta-9': its shortest stored prefix"),
        ({"model": None}, {}, "as model None"),
        (
            {"model": "gpt-6-sol", "provider": "openai"},
            {},
            "'gpt-6-sol': profile 'anthropic' follows no rules",
        ),
        (
            {"model": "gpt-3.5-turbo", "provider": "openai"},
            {"profile": "openai"},
            r"turbo': profile 'openai'",
        ),
        ({"model": "gpt-5.5", "provider": "openai"}, {"profile": "openai", "ttl": "12h"}, "no ttl '12h'"),
        ({"model": "gpt-6-sol", "provider": "azure"}, {"profile": "openai", "ttl": "12h"}, "no ttl '12h'"),
    ],
)
def test_what_is_not_known_is_refused(columns, cache, message):
    """A model without rules or a lifetime that its provider does not sell: exit 2, with the request that it is about."""
    with pytest.raises(UsageError, match=message) as caught:
        replay_log(make_log(_rows(**columns)), _hosted(**cache), [])
    assert str(caught.value.place) == "s.jsonl:1"


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ('profile = "anthropic"\ncapacity = "9 blocks"', "'anthropic' has no capacity"),
        ('profile = "anthropic"\nttl = "2h"', "no ttl '2h'"),
        ('profile = "anthropic"\nttl = "none"', "no ttl 'none'"),
        ('profile = "openai"\nmarks = [1, 2, 3, 4]', "marks"),
        ('profile = "vllm"\nminimum_tokens = 1024', "minimum_tokens does not go with profile 'vllm'"),
        ("marks = 1024", "marks does not go with profile 'vllm'"),
        ('profile = "gemini-magic"', "no profile 'gemini-magic'"),
        ('profile = "anthropic"\nttl = "1h"\nmark_ttls = "as-sent"', "as-sent"),
        ('mark_ttls = "all"', "mark_ttls does not go with profile 'vllm'"),
        ("overflow_rpm = 15", "overflow_rpm does not go with profile 'vllm'"),
    ],
)
def test_what_a_provider_does_not_sell_is_refused(cache, message):
    """Scenarios that ask for it are wrong where they are read."""
    with pytest.raises(UsageError, match=message):
        parse_scenario(f"[cache]\n{cache}\n")


def test_lifetimes_are_those_of_the_rules():
    """Every lifetime of a profile is in its rules, the default first, and a dump reads back as it was."""
    for name, profile in PROFILES.items():
        if not profile.hosted:
            continue
        rows = [row for row in rule_file().rule if row.profile in (name, *profile.follows)]
        sold = [
            ttl
            for row in rule_file().rule
            for ttl in (row.ttls or ())
            if any(set(row.providers) & set(each.providers) for each in rows)
            and row.mode in (None, profile.mode)
        ]
        assert set(profile.ttls) <= {*sold, "none"}
        assert profile.ttls == ("none",) or profile.ttls[0] == next(iter(rows[0].ttls))
        assert Cache(profile=name).ttl == profile.ttls[0]
        assert Cache(profile=name).as_sent
    for cache in ({"marks": (1024,), "minimum_tokens": 512}, {"ttl": "1h"}, {"overflow_rpm": 0}):
        scenario = _hosted(**cache)
        assert parse_scenario(dump(scenario), "as-is.toml").pool[0].cache == scenario.pool[0].cache


def test_a_changed_copy_is_checked_again():
    """A cell of a what-if that was made past the file is refused when it is replayed."""
    pool = _hosted().pool[0]
    cell = Scenario(pool=(pool.model_copy(update={"cache": pool.cache.model_copy(update={"ttl": "10m"})}),))
    with pytest.raises(UsageError, match="no ttl '10m'"):
        replay_log(make_log(_rows()), cell, [])


def test_what_is_taken_for_granted_is_said():
    """Marks, estimated first tokens, the scope, and that a TTL is a least."""
    _, summary = replay_log(make_log(_rows()), _hosted(marks=(512,)), [])
    told = " ".join(summary.notes)
    for words in (
        "no cache marks of 2 lookups",
        "and to token 512",
        "first tokens of 2 lookups are not logged",
        "0.05 ms for each token",
        "scope: workspace",
        "5m is the shortest life",
    ):
        assert words in told
    assert summary.pools[0].residence == "none"


def test_a_minimum_is_said_with_its_source():
    """How many prompts are below it, whose it is, and where it was read on which day."""
    rows = [{**row, "ids": IDS[:60]} for row in _rows(3, model="claude-opus-4-7")]
    _, summary = replay_log(make_log(rows), _hosted(), [])
    (told,) = (note for note in summary.notes if "below the minimum" in note)
    assert "nothing of 3 prompts is stored" in told
    assert "2048 tokens with claude-opus-4-7 (Anthropic, prompt caching guide" in told
    assert "2026-08-22" in told


def test_the_first_token_is_estimated_from_given_rates():
    """At 1 ms a token 1,281 tokens take 1.281 s; what starts before that waits, and a hit would have shortened it."""
    slow = InFlight(prefill_ms_per_token=1.0, decode_ms_per_token=0.0)
    for gap_us, hits in ((1_280_000, 0), (1_281_000, 1280)):
        _, summary = replay_log(make_log(_rows(gap_us=gap_us)), _hosted(in_flight=slow), [])
        assert summary.hit_tokens == hits
    rows = _rows(gap_us=1_280_000, finished_at=SECOND)
    assert replay_log(make_log(rows), _hosted(in_flight=slow), [])[1].hit_tokens == 1280


def test_engine_events_do_not_reach_a_provider():
    """A deploy of the whole service empties no hosted cache; an event that names its pool does."""
    pools = (
        Pool(name="hosted", match=Match(provider=("anthropic",)), cache=Cache(profile="anthropic")),
        Pool(name="own"),
    )
    rows = [*_rows(1), {"at_us": SECOND, "ids": [7]}, {**_rows(1)[0], "at_us": MINUTE}]
    for pool, hits in ((None, 1280), ("hosted", 0)):
        events = [named(1, 30 * SECOND, "restart", pool=pool)]
        files, summary = replay_log(make_log(rows), Scenario(pool=pools), events)
        assert summary.hit_tokens == hits
        assert len(files["events.parquet"]) == 1


def test_overflow_is_a_routing():
    """Two machines behind one name: what the other one holds is misrouted."""
    spread = _hosted(fleet=Fleet(routing="round-robin", replicas=2))
    files, summary = replay_log(make_log(_rows(3)), spread, [])
    facts = files["facts.parquet"].to_pylist()
    assert [fact["resident_replica"] for fact in facts] == [None, 0, None]
    assert [rung.hit_tokens for rung in summary.pools[0].ladder] == [2560, 1280, 1280, 1280, 1280]
    assert summary.hit_tokens == 1280


def test_every_point_of_the_lifetime_curve_is_a_replay():
    """The curve ends with all that gaps allow, and has today's lifetime among its points."""
    rows = _rows(4, gap_us=4 * MINUTE)
    files, summary = replay_log(make_log(rows), _hosted(), [])
    curve = {point["ttl_us"]: point["hit_tokens"] for point in files["ttl_curve.parquet"].to_pylist()}
    assert curve[5 * MINUTE] == summary.hit_tokens == 3 * 1280
    assert min(curve.values()) == 0
    assert len(files["capacity_curve.parquet"]) == 0
