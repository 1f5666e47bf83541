from __future__ import annotations

import pytest

from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log


def _rows():
    """Every other prompt ends with a partial block; two replicas, some reuse at every distance."""
    return [
        {
            "at_us": n * SECOND,
            "ids": [n * n % 7, *range(10, 11 + n % 3)],
            "replica": f"r{n % 2}",
            "prompt_tokens": 16 * (2 + n % 3) + n % 2 * 5,
            "finished_at": (n + 2) * SECOND,
        }
        for n in range(60)
    ]


def _replay(capacity, version, residence="none"):
    cache = Cache(version=version, capacity=f"{capacity} blocks")
    flight = InFlight(residence=residence, output="ignore")
    files, summary = replay_log(make_log(_rows()), Scenario(pool=(Pool(cache=cache, in_flight=flight),)), [])
    return files, summary


@pytest.mark.parametrize("version", ["0.22.1", "0.24.0"])
def test_curve_and_needed_capacities_are_those_of_the_version(version):
    """Each point of the curve is a replay, and an evicted block hits from its needed capacity on and not one below."""
    files, _ = _replay(8, version)
    points = {p["capacity_blocks"]: p["hit_blocks"] for p in files["capacity_curve.parquet"].to_pylist()}

    replayed = {}
    for capacity in range(min(points), max(points) + 2):
        found, _ = _replay(capacity, version)
        replayed[capacity] = {
            row["lookup"]: row["hit_blocks"] for row in found["lookup_facts.parquet"].to_pylist()
        }
    for capacity, hits in points.items():
        assert sum(replayed[capacity].values()) == hits
    asked = 0
    for segment in files["facts.parquet"].to_pylist():
        needed, end = segment["own_distance_blocks"], segment["first_block"] + segment["n_blocks"]
        cap = files["lookup_facts.parquet"]["cap_blocks"][segment["lookup"]].as_py()
        if needed is None or segment["hit"] or segment["first_block"] >= cap:
            continue
        assert replayed[needed][segment["lookup"]] >= end
        assert needed - 1 not in replayed or replayed[needed - 1][segment["lookup"]] < end
        asked += 1
    assert asked > 5


@pytest.mark.parametrize("residence", ["none", "logged"])
def test_versions_hit_differently_and_an_absent_one_is_the_newest(residence):
    """Freed partial blocks that wait in line push out what could have hit."""
    hits = {version: _replay(8, version, residence)[1].hit_tokens for version in ("0.22", "0.24", None)}

    assert hits["0.24"] == hits[None] != hits["0.22"]
