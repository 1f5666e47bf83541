from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from prefixledger.errors import UsageError
from prefixledger.replay.fleet import logged_fleet, logged_names, made_fleet
from stage_support import MINUTE, ints, named


def _logged(names, minutes, events=(), end=100, grace=10):
    return logged_fleet(
        *logged_names(pa.chunked_array([names])),
        ints(*minutes) * MINUTE,
        end_us=end * MINUTE,
        grace_us=None if grace is None else grace * MINUTE,
        events=events,
    )


def test_rows_without_replica_are_all_or_unknown():
    """Nameless rows share one replica, called by whether others are named."""
    nobody, position = logged_names(pa.chunked_array([pa.array([None, None], pa.string())]))
    assert (nobody, position.tolist()) == (["(all)"], [0, 0])

    some, position = logged_names(pa.chunked_array([["r2", None], ["r1", "r2"]]))
    assert (some, position.tolist()) == (["(unknown)", "r1", "r2"], [2, 0, 1, 2])


def test_a_replica_dies_a_grace_period_after_its_last_request():
    """The end of a replica that stopped serving is a reset of its own."""
    fleet = _logged(["b", "a", "b"], [0, 5, 20])

    assert [(r.name, r.live_from_us, r.live_to_us) for r in fleet.replicas] == [
        ("a", 5 * MINUTE, 15 * MINUTE),
        ("b", 0, 30 * MINUTE),
    ]
    assert [(r.at_us, r.replica, r.kind, r.event_id) for r in fleet.resets] == [
        (15 * MINUTE, 0, "replica_gone", "gone:a"),
        (30 * MINUTE, 1, "replica_gone", "gone:b"),
    ]


def test_a_replica_that_served_in_the_last_grace_period_lives_to_the_end():
    """Served at end - 10 min: alive; one microsecond earlier: dead."""
    alive = logged_fleet(
        ["a"], ints(0), ints(90 * MINUTE), end_us=100 * MINUTE, grace_us=10 * MINUTE, events=()
    )
    dead = logged_fleet(
        ["a"], ints(0), ints(90 * MINUTE - 1), end_us=100 * MINUTE, grace_us=10 * MINUTE, events=()
    )

    assert alive.replicas[0].live_to_us is None
    assert not alive.resets
    assert dead.replicas[0].live_to_us == 100 * MINUTE - 1


def test_no_grace_period_means_life_to_the_end():
    """``replica_grace = "none"`` never buries a replica."""
    assert _logged(["a"], [0], grace=None).replicas[0].live_to_us is None


def test_events_hit_the_live_replicas_they_name():
    """A glob, no name for all, and nothing for a replica that is not there at the time."""
    events = [
        named(1, 7 * MINUTE),
        named(2, 7 * MINUTE, "flush", replica="b*", note="by hand"),
        named(3, 95 * MINUTE),
    ]
    fleet = _logged(["a", "b1", "c"], [0, 5, 99], events)

    resets = [r for r in fleet.resets if r.kind != "replica_gone"]
    assert [(r.at_us // MINUTE, r.replica, r.kind, r.event_id, r.note, r.force) for r in resets] == [
        (7, 0, "restart", "e1", None, True),
        (7, 1, "restart", "e1", None, True),
        (7, 1, "flush", "e2", "by hand", False),
    ]
    assert fleet.matched == {"e1", "e2", "e3"}


def test_an_event_that_names_nobody_is_not_matched():
    """The stage decides what that means; the fleet only says so."""
    assert _logged(["a"], [0], [named(1, 0, replica="x")]).matched == frozenset()


def test_scaling_an_as_logged_pool_is_refused_but_told_by_a_file():
    """The log says who lives: a scenario may not contradict it, an event file is only a remark."""
    with pytest.raises(UsageError, match=r"e1.*as-logged"):
        _logged(["a"], [0], [named(1, 0, "scale", replicas=2)])

    fleet = _logged(["a"], [0], [named(1, 0, "scale", replicas=2, from_file=True)])
    assert "e1" in fleet.notes[0]


def test_a_made_fleet_lives_from_start_to_end_in_order_of_name():
    """By name r10 comes before r2, yet routers count by number."""
    fleet = made_fleet(11, start_us=3, events=())

    assert [r.name for r in fleet.replicas[:3]] == ["r0", "r1", "r10"]
    assert all(r.live_from_us == 3 and r.live_to_us is None for r in fleet.replicas)
    (members,) = fleet.membership.members
    assert [fleet.replicas[m].name for m in members] == [f"r{n}" for n in range(11)]


def test_scaling_in_kills_the_highest_numbers_and_scaling_out_brings_new_caches():
    """3 -> 1 -> 2: r2 and r1 are gone, r3 is new; nobody comes back from the dead."""
    events = [named(1, 10, "scale", replicas=1, note="night"), named(2, 20, "scale", replicas=2)]
    fleet = made_fleet(3, start_us=0, events=events)

    assert [(r.name, r.live_from_us, r.live_to_us) for r in fleet.replicas] == [
        ("r0", 0, None),
        ("r1", 0, 10),
        ("r2", 0, 10),
        ("r3", 20, None),
    ]
    assert [(r.at_us, r.replica, r.kind, r.event_id, r.note) for r in fleet.resets] == [
        (10, 1, "scale_in", "e1", "night"),
        (10, 2, "scale_in", "e1", "night"),
    ]
    assert [m.tolist() for m in fleet.membership.members] == [[0, 1, 2], [0], [0, 3]]
    assert fleet.membership.from_us.tolist() == [np.iinfo(np.int64).min, 10, 20]


def test_a_dead_replica_is_not_restarted():
    """An event at the moment of death or later finds nothing to empty."""
    fleet = made_fleet(2, start_us=0, events=[named(1, 10, "scale", replicas=1), named(2, 10), named(3, 11)])

    assert [(r.event_id, r.replica) for r in fleet.resets] == [("e2", 0), ("e1", 1), ("e3", 0)]
