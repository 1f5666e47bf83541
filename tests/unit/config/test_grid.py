"""Grids of scenarios: what a cell keeps of the baseline when another fleet stands in the place of the logged one."""

from __future__ import annotations

import pytest

from prefixledger.config.grid import cells, read_grid
from prefixledger.config.scenario import parse_scenario
from prefixledger.errors import UsageError

STRUCK = """
[[pool]]
name = "own"
[[event]]
at = 2026-11-18T02:00:00Z
kind = "restart"
replica = "pod-{0}"
"""


@pytest.mark.parametrize(
    ("pod", "replicas", "struck"), [(0, 2, "r0"), (1, 2, "r1"), (1, 1, None), (1, "-1", None)]
)
def test_events_strike_the_made_replica_in_the_place_of_the_logged_one(
    pod: int, replicas: int | str, struck: str | None
) -> None:
    """The second pod is r1; where there is one replica fewer, what struck it strikes nobody; as logged nothing changes."""
    baseline = parse_scenario(STRUCK.format(pod))
    grid = read_grid(routing="as-logged,prefix-hash", replicas=[replicas])
    logged, made = cells(baseline, grid, {0: ["pod-0", "pod-1"]}, 16)
    assert [event.replica for event in logged.scenario.event] == [f"pod-{pod}"]
    assert [event.replica for event in made.scenario.event] == ([] if struck is None else [struck])


def test_a_fleet_of_none_is_refused() -> None:
    """Two fewer than two."""
    with pytest.raises(UsageError, match="has 2 replicas, and -2 leaves none"):
        cells(parse_scenario(""), read_grid(routing="random", replicas="-2"), {0: ["a", "b"]}, 16)
