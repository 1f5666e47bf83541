from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import traces
from prefixledger import attribute
from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay import run
from prefixledger.replay.chains import build_chains
from prefixledger.replay.outputs import find_outputs
from prefixledger.replay.plan import make_plan
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log, named, read, trace_rows, write_workspace
from support import shared
from twins.radix_running import Running
from twins.vllm_blocks import Row


def _scenario(capacity="unlimited", in_flight=None, name="radix", **cache):
    cache = Cache(profile="sglang", capacity=capacity, **cache)
    return Scenario(name=name, pool=(Pool(cache=cache, in_flight=in_flight or InFlight()),))


def _rows():
    """Nodes that later lookups split, two replicas, every second prompt ends with a block."""
    return [
        {
            "at_us": n * SECOND,
            "ids": [n % 3, *range(10, 12 + n % 4), *([100 + n] if n % 5 == 0 else [])],
            "replica": f"r{n % 2}",
            "prompt_tokens": 16 * (3 + n % 4 + (n % 5 == 0)) + n % 2,
        }
        for n in range(40)
    ]


def test_hits_of_the_stage_are_those_of_the_engine(tmp_path):
    """The conversation trace at 2,000 blocks: every row of the golden file, the ladder's last rung, and closed books."""
    trace = traces.load(shared("traces/mooncake_conversation.jsonl.zst"), 512)
    workspace = write_workspace(tmp_path, trace_rows(trace, 512))

    summary = run(workspace, _scenario("2000 blocks"))
    attribute.run(workspace, "radix")

    golden = pq.read_table(shared("golden/sglang_conv_seq_2000.parquet"))["hit_tokens"].to_numpy()
    facts, ladder = read(summary, "lookup_facts"), read(summary, "ladder")
    assert [512 * row["hit_blocks"] for row in facts] == golden.tolist()
    assert [row["capacity"] for row in ladder] == [row["hit_blocks"] for row in facts]
    assert summary.pools[0].residence == "none"
    misses = pq.read_table(workspace.replay("radix") / "misses.parquet", columns=["cause", "tokens"])
    tokens = Counter()
    for cause, missed in zip(misses["cause"].to_pylist(), misses["tokens"].to_pylist(), strict=True):
        tokens[cause] += missed
    assert set(tokens) == {"cold", "evicted", "uncacheable"}
    assert summary.hit_tokens + tokens.total() == summary.prompt_tokens
    rungs = {rung.rung: rung.hit_tokens for rung in summary.pools[0].ladder}
    assert tokens["evicted"] == rungs["ttl"] - rungs["capacity"] > 0
    curve = {row["capacity_blocks"]: row["hit_tokens"] for row in read(summary, "capacity_curve")}
    assert curve[2000] == summary.hit_tokens
    assert max(curve.values()) == rungs["ttl"]


def test_every_point_of_the_curve_is_a_replay(tmp_path):
    """Resets and replicas included; the last point evicts nothing, and today's capacity is a point."""
    workspace = write_workspace(tmp_path, _rows())
    events = [named(1, 17 * SECOND + 1, "restart", replica="r1")]
    files, summary = replay_log(make_log(_rows()), _scenario("11 blocks"), events)

    curve = files["capacity_curve.parquet"].to_pylist()
    assert 11 in [point["capacity_blocks"] for point in curve]
    for point in curve:
        _, found = replay_log(make_log(_rows()), _scenario(f"{point['capacity_blocks']} blocks"), events)
        assert found.hit_tokens == point["hit_tokens"] == 16 * point["hit_blocks"]
    _, unlimited = replay_log(make_log(_rows()), _scenario(), events)
    assert curve[-1]["hit_tokens"] == unlimited.hit_tokens > curve[0]["hit_tokens"]
    assert summary.hit_tokens < unlimited.hit_tokens
    assert any("classic radix tree" in note for note in run(workspace, _scenario()).notes)


def test_more_capacity_can_hit_less():
    """Whole leaves go, so the curve is no stack's: one block more costs this log a hit."""
    prompts = [
        (11, [0, 1]),
        (12, [2, 3, 4]),
        (12, [0, 1, 5]),
        (4, [2]),
        (12, [0, 6, 7]),
        (16, [0, 1, 5, 8]),
    ]
    rows = [
        {"at_us": n * SECOND, "ids": ids, "prompt_tokens": tokens, "block_size": 4}
        for n, (tokens, ids) in enumerate(prompts)
    ]

    hits = [replay_log(make_log(rows), _scenario(f"{n} blocks"), [])[1].hit_tokens for n in (6, 7)]

    assert hits[1] < hits[0]


def test_a_needed_capacity_is_not_made_up():
    """An evicted block says when it left and who took its room, but not what capacity would have kept it."""
    files, _ = replay_log(make_log(_rows()), _scenario("9 blocks"), [])

    facts = files["facts.parquet"]
    assert facts["own_distance_blocks"].null_count == facts["else_distance_blocks"].null_count == len(facts)
    lost = [row for row in facts.to_pylist() if not row["hit"] and row["removed_by"] is not None]
    assert lost
    assert all(row["own_previous"] <= row["removed_by"] <= row["lookup"] for row in lost)


def test_one_request_at_a_time_is_said():
    """Without ends in the log auto is none, and the notes say what that leaves out."""
    _, summary = replay_log(make_log(_rows()), _scenario(), [])

    assert (summary.pools[0].residence, summary.pools[0].output) == ("none", "ignore")
    assert any("running requests and output take no room" in note for note in summary.notes)


def _overlapping(seed):
    """Requests that share heads, overlap, and run on two replicas; the log has first tokens and ends."""
    rng = random.Random(seed)
    rows, at = [], 0
    for n in range(60):
        at += rng.randint(0, 2)
        turn = rng.randint(1, 4)
        ids = [n // 8, *range(10, 10 + turn), *([100 + n] if n % 4 == 0 else [])]
        prefill = rng.randint(0, 6)
        rows.append(
            {
                "at_us": at * SECOND,
                "ids": ids,
                "replica": f"r{rng.randint(0, 1)}",
                "prompt_tokens": 16 * len(ids) + rng.choice([0, 0, 5]),
                "output_tokens": rng.randint(1, 60),
                "first_token_at": (at + prefill) * SECOND,
                "finished_at": (at + prefill + rng.randint(0, 8)) * SECOND,
                "session_id": f"s{rng.randint(0, 3)}",
            }
        )
    return rows


def _us(table, column):
    return table[column].cast(pa.int64()).to_pylist()


def _path(parent, block):
    path = []
    while block >= 0:
        path.append(block)
        block = int(parent[block])
    return path[::-1]


def _twin_of(log, scenario, capacity, output):
    """Replay a log with the twin; return its answer and the order of admission."""
    (plan,) = make_plan(log, scenario, []).pools
    residence, known = plan.residence, log.lookups
    found = find_outputs(log, plan.mine, build_chains(log.forest.parent), plan.block_size)
    last = known.last_block if output == "ignore" else found.last_block
    rows = [
        Row(
            arrival=int(residence.queued_us[i]),
            replica=int(plan.replica[i]),
            tokens=int(known.prompt_tokens[i]),
            keys=_path(log.forest.parent, int(last[i])),
            prompt_keys=int(known.n_blocks[i]),
            hold=int(residence.hold_us[i]),
            prefill=int(residence.prefill_us[i]),
            output=int(found.tokens[i]),
        )
        for i in range(len(known))
    ]
    answer = Running(rows, plan.block_size, capacity, len(plan.fleet.replicas), output=output).run()
    return answer, np.argsort(answer.admitted, kind="stable").tolist()


@pytest.mark.parametrize("output", ["ignore", "as_decoded", "at_release"])
def test_running_requests_share_the_room(tmp_path, output):
    """Stage and twin agree on every hit, admission and end; what was being computed is in flight; the books close."""
    rows = _overlapping(5)
    workspace = write_workspace(tmp_path, rows)
    scenario = _scenario("11 blocks", in_flight=InFlight(output=output))

    summary = run(workspace, scenario)
    facts, pieces = read(summary, "lookup_facts"), read(summary, "facts")
    log = make_log(rows)
    answer, order = _twin_of(log, scenario, capacity=11, output=output)

    assert (summary.pools[0].residence, summary.pools[0].output) == ("logged", output)
    assert [row["hit_blocks"] for row in facts] == [answer.hit[i] for i in order]
    assert [row["admitted_at"] for row in facts] == [answer.admitted[i] for i in order]
    assert [row["finished_at"] for row in facts] == [answer.finished[i] for i in order]
    place = {i: number for number, i in enumerate(order)}
    flying = {place[i]: (place[other], end) for i, (other, end) in enumerate(answer.in_flight) if other >= 0}
    assert len(flying) > 5
    told = {}
    for piece in pieces:
        if piece["rule"] is not None:
            assert piece["rule"] == "in_flight"
            assert not piece["hit"]
            told.setdefault(piece["lookup"], []).append(piece)
    assert {
        lookup: (found[0]["in_flight_lookup"], found[-1]["first_block"] + found[-1]["n_blocks"])
        for lookup, found in told.items()
    } == flying
    for lookup, found in told.items():
        assert found[0]["first_block"] == facts[lookup]["hit_blocks"]
        assert len({piece["in_flight_lookup"] for piece in found}) == 1
    assert any(f"{len(flying)} lookups missed blocks that a running" in note for note in summary.notes)


def test_what_is_in_flight_closes_the_books(tmp_path):
    """Hits and misses sum to the prompts, and the misses in flight name who computed them at that moment."""
    workspace = write_workspace(tmp_path, _overlapping(7))
    summary = run(workspace, _scenario("14 blocks"))

    attribute.run(workspace, "radix")

    misses = pq.read_table(workspace.replay("radix") / "misses.parquet").to_pylist()
    assert summary.hit_tokens + sum(miss["tokens"] for miss in misses) == summary.prompt_tokens
    flying = [miss for miss in misses if miss["cause"] == "in_flight"]
    facts = {f"q{row['request_row'] + 1}": row for row in read(summary, "lookup_facts")}
    assert flying
    for miss in flying:
        mine, other = facts[miss["request_id"]], facts[miss["previous_request_id"]]
        assert mine["replica"] == other["replica"]
        assert other["lookup"] < mine["lookup"]
        assert mine["admitted_at"] <= other["finished_at"]


def test_the_ladder_stays_that_of_one_request_at_a_time():
    """Its last rung is the sequential tree, at the times of admission, whatever runs beside it."""
    rows = _overlapping(3)
    files, summary = replay_log(make_log(rows), _scenario("14 blocks"), [])
    facts = files["lookup_facts.parquet"]
    placed = zip(facts["request_row"].to_pylist(), _us(facts, "admitted_at"), strict=True)
    alone = make_log([{**rows[row], "at_us": at} for row, at in placed])

    found, _ = replay_log(alone, _scenario("14 blocks", InFlight(residence="none")), [])

    rung = files["ladder.parquet"]["capacity"].to_pylist()
    assert rung == found["lookup_facts.parquet"]["hit_blocks"].to_pylist()
    assert sum(rung) * 16 != summary.hit_tokens


def test_estimated_residence_and_output_alone_run_too():
    """A hit shortens an estimated prefill; output without residence is in the tree before the next lookup."""
    rows = [
        {"at_us": 0, "ids": [1, 2], "prompt_tokens": 32, "output_tokens": 17, "session_id": "s"},
        {
            "at_us": 60 * SECOND,
            "ids": [1, 2, 3, 4],
            "prompt_tokens": 64,
            "output_tokens": 1,
            "session_id": "s",
        },
    ]
    estimated = InFlight(residence="estimated", prefill_ms_per_token=10, decode_ms_per_token=20)

    files, summary = replay_log(make_log(rows), _scenario(in_flight=estimated), [])
    alone, told = replay_log(make_log(rows), _scenario(in_flight=InFlight(output="at_release")), [])

    for table in (files, alone):
        assert table["lookup_facts.parquet"]["hit_blocks"].to_pylist() == [0, 3]
    assert _us(files["lookup_facts.parquet"], "finished_at") == [
        (32 * 10 + 17 * 20) * 1000,
        60 * SECOND + (16 * 10 + 20) * 1000,
    ]
    assert (summary.pools[0].residence, told.pools[0].residence) == ("estimated", "none")
    assert alone["lookup_facts.parquet"]["finished_at"].null_count == 2


def test_a_time_limit_gives_what_the_ttl_curve_says():
    """Where nothing is evicted, a longer TTL turns misses that had expired into hits, as many as the curve tells."""
    log = make_log(_rows())
    _, unlimited = replay_log(log, _scenario(), [])
    found = {}
    for seconds in (0, 1, 2, 3, 6, 50):
        files, summary = replay_log(log, _scenario(ttl=f"{seconds}s"), [])
        found[seconds] = summary.hit_tokens
        curve = files["ttl_curve.parquet"].to_pydict()
        at = np.searchsorted(curve["ttl_us"], seconds * SECOND, side="right")
        assert ([0, *curve["hit_tokens"]])[at] == summary.hit_tokens
    assert sorted(found.values()) == list(found.values())
    assert found[0] == 0 < found[6] < found[50] == unlimited.hit_tokens


def test_a_long_prompt_is_shown_in_chunks():
    """Of 4 blocks that take 4 s in chunks of one, two are shown after 2 s; without chunks, none."""
    row = {"ids": [1, 2, 3, 4], "prompt_tokens": 65}
    rows = [
        {**row, "at_us": at, "first_token_at": at + 4 * SECOND, "finished_at": 9 * SECOND}
        for at in (0, 2 * SECOND + 1)
    ]

    def hits(chunk: int | None):
        flight = InFlight(residence="logged", chunked_prefill_tokens=chunk)
        files, summary = replay_log(make_log(rows), _scenario(in_flight=flight), ())
        return files["lookup_facts.parquet"]["hit_blocks"].to_pylist(), summary.notes

    assert hits(16)[0] == [0, 2]
    assert hits(0)[0] == hits(None)[0] == [0, 0]
    assert any("more than 8192 tokens is shown chunk by chunk" in note for note in hits(None)[1])
    with pytest.raises(UsageError, match="shows a prompt when it is admitted"):
        parse_scenario("[in_flight]\nchunked_prefill_tokens = 4096\n")
