"""Evidence of small pools that was worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evidence_support import evidence_of, hand_made, segments_of
from prefixledger.errors import InternalError
from prefixledger.replay import evidence as module
from prefixledger.replay import evidence_kernel
from prefixledger.replay.evidence import (
    collect_evidence,
    evidence_table,
)
from prefixledger.replay.touches import find_touches
from prefixledger.schema import SEGMENT_FACTS
from twins.pool_logs import random_pool


def test_a_reset_takes_the_blocks_but_not_the_last_use():
    """The last use survives, the reset is named, and the distance ignores it."""
    case = hand_made([(0, 0, 5), (10, 0, 5)], resets=[(5, 0), (10, 0)])
    found, *_ = evidence_of(case)
    assert found.hit.tolist() == [False, False]
    assert found.own_previous.tolist() == [-1, 0]
    assert found.own_reset.tolist() == [-1, 101]
    assert found.own_distance_blocks.tolist() == [-1, 3]


def test_a_reset_at_the_moment_of_the_last_use_came_before_it():
    """Resets lie in (u, t]: at equal times events come before admissions."""
    found, *_ = evidence_of(hand_made([(5, 0, 5), (10, 0, 5)], resets=[(5, 0)]))
    assert found.own_reset.tolist() == [-1, -1]
    assert found.hit.tolist() == [False, True]


def test_the_holder_is_the_deepest_then_the_latest_then_the_smallest_name():
    """Names run against the indices: of three replicas, 2 has the smallest name."""
    deepest, *_ = evidence_of(hand_made([(0, 1, 9), (1, 2, 5), (2, 0, 9)], replicas=3))
    assert deepest.resident_replica.tolist() == [-1, 1, 1, 1]
    assert deepest.else_previous.tolist() == [-1, 0, 1, 0]
    latest, *_ = evidence_of(hand_made([(0, 2, 9), (1, 1, 9), (2, 0, 9)], replicas=3))
    assert latest.resident_replica.tolist() == [-1, 2, 1]
    smallest = hand_made([(1, 1, 9), (1, 2, 9), (2, 0, 9)], replicas=3)
    found, *_ = evidence_of(smallest)
    assert found.resident_replica.tolist() == [-1, 1, 2]
    assert found.else_previous.tolist() == [-1, 0, 1]


def test_the_latest_holder_changes_along_the_path():
    """Of two replicas that hold all of it, each is the later user of a part."""
    asks = [(0, 0, 17), (1, 1, 17), (2, 2, 17), (3, 1, 5), (5, 0, 17)]
    found, *_ = evidence_of(hand_made(asks, replicas=3, resets=[(4, 0)]))
    last = found.lookup == 4
    assert found.own_previous[last].tolist() == [0, 0]
    assert found.n_blocks[last].tolist() == [2, 6]
    assert found.resident_replica[last].tolist() == [1, 2]


def test_a_distance_admits_the_prompts_themselves():
    """The first two blocks lie on top of the stack, but a smaller cache would have refused the prompt that made them."""
    found, *_ = evidence_of(hand_made([(0, 0, 17), (1, 0, 5)]))
    assert found.own_distance_blocks.tolist() == [-1, 9]


def test_removals_and_resets_of_all_replicas_are_met_in_order_of_time():
    """What expired on one replica before a reset is not lost because another replica's blocks expired later."""
    found, *_ = evidence_of(
        hand_made([(17, 1, 5), (19, 0, 5), (33, 1, 5)], replicas=2, resets=[(20, 1)], ttl=2)
    )
    last = found.lookup == 2
    assert found.own_reset[last].tolist() == [100]
    assert found.removed_at_us[last].tolist() == [19]
    assert found.removed_by[last].tolist() == [-1]


def test_the_holder_is_told_for_what_was_evicted_here():
    """More room or the other replica would both have made it a hit; the cause is read from the own use."""
    case = hand_made([(0, 0, 5), (1, 1, 5), (2, 0, 16), (3, 0, 5)], replicas=2, capacity=8)
    found, *_ = evidence_of(
        replace(case, parent=[-1, 0, -1, 2, 3, 4, 5, 6, 7, 8], asks=_other_path(case.asks))
    )
    last = found.lookup == 3
    assert found.own_previous[last].tolist() == [0]
    assert found.resident_replica[last].tolist() == [1]
    assert found.else_previous[last].tolist() == [-1]
    assert (found.removed_by[last], found.removed_at_us[last]) == (2, 2)


def _other_path(asks):
    return [replace(ask, path=list(range(2, 10))) if ask.tokens == 16 else ask for ask in asks]


def test_a_dead_replica_holds_nothing():
    """Its end is a reset of the replica that used the blocks last."""
    case = hand_made([(0, 1, 5), (9, 0, 5)], replicas=2, resets=[(7, 1)], live=[(0, None), (0, 7)])
    found, *_ = evidence_of(case)
    assert found.resident_replica.tolist() == [-1, -1]
    assert found.else_previous.tolist() == [-1, 0]
    assert found.else_reset.tolist() == [-1, 100]


def test_an_expired_copy_is_no_holder():
    """A holder must still be within the TTL; the last use elsewhere is told all the same."""
    for ttl, holder in ((9, 1), (8, -1)):
        found, *_ = evidence_of(hand_made([(0, 1, 5), (9, 0, 5)], replicas=2, ttl=ttl))
        assert found.resident_replica.tolist() == [-1, holder]
        assert found.else_previous.tolist() == [-1, 0]


def test_the_block_that_is_computed_anew_is_a_segment_of_its_own():
    """An aligned prompt asks again for its last block: not hit, behind the cap, with its own last use."""
    found, *_ = evidence_of(hand_made([(0, 0, 6), (1, 0, 6)]))
    assert found.first_block.tolist() == [0, 2, 0, 2]
    assert found.hit.tolist() == [False, False, True, False]
    assert found.own_previous.tolist() == [-1, -1, 0, 0]


def test_an_empty_pool_and_short_prompts_have_no_segment():
    """Below one block there is nothing to say."""
    case = hand_made([(0, 0, 1), (1, 0, 1)])
    found, *_ = evidence_of(case)
    assert len(found) == 0
    assert evidence_table(found).num_rows == 0


def test_hits_behind_the_cap_are_a_fault():
    """The kernel would read past the prompt, so the wrapper refuses."""
    case = hand_made([(0, 0, 6)])
    log, _ = case.pool_log()
    with pytest.raises(InternalError, match="behind its cap"):
        collect_evidence(find_touches(log), np.array([3]), case.lifetimes())


def test_room_for_segments_grows(monkeypatch):
    """More segments than the first guess are found all the same."""
    case = random_pool(12, longest=80)
    expected = segments_of(evidence_of(case)[0], evidence_of(case)[3])
    kernel, rooms = evidence_kernel.collect_segments, []

    def cramped(*given):
        given = list(given)
        if len(rooms) < 2:
            given[-1] = given[-1][: 5 * len(rooms)]
        rooms.append(given[-1].shape[0])
        return kernel(*given)

    monkeypatch.setattr(module.kernel, "collect_segments", cramped)
    found, _, _, order = evidence_of(case)
    assert segments_of(found, order) == expected
    assert len(rooms) == 3


def test_table_renumbers_lookups_and_replicas_and_writes_nulls():
    """Lookups and replicas get the numbers they have among all pools; absent is null."""
    case = hand_made([(0, 1, 5), (9, 0, 5), (10, 0, 5)], replicas=2)
    found, *_ = evidence_of(case)
    table = evidence_table(found, lookup=np.array([10, 20, 30]), first_replica=7)
    assert table.schema.equals(SEGMENT_FACTS.arrow(), check_metadata=True)
    rows = table.to_pylist()
    assert [row["lookup"] for row in rows] == [10, 20, 30]
    assert [row["resident_replica"] for row in rows] == [None, 8, None]
    assert [row["else_previous"] for row in rows] == [None, 10, None]
    assert [row["own_previous"] for row in rows] == [None, None, 20]
    assert [row["removed_at"] for row in rows] == [None] * 3
