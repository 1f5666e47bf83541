from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger import attribute
from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario, Tier, dump, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay import run
from prefixledger.replay.stage import replay_log
from stage_laws import RUNGS, cause_of, logs, rows_of
from stage_support import SECOND, make_log, named, read, write_workspace


@st.composite
def tiers(draw, scope=None):
    """A lower tier of any kind and size."""
    write = draw(st.sampled_from(["through", "through-selective", "on-evict"]))
    return Tier(
        capacity=draw(st.sampled_from(["0 blocks", "1 blocks", "4 blocks", "9 blocks", "unlimited"])),
        scope=scope or draw(st.sampled_from(["replica", "fleet"])),
        write=write,
        inclusive=write != "on-evict" or draw(st.booleans()),
        min_load_tokens=draw(st.sampled_from([0, 0, 3])),
    )


def _scenario(tier: Tier | None, capacity: str = "3 blocks", **fields) -> Scenario:
    return Scenario(pool=(Pool(cache=Cache(capacity=capacity), tier=tier, **fields),))


_CAPACITIES = st.sampled_from(["3 blocks", "5 blocks", "unlimited"])


@st.composite
def events(draw):
    """None to two resets of any kind that no lookup is asked about."""
    return [
        named(
            number, draw(st.integers(0, 40)) * SECOND, draw(st.sampled_from(["restart", "flush", "deploy"]))
        )
        for number in range(1, draw(st.integers(1, 3)))
    ]


def _missed(files) -> Counter:
    """Missed blocks that could have hit, by lookup and cause; hits by lookup."""
    facts = rows_of(files, "lookup_facts")
    found: Counter = Counter()
    for segment in rows_of(files, "facts"):
        lookup = segment["lookup"]
        if segment["hit"]:
            found[lookup, "hit"] += segment["n_blocks"]
        elif segment["first_block"] < facts[lookup]["cap_blocks"]:
            found[lookup, cause_of(segment, facts, None)] += segment["n_blocks"]
    return found


@settings(max_examples=60)
@given(logs(), tiers(), _CAPACITIES, events())
def test_the_ladder_equals_the_causes_with_a_tier(rows, tier, capacity, happened):
    """A tier takes from the last rung what it hits; a shared one leaves no loss to routing and resets."""
    files, summary = replay_log(make_log(rows), _scenario(tier, capacity), happened)
    facts, missed = rows_of(files, "lookup_facts"), _missed(files)

    for lookup, (row, rungs) in enumerate(zip(facts, rows_of(files, "ladder"), strict=True)):
        if row["refused"]:
            continue
        assert 0 <= row["hit_host_blocks"] <= row["hit_blocks"] == rungs["capacity"] == missed[lookup, "hit"]
        assert row["cap_blocks"] - rungs["pooled"] == missed[lookup, "cold"]
        lost = [rungs[above] - rungs[below] for above, below in pairwise(RUNGS)]
        if tier.scope == "replica":
            causes = ("elsewhere", "invalidated", "expired", "evicted")
            assert lost == [missed[lookup, cause] for cause in causes]
        else:
            assert lost[:3] == [0, 0, 0]
            assert lost[3] == missed[lookup, "elsewhere"] + missed[lookup, "evicted"]
            assert missed[lookup, "invalidated"] == 0
    assert summary.pools[0].hit_host_tokens == 2 * sum(row["hit_host_blocks"] for row in facts)
    assert rows_of(files, "capacity_curve") == []


@settings(max_examples=40)
@given(logs(ends=True), tiers(), _CAPACITIES, events())
def test_a_tier_only_adds_hits(rows, tier, capacity, happened):
    """With requests that run and decode: the cache above does the same, so hits only come on top, up to the cap."""
    log = make_log(rows)

    without, _ = replay_log(log, _scenario(None, capacity), happened)
    files, summary = replay_log(log, _scenario(tier, capacity), happened)

    for bare, row in zip(rows_of(without, "lookup_facts"), rows_of(files, "lookup_facts"), strict=True):
        assert row["admitted_at"] == bare["admitted_at"]
        assert row["hit_blocks"] - row["hit_host_blocks"] == bare["hit_blocks"]
        assert row["hit_blocks"] <= row["cap_blocks"]
    if tier.capacity == "0 blocks":
        assert files["facts.parquet"].equals(without["facts.parquet"]) or tier.scope == "fleet"
        assert files["removals.parquet"].equals(without["removals.parquet"])
    assert summary.hit_tokens <= summary.ideal_hit_tokens


def test_the_books_show_what_the_tier_hit(tmp_path):
    """Two prompts take turns in a cache that holds one: the third lookup reads two blocks from the host."""
    rows = [{"at_us": n * SECOND, "ids": ids} for n, ids in enumerate([[1, 2], [3, 4], [1, 2], [3, 4]])]
    workspace = write_workspace(tmp_path, rows)
    scenario = _scenario(Tier(capacity="64 tokens"))

    summary = run(workspace, scenario)
    attribute.run(workspace, scenario.name)

    books = read(summary, "lookups")
    assert [row["hit_host_tokens"] for row in books] == [0, 0, 32, 32]
    assert [row["hit_tokens"] for row in books] == [0, 0, 32, 32]
    assert [row["miss_evicted_tokens"] for row in books] == [0, 0, 0, 0]
    assert summary.pools[0].hit_host_tokens == 64
    assert any("lower tier is the host memory" in note for note in summary.notes)


def test_what_a_replica_holds_in_its_host_memory_is_resident_there(tmp_path):
    """A prompt that another replica holds only in its lower tier was misrouted; what it lost too was evicted."""
    row = {"ids": [1, 2], "replica": "a"}
    rows = [
        {**row, "at_us": 0},
        {"at_us": SECOND, "ids": [3, 4], "replica": "a"},
        {**row, "at_us": 2 * SECOND, "replica": "b"},
    ]
    workspace = write_workspace(tmp_path, rows)

    def resident(tier):
        facts = read(run(workspace, _scenario(tier), force=True), "facts")
        return [segment["resident_replica"] for segment in facts if segment["lookup"] == 2]

    assert resident(Tier(capacity="4 blocks")) == [0]
    assert resident(Tier(capacity="2 blocks")) == [None]
    assert resident(None) == [None]


def test_hits_of_the_tier_do_not_shorten_an_estimated_prefill():
    """That is said."""
    rows = [{"at_us": n * 9 * SECOND, "ids": ids} for n, ids in enumerate([[1, 2], [3, 4], [1, 2]])]
    flight = InFlight(prefill_ms_per_token=1, decode_ms_per_token=1)

    _, summary = replay_log(make_log(rows), _scenario(Tier(capacity="9 blocks"), in_flight=flight), ())

    assert summary.pools[0].hit_host_tokens == 32
    assert any("do not shorten" in note for note in summary.notes)


def test_new_weights_under_a_shared_store_are_refused():
    """Nothing says whose blocks are worthless then; for host memory of its own it is clear."""
    log = make_log([{"at_us": SECOND, "ids": [1]}, {"at_us": 9 * SECOND, "ids": [1]}])
    happened = [named(1, 5 * SECOND, "weights")]

    with pytest.raises(UsageError, match="shared store worthless"):
        replay_log(log, _scenario(Tier(capacity="9 blocks", scope="fleet")), happened)

    replay_log(log, _scenario(Tier(capacity="9 blocks")), happened)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[tier]\ncapacity = "5 blocks"\npromote = false', "promote = false cannot be replayed"),
        ('[tier]\ncapacity = "5 blocks"\ninclusive = false', "contradicts write = 'through'"),
        ('[tier]\ncapacity = "5 blocks"\nwrite = "back"', "no write policy 'back'"),
        ('[tier]\ncapacity = "5 blocks"\nscope = "rack"', "no scope 'rack'"),
        ('[tier]\ncapacity = "512GiB"', "needs the shape of the model"),
        ('[tier]\nscope = "fleet"', "capacity"),
        ('[cache]\nttl = "5m"\n[tier]\ncapacity = "5 blocks"', "a TTL cannot be replayed with a lower tier"),
        ('[cache]\nprofile = "textbook"\n[tier]\ncapacity = "5 blocks"', "'textbook' cannot be replayed"),
        ('[cache]\nprofile = "sglang"\n[tier]\ncapacity = "5 blocks"', "'sglang' cannot be replayed"),
    ],
)
def test_what_a_tier_cannot_do_is_refused(text, says):
    """With the key at fault and what to write instead; nothing falls back."""
    with pytest.raises(UsageError, match=says):
        parse_scenario(text)


def test_512_gib_of_host_memory_are_one_scenario():
    """A size in bytes counts the blocks of all GPUs of a replica: 2 MiB each for an 8B model in bfloat16."""
    text = """
[cache]
capacity = "60GiB"
[model]
layers = 32
kv_heads = 8
head_dim = 128
[tier]
capacity = "512GiB"
"""
    pool = parse_scenario(text).pool[0]

    assert (pool.capacity_blocks(16), pool.tier_blocks(16)) == (30_720, 262_144)
    assert parse_scenario(dump(Scenario(pool=(pool,)))).pool[0].tier == pool.tier
