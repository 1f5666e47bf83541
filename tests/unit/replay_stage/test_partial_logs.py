"""Logs that do not hold the whole traffic: sampled rows, and replicas whose log stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefixledger.config.scenario import parse_scenario
from prefixledger.replay import run
from stage_support import MINUTE, write_workspace

if TYPE_CHECKING:
    from pathlib import Path


def _rows(stop_min: int, **fields: Any) -> list[dict[str, Any]]:
    """One request a minute to each of two replicas for an hour; the second is heard of no more after ``stop_min``."""
    return [
        {"at_us": minute * MINUTE, "ids": [1, 2], "replica": name, **fields}
        for minute in range(60)
        for name in ("r0", "r1")
        if name == "r0" or minute < stop_min
    ]


def test_a_replica_whose_log_stops_is_named(tmp_path: Path) -> None:
    """A silence up to the end is said if it is longer than 15 minutes; to be silent for less is nothing."""
    (note,) = [
        one for one in run(write_workspace(tmp_path / "a", _rows(20))).notes if "stop in the log" in one
    ]
    assert "1 of 2 replicas" in note
    assert "(r1)" in note
    assert not [
        one for one in run(write_workspace(tmp_path / "b", _rows(55))).notes if "stop in the log" in one
    ]


def test_a_quiet_hour_is_no_missing_log(tmp_path: Path) -> None:
    """A replica that has been silent for as long before, and came back, is not said to have stopped."""
    rows = [row for row in _rows(40) if row["replica"] == "r0" or not 5 <= row["at_us"] // MINUTE < 30]
    assert not [one for one in run(write_workspace(tmp_path, rows)).notes if "stop in the log" in one]


def test_a_hole_in_the_log_of_one_replica_is_told(tmp_path: Path) -> None:
    """Half an hour of one replica is missing, once: told with its times. Where all were quiet, or it happens twice, not."""

    def notes(folder: str, quiet: tuple[range, ...], both: bool = False) -> list[str]:
        rows = [
            row
            for row in _rows(60)
            if not any(row["at_us"] // MINUTE in part for part in quiet)
            or (row["replica"] == "r0" and not both)
        ]
        return [one for one in run(write_workspace(tmp_path / folder, rows)).notes if "for a stretch" in one]

    (note,) = notes("hole", (range(10, 40),))
    assert "1 of 2 replicas" in note
    assert "(r1 from 1970-01-01 00:09 to 1970-01-01 00:40)" in note
    assert not notes("night", (range(10, 40),), both=True)
    assert not notes("twice", (range(5, 23), range(35, 53)))


def test_a_router_never_looks_at_who_served_in_the_log(tmp_path: Path) -> None:
    """Replicas of a routed fleet live as long as the scenario says, so none of them stops."""
    routed = parse_scenario('name = "routed"\n[fleet]\nrouting = "round-robin"\nreplicas = 2\n')
    assert not [
        one for one in run(write_workspace(tmp_path, _rows(20)), routed).notes if "stop in the log" in one
    ]


def test_a_sampled_log_is_replayed_with_a_mark(tmp_path: Path) -> None:
    """Rows that stand for ten leave nine out whose blocks would be in the cache."""
    notes = run(write_workspace(tmp_path, _rows(60, weight=10.0))).notes
    assert any(one.startswith("120 lookups stand for a sample") and "lower bound" in one for one in notes)
