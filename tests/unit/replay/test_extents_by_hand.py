"""Logs for the kernel of extents whose outcome was worked out by hand."""

from __future__ import annotations

import pytest

from extent_support import A, B, C, D, E, log_of, prompts_of, run_kernel
from prefixledger.errors import InternalError
from twins.vllm_blocks import Row


@pytest.mark.parametrize(
    ("parent", "prompts", "capacity", "hits"),
    [
        ([-1, -1, 1], [(2, [A]), (4, [B, C]), (2, [B]), (3, [A])], 3, [0, 0, 0, 0]),
        ([-1, -1], [(3, [A]), (3, [B]), (3, [A])], 2, [0, 0, 0]),
        ([-1, 0, -1, 2, 1], [(4, [A, B]), (5, [C, D]), (6, [A, B, E]), (3, [C])], 4, [0, 0, 1, 1]),
        ([-1, 0], [(4, [A, B]), (2, [A]), (1, []), (5, [A, B])], 3, [0, 0, 0, 1]),
        ([-1, -1, 1], [(2, [A]), (4, [B, C]), (2, [A]), (3, [A]), (3, [B])], 3, [0, 0, 0, 1, 1]),
    ],
    ids=["no copies", "no tail slot", "neither curve", "tail without copies", "one stack of copies"],
)
def test_logs_that_simpler_rules_get_wrong(parent, prompts, capacity, hits):
    """Copies of aligned last blocks and partial slots take room, as in vLLM (blocks of two tokens)."""
    found, _ = run_kernel(log_of(parent, prompts_of(*prompts), 2, capacity))

    assert found.hit_blocks.tolist() == hits


def test_a_freed_partial_slot_waits_in_line_up_to_0_22():
    """Of two slots C takes B's freed tail; while that waits behind A, A must go (blocks of two tokens, three slots)."""
    log = log_of([-1, -1, -1], prompts_of((2, [A]), (3, [B]), (2, [C]), (3, [A])), 2, 3)

    now, before = run_kernel(log)[0], run_kernel(log, unhashed_in_line=True)[0]

    assert now.hit_blocks.tolist() == [0, 0, 0, 1]
    assert before.hit_blocks.tolist() == [0, 0, 0, 0]


def test_one_lookup_takes_its_blocks_from_two_copies():
    """A prompt whose first block survives in one copy and whose second in another hits both."""
    rows = [
        Row(0, 0, 1, [A, B], 0, hold=200, output=8),
        Row(0, 0, 7, [A, B], 2, hold=115, output=4),
        Row(0, 0, 10, [A, B, C], 3, hold=410),
    ]

    found, _ = run_kernel(log_of([-1, 0, 1], rows, 3, 4, output="at_release"))

    assert found.admitted_us.tolist() == [0, 0, 200]
    assert found.hit_blocks.tolist() == [0, 0, 2]


def test_a_flush_waits_for_no_one_and_a_restart_for_everyone():
    """A flush is ignored while a request runs unless forced; what a restart found running publishes nothing afterwards."""
    rows = [Row(0, 0, 3, [A], 1, hold=10), Row(6, 0, 3, [A], 1), Row(20, 0, 3, [A], 1)]

    ignored, _ = run_kernel(log_of([-1], rows, 2, 9, resets=[(5, 0, False)]))
    forced, _ = run_kernel(log_of([-1], rows, 2, 9, resets=[(5, 0, True)]))

    assert ignored.reset_ignored.tolist() == [True]
    assert ignored.hit_blocks.tolist() == [0, 1, 1]
    assert forced.reset_ignored.tolist() == [False]
    assert forced.hit_blocks.tolist() == [0, 0, 1]


def test_at_equal_times_releases_go_before_resets_and_resets_before_admissions():
    """A flush at the moment of the release finds nothing running, and the admission at that moment an empty cache."""
    rows = [Row(0, 0, 3, [A], 1, hold=5), Row(5, 0, 3, [A], 1)]

    found, _ = run_kernel(log_of([-1], rows, 2, 2, resets=[(5, 0, False)]))

    assert found.reset_ignored.tolist() == [False]
    assert found.admitted_us.tolist() == [0, 5]
    assert found.hit_blocks.tolist() == [0, 0]


@pytest.mark.parametrize(("gap", "hits"), [(7, 1), (8, 0)])
def test_a_gap_of_exactly_the_ttl_hits(gap, hits):
    """The gap is counted from admission to admission, and the TTL itself still hits."""
    rows = [Row(0, 0, 3, [A], 1, hold=2), Row(gap, 0, 3, [A], 1)]

    found, _ = run_kernel(log_of([-1], rows, 2, 9, ttl=7), log_removals=True)

    assert found.hit_blocks.tolist() == [0, hits]
    assert found.removals.at_us.tolist() == ([14] if hits else [7, 15])


def test_a_waiting_request_blocks_those_behind_it_and_a_refused_one_does_not():
    """First come, first served; a prompt larger than the cache is refused when its turn comes and changes nothing."""
    rows = [
        Row(0, 0, 5, [], 0, hold=10),
        Row(1, 0, 5, [], 0, hold=10),
        Row(2, 0, 7, [], 0),
        Row(3, 0, 1, [], 0, hold=1),
    ]

    found, _ = run_kernel(log_of([], rows, 2, 3))

    assert found.refused.tolist() == [False, False, True, False]
    assert found.admitted_us.tolist() == [0, 10, 10, 20]
    assert found.finished_us.tolist() == [10, 20, 10, 21]


def test_a_hit_shortens_the_prefill_and_never_more_than_that():
    """A hit block saves so many microseconds, of the prefill only."""
    rows = [Row(0, 0, 5, [A, B], 2, hold=100, prefill=50), Row(1, 0, 5, [A, B], 2, hold=100, prefill=50)]

    some, _ = run_kernel(log_of([-1, 0], rows, 2, 9, hit_saves_us=10.0))
    all_of_it, _ = run_kernel(log_of([-1, 0], rows, 2, 9, hit_saves_us=40.0))

    assert some.finished_us.tolist() == [100, 81]
    assert all_of_it.finished_us.tolist() == [100, 51]


def test_output_is_found_by_the_next_turn():
    """The next turn hits the blocks of prompt and output, all but the one that the last output token began."""
    turn = Row(
        0, 0, 3, [A, B, C], 1, hold=10, output=5
    )  # 3 + 5 - 1 tokens with KV: three full blocks of two and one token
    rows = [turn, Row(10, 0, 9, [A, B, C, D], 4)]

    for output in ("at_release", "as_decoded"):
        found, _ = run_kernel(log_of([-1, 0, 1, 2], rows, 2, 9, output=output))
        assert found.hit_blocks.tolist() == [0, 3]


def test_lookups_out_of_order_are_refused():
    """Arrivals of one replica that fall are a fault of the caller."""
    with pytest.raises(InternalError, match="order of arrival"):
        run_kernel(log_of([], [Row(5, 0, 1, [], 0), Row(4, 0, 1, [], 0)], 2, 9))


def test_a_residence_shorter_than_its_prefill_is_refused():
    """Time cannot run backwards within a request."""
    with pytest.raises(InternalError, match="before its prefill"):
        run_kernel(log_of([], [Row(0, 0, 1, [], 0, hold=1, prefill=2)], 2, 9))


def test_a_replica_that_the_pool_lacks_is_refused():
    """A lookup names one of the replicas."""
    with pytest.raises(InternalError, match="replica that the pool lacks"):
        run_kernel(log_of([], [Row(0, 1, 1, [], 0)], 2, 9))


def test_a_pool_without_lookups_has_an_empty_replay():
    """Nothing in, nothing out, for each replica."""
    found, _ = run_kernel(log_of([], [], 2, 9, replicas=2), log_removals=True)

    assert found.hit_blocks.size == 0
    assert found.first_eviction_us.tolist() == [-1, -1]
    assert found.removals.lookup.size == 0


def test_more_keyed_blocks_than_tokens_are_refused():
    """A lookup cannot have more full blocks than its tokens fill."""
    with pytest.raises(InternalError, match="more keyed blocks"):
        run_kernel(log_of([-1, 0], [Row(0, 0, 3, [A, B], 2)], 2, 9))


def test_decode_that_runs_out_of_room_preempts_the_last_request():
    """The later request gives way, waits for the first, hits what is left of itself and computes the rest again."""
    rows = [
        Row(0, 0, 3, [A], 1, hold=40, prefill=8, output=5),
        Row(1, 0, 3, [B, C], 1, hold=40, prefill=8, output=5),
    ]

    found, _ = run_kernel(log_of([-1, -1, 1], rows, 2, 5, output="as_decoded"))

    # Token 5 of the first, at 16, takes the last slot; that of the second finds none at 17 and gives up two tokens.
    assert found.preempted.tolist() == [0, 1]
    assert found.admitted_us.tolist() == [0, 1]
    assert found.hit_blocks.tolist() == [0, 0]
    # Token 7 of the first takes the deeper of its two blocks at 32. It fits at 40: 5 tokens, of which 2 still hit; 13 us of
    # prefill at its rate, then two steps of 8.
    assert found.recompute_tokens.tolist() == [0, 3]
    assert found.finished_us.tolist() == [40, 69]


def test_a_request_that_fills_the_cache_stops_growing():
    """Alone it has nobody to preempt; under a TTL nobody is preempted at all."""
    alone = [Row(0, 0, 3, [A], 1, hold=40, prefill=8, output=9)]
    two = [Row(at, 0, 3, [at], 1, hold=40, prefill=8, output=9) for at in (0, 1)]

    one, _ = run_kernel(log_of([-1], alone, 2, 3, output="as_decoded"))
    timed, _ = run_kernel(log_of([-1, -1], two, 2, 5, output="as_decoded", ttl=99))

    assert one.finished_us.tolist() == [40]
    assert timed.finished_us.tolist() == [40, 41]
    assert one.preempted.tolist() + timed.preempted.tolist() == [0, 0, 0]
