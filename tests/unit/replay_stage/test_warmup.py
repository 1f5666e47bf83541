from __future__ import annotations

from prefixledger.replay.warmup import ALWAYS, covered_since, warm_ups
from stage_support import MINUTE, ints

DAY = 24 * 60


def _warm_ups(replica, minutes, since=None, evictions=None, ttl=None, log=DAY):
    found = warm_ups(
        ints(*replica),
        ints(*minutes) * MINUTE,
        ints(*([ALWAYS] * len(minutes) if since is None else since)),
        {r: ints(*times) * MINUTE for r, times in (evictions or {}).items()},
        ttl_us=None if ttl is None else ttl * MINUTE,
        log_us=log * MINUTE,
    )
    return [(w.replica, w.from_us // MINUTE, w.to_us // MINUTE, w.cause) for w in found]


def test_a_warm_up_lasts_an_hour_from_the_first_request_of_the_replica():
    """Each replica has its own."""
    assert _warm_ups([1, 0, 1, 0], [0, 10, 20, 400]) == [
        (0, 10, 70, "first_request"),
        (1, 0, 60, "first_request"),
    ]


def test_a_long_ttl_makes_a_longer_warm_up():
    """At the latest max(TTL, 1 h)."""
    assert _warm_ups([0], [0], ttl=90) == [(0, 0, 90, "first_request")]
    assert _warm_ups([0], [0], ttl=5) == [(0, 0, 60, "first_request")]


def test_a_warm_up_ends_with_the_first_eviction():
    """A cache that evicts is full; evictions elsewhere do not count."""
    assert _warm_ups([0, 1], [0, 0], evictions={0: [25, 30]}) == [
        (0, 0, 25, "first_request"),
        (1, 0, 60, "first_request"),
    ]


def test_a_warm_up_takes_at_most_a_fifth_of_the_log():
    """100 minutes of log: 20 minutes."""
    assert _warm_ups([0], [0], log=100) == [(0, 0, 20, "first_request")]


def test_a_gap_in_coverage_starts_a_new_warm_up():
    """It ends with the first eviction after the gap, not with one before it."""
    since = [ALWAYS, ALWAYS, 300 * MINUTE, 300 * MINUTE]
    assert _warm_ups([0, 0, 0, 0], [0, 50, 310, 320], since=since, evictions={0: [40, 330]}) == [
        (0, 0, 40, "first_request"),
        (0, 310, 330, "coverage_gap"),
    ]


def test_a_replica_that_another_source_covered_stays_warm():
    """The gap lies before this replica's last lookup."""
    assert len(_warm_ups([0, 0], [305, 310], since=[ALWAYS, 300 * MINUTE])) == 1


def test_gaps_are_above_15_minutes_and_three_medians():
    """Median 1 min: 15 min is no gap, 16 min is one; median 10 min: 30 is none, 31 is one."""
    dense = ints(0, 1, 2, 17, 18, 19, 35, 36) * MINUTE
    sparse = ints(0, 10, 20, 50, 60, 91) * MINUTE

    assert covered_since(ints(*[0] * 8), dense).tolist() == [ALWAYS] * 6 + [35 * MINUTE] * 2
    assert covered_since(ints(*[0] * 6), sparse).tolist() == [ALWAYS] * 5 + [91 * MINUTE]


def test_each_source_has_its_own_gaps():
    """Source 1 pauses for 40 minutes while source 0 goes on."""
    source = ints(0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0)
    minutes = ints(0, 1, 5, 6, 11, 15, 25, 35, 40, 51, 52)

    since = covered_since(source, minutes * MINUTE)

    assert since[source == 0].tolist() == [ALWAYS] * 7
    assert since[source == 1].tolist() == [ALWAYS, ALWAYS, ALWAYS, 51 * MINUTE]


def test_a_missing_file_between_two_is_a_gap():
    """Two files, one hour apart: the second starts anew; one minute apart: it does not."""
    source = ints(0, 0, 0, 1, 1)

    assert covered_since(source, ints(0, 1, 2, 62, 63) * MINUTE).tolist() == [ALWAYS] * 3 + [62 * MINUTE] * 2
    assert covered_since(source, ints(0, 1, 2, 3, 4) * MINUTE).tolist() == [ALWAYS] * 5
