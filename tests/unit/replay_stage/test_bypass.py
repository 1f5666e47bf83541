from __future__ import annotations

import pytest

from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_laws import rows_of
from stage_support import SECOND, make_log


def _rows(skips: tuple[int, ...] = (1, 4)) -> list[dict]:
    """Two prompts of six blocks that share four, then others in between, then both again."""
    paths = [
        range(6),
        [0, 1, 2, 3, 8, 9],
        range(10, 16),
        range(6),
        range(6),
        [0, 1, 2, 3, 8, 9],
        range(10, 16),
    ]
    return [
        {"at_us": number * SECOND, "ids": [*ids], "bypassed": number in skips}
        for number, ids in enumerate(paths)
    ]


def _scenario(profile: str = "vllm", capacity: str = "unlimited") -> Scenario:
    return Scenario(pool=(Pool(cache=Cache(profile=profile, capacity=capacity)),))


@pytest.mark.parametrize("profile", ["vllm", "sglang"])
def test_a_request_that_skips_the_lookup_hits_nothing_and_stores_all(profile):
    """All of it is out of reach by its own rule, on every rung; what it computed is there for others."""
    files, summary = replay_log(make_log(_rows()), _scenario(profile), [])

    facts = rows_of(files, "lookup_facts")
    assert [row["hit_blocks"] for row in facts] == [0, 0, 0, 6, 0, 6, 6]
    assert [row["cap_blocks"] for row in facts] == [6, 0, 6, 6, 0, 6, 6]
    assert [row["tail_rule"] for row in facts] == [None, "bypassed", None, None, "bypassed", None, None]
    assert all(row["pooled"] == row["ideal_blocks"] == row["capacity"] for row in rows_of(files, "ladder"))
    assert any("2 requests do not look their prompt up" in note for note in summary.notes)


def test_the_textbook_knows_no_such_request():
    """It looks every block up, whatever the request says."""
    files, _ = replay_log(make_log(_rows()), _scenario("textbook"), [])
    assert [row["hit_blocks"] for row in rows_of(files, "lookup_facts")] == [0, 4, 0, 6, 6, 6, 6]


def test_the_capacity_curve_counts_the_copies_that_it_leaves():
    """Each point equals a replay at that capacity, copies included."""
    rows = _rows((3, 4))
    files, _ = replay_log(make_log(rows), _scenario(), [])
    curve = {row["capacity_blocks"]: row["hit_blocks"] for row in rows_of(files, "capacity_curve")}

    assert len(set(curve.values())) > 2
    for capacity, hits in curve.items():
        found, _ = replay_log(make_log(rows), _scenario(capacity=f"{capacity} blocks"), [])
        assert sum(row["hit_blocks"] for row in rows_of(found, "lookup_facts")) == hits
    without, _ = replay_log(make_log(_rows(())), _scenario(capacity="17 blocks"), [])
    assert max(curve.values()) < sum(row["hit_blocks"] for row in rows_of(without, "lookup_facts"))
