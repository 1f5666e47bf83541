from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import traces
from prefixledger.config.scenario import Cache, Event, Fleet, InFlight, Match, Pool, Scenario
from prefixledger.errors import UsageError
from prefixledger.replay import run
from stage_support import MINUTE, SECOND, named, read, trace_rows, write_workspace
from support import shared


def _pool(**cache):
    fields = {name: cache.pop(name) for name in ("fleet", "in_flight", "match") if name in cache}
    return Scenario(pool=(Pool(cache=Cache(**{"profile": "vllm", **cache}), **fields),))


def _event(at_us, kind="restart", **fields):
    return named(0, at_us, kind, **fields).event


def _rows(count=12, **fields):
    return [
        {"at_us": n * SECOND, "ids": [1, 2, 10 + n % 3], "replica": f"r{n % 2}", **fields}
        for n in range(count)
    ]


def test_a_rolling_deploy_blames_no_router(tmp_path):
    """New pod names take over: what only dead pods held is gone with them, and nobody holds it."""
    old = [{"at_us": n * MINUTE, "ids": [1, 2, 3], "replica": f"old-{n % 2}"} for n in range(20)]
    new = [{"at_us": (60 + n) * MINUTE, "ids": [1, 2, 3], "replica": f"new-{n % 2}"} for n in range(20)]
    summary = run(write_workspace(tmp_path, old + new))

    replicas = {row["name"]: row for row in read(summary, "replicas")}
    assert replicas["old-1"]["live_to"] == 29 * MINUTE
    assert replicas["new-0"]["live_to"] is None
    events = read(summary, "events")
    assert [(row["event_id"], row["kind"], row["at"] // MINUTE) for row in events] == [
        ("gone:old-0", "replica_gone", 28),
        ("gone:old-1", "replica_gone", 29),
    ]
    missed = [row for row in read(summary, "facts") if not row["hit"] and row["lookup"] in (20, 21)]
    first, second = missed
    assert first["resident_replica"] is None  # both old pods are dead
    assert first["else_previous"] == 19
    assert first["else_reset"] == 1  # the end of old-1, which used it last
    assert second["resident_replica"] == replicas["new-0"]["replica"]  # that is the router's


def test_a_router_is_blamed_for_a_live_replica_only_while_it_lives(tmp_path):
    """Nine minutes after its last request old-0 still holds it, eleven minutes after it does not."""

    def resident(minutes):
        rows = [
            {"at_us": 0, "ids": [1], "replica": "old"},
            {"at_us": minutes * MINUTE, "ids": [1], "replica": "new"},
            {"at_us": 60 * MINUTE, "ids": [9], "replica": "new"},
        ]
        summary = run(write_workspace(tmp_path / str(minutes), rows))
        return [row["resident_replica"] for row in read(summary, "facts")][1]

    assert resident(9) == 1
    assert resident(10) is None  # at the moment of death events come first
    assert resident(11) is None


def test_events_come_before_lookups_of_the_same_moment(tmp_path):
    """A restart at t: the lookup at t finds nothing, and the reset lies after its last use."""
    rows = [{"at_us": n * SECOND, "ids": [1]} for n in range(3)]
    workspace = write_workspace(tmp_path, rows)

    summary = run(workspace, events=[_event(1 * SECOND), _event(0)])

    assert [row["hit_blocks"] for row in read(summary, "lookup_facts")] == [0, 0, 1]
    assert [(row["event"], row["event_id"], row["at"]) for row in read(summary, "events")] == [
        (0, "e1", 0),
        (1, "e2", SECOND),
    ]
    facts = read(summary, "facts")
    assert [row["own_reset"] for row in facts] == [None, 1, None]
    assert summary.pools[0].ladder[1].hit_blocks == 2
    assert summary.pools[0].ladder[2].hit_blocks == 1


def test_a_flush_waits_for_nobody_but_is_stopped_by_a_running_request(tmp_path):
    """It is said, it is in no file, and with force it happens."""
    rows = [
        {"at_us": 0, "ids": [1], "finished_at": 10 * SECOND},
        {"at_us": 20 * SECOND, "ids": [1], "finished_at": 30 * SECOND},
    ]
    workspace = write_workspace(tmp_path, rows)

    ignored = run(workspace, events=[_event(5 * SECOND, "flush")])
    assert read(ignored, "events") == []
    assert any("e1 (flush) changed nothing on (all)" in note for note in ignored.notes)
    assert ignored.hit_tokens == 16

    forced = run(workspace, events=[_event(5 * SECOND, "flush", force=True)])
    assert [row["kind"] for row in read(forced, "events")] == ["flush"]
    assert forced.hit_tokens == 0


def test_an_event_that_names_nobody_is_an_error_in_a_scenario_and_a_note_from_a_file(tmp_path):
    """A file of a whole fleet's events may know more replicas than this log."""
    workspace = write_workspace(tmp_path, _rows())
    lost = _event(0, replica="r9")

    with pytest.raises(UsageError, match=r"(?s)e1 \(restart\) names 'r9'.*r0, r1"):
        run(workspace, Scenario(event=(lost,)))
    assert any("'r9'" in note for note in run(workspace, events=[lost]).notes)
    with pytest.raises(UsageError, match="no pool 'x'"):
        run(workspace, events=[Event(at=lost.at, kind="restart", pool="x")])


def test_failed_and_keyless_rows_are_told_and_do_not_touch_the_cache(tmp_path):
    """They are no lookups; a failed call still shows that its replica was there."""
    rows = [
        {"at_us": 0, "ids": [1], "status": "failed", "replica": "b"},
        {"at_us": 1, "ids": [], "keyed": False, "cached_tokens_observed": 3, "replica": "a"},
        {"at_us": 2, "ids": [1], "status": "cut", "replica": "a"},
        {"at_us": 3, "ids": [1], "replica": "a"},
    ]
    summary = run(write_workspace(tmp_path, rows))

    assert (summary.lookups, summary.failed, summary.unkeyed) == (2, 1, 1)
    assert [row["request_row"] for row in read(summary, "lookup_facts")] == [2, 3]
    assert summary.pools[0].replicas == ("a", "b")
    assert summary.hit_tokens == 16


def test_pools_have_their_own_caches_and_numbers(tmp_path):
    """Lookups are numbered over all pools; replicas by pool, then name; the ideal knows no pools."""
    rows = [
        {"at_us": n, "ids": [1], "model": "m1" if n % 2 else "m2", "replica": ["y", "x"][n // 2 % 2]}
        for n in range(8)
    ]
    scenario = Scenario(pool=(Pool(match=Match(model=("m1",)), cache=Cache(capacity="1 blocks")), Pool()))
    summary = run(write_workspace(tmp_path, rows), scenario)

    facts = read(summary, "lookup_facts")
    assert [row["lookup"] for row in facts] == [row["request_row"] for row in facts] == list(range(8))
    assert [row["pool"] for row in facts] == [1, 0] * 4
    names = [(row["pool"], row["name"]) for row in read(summary, "replicas")]
    assert names == [(0, "x"), (0, "y"), (1, "x"), (1, "y")]
    assert [row["replica"] for row in facts] == [3, 1, 2, 0] * 2
    assert [row["refused"] for row in facts] == [False, True] * 4
    assert [row["hit_blocks"] for row in facts] == [0, 0, 0, 0, 1, 0, 1, 0]
    assert [row["ideal_blocks"] for row in read(summary, "ladder")] == [0] + [1] * 7
    missed = [row for row in read(summary, "facts") if row["lookup"] == 2]
    assert [(row["else_previous"], row["resident_replica"]) for row in missed] == [(0, 3)]


def test_as_logged_takes_the_number_of_names_or_none(tmp_path):
    """Another number is refused, and other routings need one."""
    workspace = write_workspace(tmp_path, _rows())

    assert run(workspace, _pool(fleet=Fleet(replicas=2))).pools[0].replicas == ("r0", "r1")
    with pytest.raises(UsageError, match=r"replicas = 3.*the log names 2"):
        run(workspace, _pool(fleet=Fleet(replicas=3)))
    with pytest.raises(UsageError, match="needs a number of replicas"):
        run(workspace, _pool(fleet=Fleet(routing="random")))


def test_residence_comes_from_the_log_or_is_asked_for(tmp_path):
    """auto: logged where there are ends, estimated where there are rates, else none; nothing is made up."""
    plain = write_workspace(tmp_path / "plain", _rows())
    ended = write_workspace(
        tmp_path / "ended", [{**row, "finished_at": row["at_us"] + SECOND} for row in _rows()]
    )
    rates = {"prefill_ms_per_token": 1.0, "decode_ms_per_token": 1.0}

    def residence(workspace, **fields):
        pool = run(workspace, _pool(in_flight=InFlight(**fields))).pools[0]
        return pool.residence, pool.output

    assert residence(plain) == ("none", "ignore")
    assert residence(ended) == ("logged", "as_decoded")
    assert residence(plain, **rates) == ("estimated", "as_decoded")
    assert residence(ended, residence="none") == ("none", "ignore")
    assert residence(ended, output="ignore") == ("logged", "ignore")
    with pytest.raises(UsageError, match="residence 'logged' needs an end"):
        residence(plain, residence="logged")
    with pytest.raises(UsageError, match="'textbook' knows neither"):
        run(ended, _pool(profile="textbook", in_flight=InFlight(residence="logged")))


def test_running_requests_take_room_and_a_hit_shortens_an_estimated_one(tmp_path):
    """The second prompt waits for the first; the third, a hit, is out again before the fourth comes."""
    rows = [
        {"at_us": 0, "ids": [1, 2]},
        {"at_us": 1 * SECOND, "ids": [3, 4]},
        {"at_us": 20 * SECOND, "ids": [3, 4]},
        {"at_us": 22 * SECOND, "ids": [5, 6]},
    ]
    workspace = write_workspace(tmp_path, rows)

    def admitted(**fields):
        flight = InFlight(prefill_ms_per_token=100, decode_ms_per_token=0, **fields)
        summary = run(workspace, _pool(capacity="4 blocks", in_flight=flight))
        return [row["admitted_at"] / SECOND for row in read(summary, "lookup_facts")]

    assert admitted() == [0, 3.3, 20, 22]
    assert admitted(hits_shorten_prefill=False) == [0, 3.3, 20, 23.3]


def test_the_textbook_closes_its_books_too(tmp_path):
    """Its hits differ, its causes follow from last uses, and it says what it does not know."""
    rows = [{"at_us": n, "ids": [1, 2, 3 + n % 2]} for n in range(8)]
    summary = run(write_workspace(tmp_path, rows), _pool(profile="textbook", capacity="3 blocks"))

    ladder, facts = read(summary, "ladder"), read(summary, "lookup_facts")
    assert [row["capacity"] for row in ladder] == [row["hit_blocks"] for row in facts]
    assert all(row["cap_blocks"] == row["full_blocks"] for row in facts)
    assert summary.pools[0].ladder[3].hit_blocks > summary.pools[0].ladder[4].hit_blocks
    assert read(summary, "capacity_curve") == []
    assert any("textbook" in note for note in summary.notes)


def test_curves_equal_replays(tmp_path):
    """Stored points of both curves are what a replay with that limit counts."""
    rows = [
        {
            "at_us": n * n * SECOND,
            "ids": [n % 3, *range(10, 12 + n % 4)],
            "replica": f"r{n % 2}",
            "prompt_tokens": 16 * (3 + n % 4) + n % 2,
        }
        for n in range(40)
    ]
    workspace = write_workspace(tmp_path, rows)
    summary = run(workspace)

    capacities, lives = read(summary, "capacity_curve"), read(summary, "ttl_curve")
    assert len(capacities) > 3
    assert len(lives) > 3
    for point in capacities[::4]:
        replayed = run(workspace, _pool(capacity=f"{point['capacity_blocks']} blocks"))
        assert replayed.hit_tokens == point["hit_tokens"] == 16 * point["hit_blocks"]
    for point in lives[::6]:
        assert run(workspace, _pool(ttl=f"{point['ttl_us']}us")).hit_tokens == point["hit_tokens"]


def test_warm_ups_of_a_replay(tmp_path):
    """A fifth of 10 hours is above an hour; with little room the first eviction ends it; a gap starts another."""
    busy = [{"at_us": n * MINUTE, "ids": [n, n + 1]} for n in range(60)]
    late = [{"at_us": (540 + n) * MINUTE, "ids": [n, n + 2]} for n in range(61)]
    workspace = write_workspace(tmp_path, busy + late)

    def warm_ups(**cache):
        rows = read(run(workspace, _pool(**cache)), "warmups")
        return [(row["from_at"] // MINUTE, row["to_at"] // MINUTE, row["cause"]) for row in rows]

    assert warm_ups() == [(0, 60, "first_request"), (540, 600, "coverage_gap")]
    assert warm_ups(ttl="90m") == [(0, 90, "first_request"), (540, 630, "coverage_gap")]
    assert warm_ups(capacity="7 blocks") == [(0, 3, "first_request"), (540, 540, "coverage_gap")]


def test_shared_prefixes_of_a_replay(tmp_path):
    """Nodes with key and depth, and the pieces of every lookup in order of admission."""
    rows = [{"at_us": n, "ids": [1, 2, n]} for n in (3, 4, 4)]
    summary = run(write_workspace(tmp_path, rows))

    shared_nodes = {row["node"]: row for row in read(summary, "shared")}
    assert sorted(row["depth_blocks"] for row in shared_nodes.values()) == [2, 3]
    assert all(len(row["key"]) == 16 and row["namespace"] == "n" for row in shared_nodes.values())
    pieces = [
        (row["lookup"], row["first_block"], row["n_blocks"], row["node"] is None)
        for row in read(summary, "lookup_shared")
    ]
    assert pieces == [
        (0, 0, 2, False), (0, 2, 1, True), (1, 0, 2, False), (1, 2, 1, False), (2, 0, 2, False), (2, 2, 1, False),
    ]  # fmt: skip


def test_removals_name_what_left_and_for_whom(tmp_path):
    """Evicted from the tail by the lookup that needed room; expired by time alone."""
    rows = [{"at_us": n * SECOND, "ids": [10 * n, 10 * n + 1]} for n in range(2)]
    workspace = write_workspace(tmp_path, rows)

    evicted = read(run(workspace, _pool(capacity="4 blocks")), "removals")
    assert [(row["lookup"], row["removed_at"], row["n_blocks"], row["cause"]) for row in evicted] == [
        (1, SECOND, 1, "evicted")
    ]
    expired = read(run(workspace, _pool(ttl="500ms")), "removals")
    assert [(row["lookup"], row["removed_at"], row["n_blocks"], row["cause"]) for row in expired] == [
        (None, SECOND // 2, 2, "expired"),
        (None, SECOND + SECOND // 2, 2, "expired"),
    ]


@pytest.mark.parametrize("capacity", [500, 2000, 10000])
def test_a_trace_hits_what_the_engine_hits(tmp_path, capacity):
    """The whole stage on a public trace: 0 of 12,031 requests differ from vLLM's own cache."""
    trace = traces.load(shared("traces/mooncake_conversation.jsonl.zst"), 512)
    golden = pq.read_table(shared(f"golden/vllm_conv_seq_{capacity}.parquet")).sort_by("row")
    summary = run(write_workspace(tmp_path, trace_rows(trace, 512)), _pool(capacity=f"{capacity} blocks"))

    facts = pq.read_table(summary.folder / "lookup_facts.parquet").sort_by("request_row")
    differ = 512 * facts["hit_blocks"].to_numpy() != golden["hit_tokens"].to_numpy()
    assert int(differ.sum()) == 0
    assert summary.ideal_hit_tokens == 512 * 105_592  # 37.34 % of the prompt tokens
