from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.held import _events
from prefixledger.replay.held_kernel import count_held
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log
from twins.held_blocks import Run, slices

BLOCK, WIDTH = 4, 7


@st.composite
def _cases(draw, output):
    parents = [draw(st.integers(-1, n - 1)) for n in range(draw(st.integers(1, 12)))]
    runs = []
    for _ in range(draw(st.integers(1, 9))):
        path, block = [], draw(st.integers(-1, len(parents) - 1))
        while block >= 0:
            path.append(block)
            block = parents[block]
        begin, prefill, decode = (draw(st.integers(0, most)) for most in (20, 6, 20))
        decode += prefill + decode == 0
        tokens = max(1, BLOCK * len(path) + draw(st.integers(0, 9)))
        generated = draw(st.integers(0, 12)) if output and decode else 0
        first = begin + prefill
        runs.append(
            Run(draw(st.integers(0, 1)), tuple(path[::-1]), tokens, generated, begin, first, first + decode)
        )
    return parents, runs


def _counted(parents, runs):
    chains = build_chains(np.array(parents, np.int64))
    paths = build_paths(chains, np.array([run.path[-1] if run.path else -1 for run in runs], np.int64))
    begin, first, end, replica = (
        np.array([getattr(run, name) for run in runs], np.int64)
        for name in ("begin", "first", "end", "replica")
    )
    events = _events(np.arange(len(runs)), replica, (end, first, begin))
    of_runs = [
        [run.tokens for run in runs], [run.output for run in runs], first, end, [len(run.path) for run in runs],
    ]  # fmt: skip
    peak, twice = np.zeros((2, 8), np.int64), np.zeros((2, 8), np.int64)
    count_held(
        *events,
        *(read_only(column, np.int64) for column in (replica, *of_runs, paths.offset)),
        *(read_only(column, np.int32) for column in (paths.chain, chains.chain_depth, chains.chain_length)),
        BLOCK,
        0,
        WIDTH,
        peak,
        twice,
    )
    places = zip(*(axis.tolist() for axis in np.nonzero(peak)), strict=True)
    return {place: (int(peak[place]), int(twice[place])) for place in places}


@settings(deadline=None)
@given(_cases(output=False))
def test_blocks_of_prompts_are_counted_as_one_by_one(case):
    """Without output both the largest count and the integral are exact."""
    parents, runs = case
    twin = slices(runs, BLOCK, WIDTH)
    assert _counted(parents, runs) == {place: (most, 2 * total) for place, (most, total) in twin.items()}


@settings(deadline=None)
@given(_cases(output=True))
def test_output_grows_as_it_is_decoded(case):
    """The largest count is exact; between two moments the integral takes growth as even, off by a block a request."""
    parents, runs = case
    found, twin = _counted(parents, runs), slices(runs, BLOCK, WIDTH)
    assert {place: most for place, (most, _) in found.items()} == {p: most for p, (most, _) in twin.items()}
    for (replica, at), (_, twice) in found.items():
        inside = [
            min(run.end, (at + 1) * WIDTH) - max(run.begin, at * WIDTH)
            for run in runs
            if run.replica == replica
        ]
        assert abs(twice - 2 * twin[replica, at][1]) <= 2 * sum(max(0, each) for each in inside)


def _held(rows, profile="vllm", **in_flight):
    pool = Pool(cache=Cache(profile=profile, capacity="20 blocks"), in_flight=InFlight(**in_flight))
    return replay_log(make_log(rows), Scenario(pool=(pool,)), ())[0]["held.parquet"].to_pylist()


def _rows():
    """Two requests of three blocks, two of them shared, that run together for 2 s of the 4 s that each takes."""
    return [
        {
            "at_us": at * SECOND, "ids": ids, "prompt_tokens": 48, "output_tokens": 33,
            "first_token_at": at * SECOND, "finished_at": (at + 4) * SECOND,
        }
        for at, ids in ((10, [1, 2, 3]), (12, [1, 2, 4]))
    ]  # fmt: skip


def test_a_replay_tells_what_running_requests_held():
    """Slices of a second: 3 blocks and the output's first, then its second from the half on; both share two."""
    found = _held(_rows())
    assert {row["slice_at"].second: row["peak_blocks"] for row in found} == {
        10: 4,
        11: 4,
        12: 7,
        13: 7,
        14: 5,
        15: 5,
    }
    assert {row["width_us"] for row in found} == {SECOND}


def test_no_replica_holds_more_than_it_has():
    """Requests of up to 12 blocks queue for 20 blocks."""
    rng = random.Random(5)
    rows = []
    for n in range(60):
        ids = [
            rng.randint(0, 2),
            *([100 + n] * rng.randint(0, 1)),
            *(1000 * n + d for d in range(rng.randint(1, 9))),
        ]
        at_us = n * SECOND
        end = at_us + rng.randint(1, 9) * SECOND
        rows.append({"at_us": at_us, "ids": ids, "prompt_tokens": 16 * len(ids) + 3, "finished_at": end})
    peaks = [row["peak_blocks"] for row in _held(rows, output="ignore")]
    assert 15 < max(peaks) <= 20


def test_nothing_is_told_where_nobody_knows():
    """One request at a time, side by side computations, and the textbook."""
    assert _held(_rows(), residence="none") == []
    assert _held(_rows(), profile="sglang") == []
    assert _held(_rows(), profile="textbook") == []
