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
        chunk_tokens=draw(st.sampled_from([0, 0, 4])) if write != "on-evict" else 0,
        output=draw(st.booleans()),
        promote=draw(st.sampled_from([True, True, False])),
    )


def _scenario(
    tier: Tier | None, capacity: str = "3 blocks", profile: str = "vllm", ttl: str = "none", **fields
) -> Scenario:
    return Scenario(
        pool=(Pool(cache=Cache(profile=profile, capacity=capacity, ttl=ttl), tier=tier, **fields),)
    )


def _keeps_all(tier: Tier) -> Tier:
    """Return a tier that keeps whatever expires above."""
    write = "through" if tier.write == "through-selective" else tier.write
    return tier.model_copy(update={"write": write, "min_load_tokens": 0, "chunk_tokens": 0, "output": True})


def _promoting(tier: Tier, *, always: bool) -> Tier:
    """Return a tier that caches above again what is read, unless it may do without."""
    return tier.model_copy(update={"promote": tier.promote or always or not tier.inclusive})


_PROFILES = st.sampled_from(["vllm", "sglang"])


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
@given(logs(), tiers(), _CAPACITIES, events(), _PROFILES, st.sampled_from(["none", "none", "2s", "6s"]))
def test_the_ladder_equals_the_causes_with_a_tier(rows, tier, capacity, happened, profile, ttl):
    """A tier takes from the last rung what it hits, and keeps what expires; a shared one leaves no loss to routing and resets."""
    tier = tier if ttl == "none" else _keeps_all(tier)
    tier = _promoting(tier, always=profile == "sglang" or ttl != "none")
    files, summary = replay_log(make_log(rows), _scenario(tier, capacity, profile, ttl), happened)
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
@given(logs(ends=True), tiers(), _CAPACITIES, events(), _PROFILES, st.sampled_from(["none", "none", "4s"]))
def test_a_tier_only_adds_hits(rows, tier, capacity, happened, profile, ttl):
    """With requests that run and decode: the cache above does the same, so hits only come on top, up to the cap."""
    log = make_log(rows)
    tier = _promoting(tier if ttl == "none" else _keeps_all(tier), always=True)

    without, _ = replay_log(log, _scenario(None, capacity, profile, ttl), happened)
    files, summary = replay_log(log, _scenario(tier, capacity, profile, ttl), happened)

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
    assert any("offloading, the host memory of each replica" in note for note in summary.notes)


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
        (
            '[cache]\nprofile = "sglang"\n[tier]\npromote = false',
            "promote = false contradicts profile 'sglang'",
        ),
        (
            '[tier]\ncapacity = "5 blocks"\nwrite = "on-evict"\ninclusive = false\npromote = false',
            "inclusive = false contradicts promote = false",
        ),
        ('[tier]\ncapacity = "5 blocks"\ninclusive = false', "contradicts write = 'through'"),
        ('[tier]\ncapacity = "5 blocks"\nwrite = "back"', "no write policy 'back'"),
        ('[tier]\ncapacity = "5 blocks"\nscope = "rack"', "no scope 'rack'"),
        ('[tier]\ncapacity = "512GiB"', "needs the shape of the model"),
        ('[tier]\nscope = "fleet"', "needs a capacity"),
        ('[cache]\nprofile = "textbook"\n[tier]\ncapacity = "5 blocks"', "'textbook' cannot be replayed"),
        ('[tier]\ncapacity = "5 blocks"\nkind = "hicache"', "does not go with profile 'vllm'"),
        ('[cache]\nprofile = "sglang"\n[tier]\nkind = "lmcache"', "does not go with profile 'sglang'"),
        ('[tier]\ncapacity = "5 blocks"\nkind = "disk"', "no kind of tier 'disk'"),
        (
            '[tier]\nkind = "lmcache"\ncapacity = "9 blocks"\nwrite = "on-evict"',
            "chunk_tokens = 256 contradicts",
        ),
        ('[tier]\ncapacity = "2x"\nscope = "fleet"', "no capacity per gpu or replica"),
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


def test_every_kind_has_the_defaults_of_its_engine():
    """Offloading writes block by block, LMCache prompts in chunks, HiCache is twice the cache; all can be overruled."""

    def tier(text: str) -> Tier:
        found = parse_scenario(text).pool[0].tier
        assert (
            parse_scenario(f"[[pool]]\n{dump(parse_scenario(text)).split('[[pool]]')[1]}").pool[0].tier
            == found
        )
        return found

    offload = tier('[tier]\ncapacity = "9 blocks"')
    lmcache = tier('[tier]\nkind = "lmcache"\ncapacity = "9 blocks"')
    hicache = tier('[cache]\nprofile = "sglang"\ncapacity = "70 blocks"\n[tier]')

    assert (offload.kind, offload.write, offload.chunk_tokens, offload.output) == (
        "offload",
        "through",
        0,
        True,
    )
    assert (lmcache.chunk_tokens, lmcache.output, lmcache.min_load_tokens) == (256, False, 0)
    assert (hicache.kind, hicache.capacity, hicache.min_load_tokens) == ("hicache", "2x", 10)
    assert tier('[tier]\nkind = "lmcache"\ncapacity = "9 blocks"\nchunk_tokens = 16\noutput = true').output
    sglang = Pool(cache=Cache(profile="sglang", capacity="70 blocks"), tier=Tier())
    assert sglang.tier_blocks(16) == 140
    assert Pool(cache=Cache(profile="sglang"), tier=Tier()).tier_blocks(16) is None


def test_what_expires_above_is_read_from_the_tier():
    """After five seconds nothing hits above; the tier has both blocks, and where it has room for one, one was evicted."""
    rows = [{"at_us": n * 5 * SECOND, "ids": [1, 2], "prompt_tokens": 33} for n in range(2)]

    def found(tier: Tier | None, profile: str):
        files, _ = replay_log(make_log(rows), _scenario(tier, "9 blocks", profile, "4s"), ())
        return [row["hit_host_blocks"] for row in rows_of(files, "lookup_facts")], _missed(files)

    for profile in ("vllm", "sglang"):
        assert found(Tier(capacity="9 blocks", min_load_tokens=0), profile)[0] == [0, 2]
        hits, missed = found(Tier(capacity="1 blocks", min_load_tokens=0), profile)
        assert hits == [0, 1]
        assert missed[1, "evicted"] == 1
        assert found(None, profile)[0] == [0, 0]


@pytest.mark.parametrize(
    "options",
    [{"write": "through-selective"}, {"min_load_tokens": 17}, {"chunk_tokens": 17}, {"output": False}],
    ids=["selective", "least to load", "chunks", "no output"],
)
def test_a_tier_that_lets_go_of_what_expires_is_refused(options):
    """Whether the TTL or the tier lost a block cannot be told then."""
    log = make_log([{"at_us": SECOND, "ids": [1]}])

    with pytest.raises(UsageError, match="lets go of what expires above"):
        replay_log(log, _scenario(Tier(capacity="9 blocks", **options), ttl="5m"), ())


def _taking_turns() -> list[dict]:
    """Two prompts of two blocks and a partial one: a cache of three holds one."""
    ids = [[1, 2], [3, 4], [1, 2], [1, 2], [3, 4]]
    return [{"at_us": 4 * n * SECOND, "ids": each, "prompt_tokens": 33} for n, each in enumerate(ids)]


@pytest.mark.parametrize("runs", [False, True], ids=["one at a time", "running"])
def test_what_is_read_without_being_promoted_is_read_again(runs, tmp_path):
    """The second prompt pushes out the first, whose reads push out the second and leave nothing above; the books close."""
    rows = _taking_turns()
    if runs:
        rows = [{**row, "finished_at": row["at_us"] + SECOND} for row in rows]
    workspace = write_workspace(tmp_path, rows)
    scenarios = {
        promote: _scenario(Tier(capacity="9 blocks", promote=promote)).model_copy(
            update={"name": str(promote)}
        )
        for promote in (True, False)
    }

    books = {}
    for promote, scenario in scenarios.items():
        summary = run(workspace, scenario)
        attribute.run(workspace, scenario.name)
        books[promote] = read(summary, "lookups")
        assert any("not cached above again" in note for note in summary.notes) != promote

    above = {p: [row["hit_tokens"] - row["hit_host_tokens"] for row in books[p]] for p in books}
    assert above == {True: [0, 0, 0, 32, 0], False: [0, 0, 0, 0, 0]}
    for each in books.values():
        assert [row["hit_tokens"] for row in each] == [0, 0, 32, 32, 32]
        assert [row["miss_evicted_tokens"] for row in each] == [0] * 5


def test_nobody_holds_above_what_it_read_from_a_shared_store():
    """A replica that read a prompt and did not keep it is not where others should have asked for it."""
    own = {"ids": [1, 2], "prompt_tokens": 33}
    rows = [
        {**own, "replica": "a"},
        {"ids": [3, 4], "prompt_tokens": 33, "replica": "a"},
        {**own, "replica": "b"},
        {"ids": [5, 6], "prompt_tokens": 33, "replica": "c"},
        {"ids": [7, 8], "prompt_tokens": 33, "replica": "c"},
        {**own, "replica": "d"},
    ]
    log = make_log([{**row, "at_us": n * SECOND} for n, row in enumerate(rows)])

    def resident(promote: bool) -> list[int | None]:
        tier = Tier(capacity="4 blocks", scope="fleet", promote=promote)
        files, _ = replay_log(log, _scenario(tier), ())
        return [s["resident_replica"] for s in rows_of(files, "facts") if s["lookup"] == 5]

    assert resident(True) == [1]
    assert resident(False) == [None]


def test_a_ttl_is_refused_where_what_is_read_is_not_cached_again():
    """No engine has one, and what would expire above is not followed."""
    log = make_log([{"at_us": SECOND, "ids": [1]}])

    with pytest.raises(UsageError, match="promote = false"):
        replay_log(log, _scenario(Tier(capacity="9 blocks", promote=False), ttl="5m"), ())


def test_chunks_are_written_and_read_whole():
    """Blocks of 16, chunks of 32: of three blocks two are written, and both or none are read."""
    first = {"ids": [1, 2, 3], "prompt_tokens": 49}
    rows = [first, {"ids": [7, 8, 9, 10]}, first, {"ids": [1, 5, 6]}]
    rows = [{**row, "at_us": n * SECOND} for n, row in enumerate(rows)]

    files, _ = replay_log(
        make_log(rows), _scenario(Tier(capacity="99 blocks", chunk_tokens=32), "5 blocks"), ()
    )

    assert [row["hit_host_blocks"] for row in rows_of(files, "lookup_facts")] == [0, 0, 2, 0]
