from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

import traces
from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log, trace_rows
from support import shared

BLOCK, ROWS = 512, 6000
MOST_ROWS_OFF, MOST_POINTS_OFF = ROWS // 1000, 0.05


@cache
def _rows():
    trace = traces.load(shared("traces") / "mooncake_conversation.jsonl.zst", BLOCK, ROWS)
    tokens = trace.output_tokens.tolist()
    return [{**row, "output_tokens": tokens[n]} for n, row in enumerate(trace_rows(trace, BLOCK))]


def _scheduled(capacity: int):
    """Return the log that vLLM's scheduler would have written, and what its cache hit, row by row."""
    golden = pq.read_table(shared(f"golden/vllm_sched_conv6000_{capacity}.parquet"))
    assert golden["row"].to_pylist() == list(range(ROWS))
    admitted, finished = (
        np.rint(golden[name].to_numpy() * 1000).astype(np.int64) for name in ("admitted_ms", "finished_ms")
    )
    rows = [
        {**row, "admitted_at": int(admitted[n]), "finished_at": int(finished[n])}
        for n, row in enumerate(_rows())
    ]
    return make_log(rows), golden["hit_tokens"].to_numpy()


def _hit_tokens(log, capacity: int, **in_flight) -> np.ndarray:
    pool = Pool(cache=Cache(capacity=f"{capacity} blocks"), in_flight=InFlight(**in_flight))
    files, _ = replay_log(log, Scenario(pool=(pool,)), ())
    facts = files["lookup_facts.parquet"]
    hit_tokens = np.empty(len(facts), np.int64)
    hit_tokens[facts["request_row"].to_numpy()] = facts["hit_blocks"].to_numpy() * BLOCK
    return hit_tokens


@pytest.mark.parametrize("capacity", [1500, 16384])
def test_a_logged_schedule_is_replayed_as_the_scheduler_ran_it(capacity):
    """From admissions, ends and output lengths: 0.05 points of hit rate and 0.1 % of rows off, at most."""
    log, golden = _scheduled(capacity)

    hit_tokens = _hit_tokens(log, capacity, residence="logged", output="as_decoded")

    points = 100 * (hit_tokens.sum() - golden.sum()) / log.lookups.prompt_tokens.sum()
    assert np.count_nonzero(hit_tokens != golden) <= MOST_ROWS_OFF
    assert abs(points) <= MOST_POINTS_OFF


def test_logged_admissions_decide_who_is_looked_up_first():
    """A request that was let in first hits nothing, whenever it arrived; ties go by arrival."""
    rows = [
        {"at_us": 0, "admitted_at": 9 * SECOND, "finished_at": 10 * SECOND, "ids": [1, 2]},
        {"at_us": 1, "admitted_at": 5 * SECOND, "finished_at": 30 * SECOND, "ids": [1, 2]},
        {"at_us": 2, "finished_at": 6 * SECOND, "ids": [1, 3]},
        {"at_us": 3, "admitted_at": 9 * SECOND, "finished_at": 30 * SECOND, "ids": [1, 2]},
    ]

    files, summary = replay_log(make_log(rows), Scenario(pool=(Pool(),)), ())

    facts = files["lookup_facts.parquet"]
    assert facts["request_row"].to_pylist() == [2, 1, 0, 3]
    assert facts["hit_blocks"].to_pylist() == [0, 1, 2, 2]
    assert facts["admitted_at"].cast("int64").to_pylist() == [2, 5 * SECOND, 9 * SECOND, 9 * SECOND]
    assert any("logged wait" in note for note in summary.notes)


def test_a_request_that_finds_no_room_at_its_logged_admission_waits_for_a_release():
    """Less room than the log had: the pinned blocks of the first keep the second waiting, and it is still let in first."""
    rows = [
        {"at_us": 0, "finished_at": 20 * SECOND, "ids": [1, 2]},
        {"at_us": 1, "admitted_at": 9 * SECOND, "finished_at": 19 * SECOND, "ids": [4, 5]},
        {"at_us": 2, "admitted_at": 8 * SECOND, "finished_at": 18 * SECOND, "ids": [4, 5]},
    ]
    pool = Pool(cache=Cache(capacity="7 blocks"))
    tight = Pool(cache=Cache(capacity="3 blocks"))

    at_once, _ = replay_log(make_log(rows), Scenario(pool=(pool,)), ())
    later, _ = replay_log(make_log(rows), Scenario(pool=(tight,)), ())

    columns = ("request_row", "hit_blocks", "admitted_at")
    seen = [
        [files["lookup_facts.parquet"][name].to_pylist() for name in columns] for files in (at_once, later)
    ]
    assert [each[0] for each in seen] == [[0, 2, 1], [0, 2, 1]]
    assert [each[1] for each in seen] == [[0, 0, 2], [0, 0, 2]]
    assert [[at.timestamp() for at in each[2]] for each in seen] == [[0, 8, 9], [0, 20, 30]]
