from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.config.registry import ROUTINGS
from prefixledger.errors import UsageError
from prefixledger.replay.fleet import made_fleet
from prefixledger.replay.lookups import identities, stable_hash
from prefixledger.replay.routing import ROUTERS, STATEFUL, RouterView, route
from stage_support import ints, make_rows, named, request_table


def _view(rows, *, parent=(), key=(), block_size=16, seed=0, prefix_tokens=256):
    table = request_table(rows)
    keys = np.asarray(key, np.uint64).reshape(-1, 2)
    last = ints(*(row.get("last_block", -1) for row in rows))
    last_key = np.zeros((len(rows), 2), np.uint64)
    last_key[last >= 0] = keys[last[last >= 0]]
    names = identities(table, last_key)
    return RouterView(
        started_us=ints(*(row.get("at_us", (n + 1) * 1_000_000) for n, row in enumerate(rows))),
        last_block=last,
        block_size=block_size,
        parent=ints(*parent),
        key=keys,
        hashes=lambda chosen: np.asarray([stable_hash(names[i], seed) for i in chosen.tolist()], np.uint64),
        prefix_tokens=prefix_tokens,
    )


def _members(count, events=()):
    return made_fleet(count, start_us=0, events=events).membership


def test_round_robin_is_balanced_and_starts_at_zero():
    """Request k goes to replica k modulo n, by the number in the name."""
    view = _view([{"at_us": n} for n in range(25)])
    fleet = made_fleet(11, start_us=0, events=())

    chosen = route("round-robin", view, fleet.membership).replica

    assert [fleet.replicas[r].name for r in chosen] == [f"r{n % 11}" for n in range(25)]


@given(st.permutations(range(12)), st.integers(0, 5))
def test_random_depends_on_the_request_and_the_seed_alone(order, seed):
    """A request goes where it went, whoever else is in the log and in whatever order."""
    rows = [{"request_id": f"id{n}", "at_us": 5} for n in range(12)]
    whole = route("random", _view(rows, seed=seed), _members(4)).replica

    some = [n for n in order if n % 3]
    part = route("random", _view([rows[n] for n in some], seed=seed), _members(4)).replica

    assert part.tolist() == [whole[n] for n in some]


def test_random_spreads_and_another_seed_spreads_otherwise():
    """1,000 requests over 4 replicas: each gets 200 to 300, and seeds disagree."""
    rows = [{"request_id": f"id{n}"} for n in range(1000)]
    first = route("random", _view(rows, seed=1), _members(4)).replica
    second = route("random", _view(rows, seed=2), _members(4)).replica

    assert np.bincount(first).min() > 200
    assert np.bincount(first).max() < 300
    assert (first != second).mean() > 0.6


def test_a_row_without_an_id_is_known_by_its_content():
    """Another file name, another line: the same name; two equal rows: two names."""
    made = {"at_us": 7, "request_id": "a.jsonl:3", "source_file": "a.jsonl", "source_line": 3}
    moved = {"at_us": 7, "request_id": "b.jsonl:9", "source_file": "b.jsonl", "source_line": 9}
    zeros = np.zeros((2, 2), np.uint64)

    first, twin = identities(request_table([made, made]), zeros)
    again, other = identities(request_table([moved, {**moved, "prompt_tokens": 99}]), zeros)

    assert first == again
    assert len({first, twin, other}) == 3


# A forest of 16-token blocks: 0-1-2-3 is one prompt, 4 leaves it after block 1.
PARENT = (-1, 0, 1, 2, 1)
KEY = [(0, 10), (0, 21), (0, 32), (0, 43), (0, 54)]


@pytest.mark.parametrize(
    ("prefix_tokens", "expected"),
    [(32, [21, 21, 10]), (47, [21, 21, 10]), (48, [32, 54, 10]), (1280, [43, 54, 10]), (3, [10, 10, 10])],
)
def test_prefix_hash_takes_the_deepest_block_within_the_prefix(prefix_tokens, expected):
    """The block ends at or above the prefix; a shorter prompt gives its last, a shorter prefix the first block."""
    rows = [{"last_block": 3}, {"last_block": 4}, {"last_block": 0}]
    view = _view(rows, parent=PARENT, key=KEY, prefix_tokens=prefix_tokens)

    chosen = route("prefix-hash", view, _members(7)).replica

    assert chosen.tolist() == [key % 7 for key in expected]


def test_prefix_hash_below_one_block_goes_by_the_request():
    """Prompts without a full block spread like random ones."""
    rows = [{"request_id": f"id{n}"} for n in range(50)]
    by_prefix = route("prefix-hash", _view(rows, parent=PARENT, key=KEY), _members(4)).replica
    at_random = route("random", _view(rows), _members(4)).replica

    assert by_prefix.tolist() == at_random.tolist()


def test_a_scale_event_counts_for_arrivals_of_the_same_moment():
    """At equal times events come before admissions, so nobody is sent to a replica that just left."""
    events = [named(1, 10, "scale", replicas=1), named(2, 20, "scale", replicas=2)]
    view = _view([{"at_us": at} for at in (8, 9, 10, 11, 19, 20, 21)])
    fleet = made_fleet(2, start_us=0, events=events)

    chosen = route("round-robin", view, fleet.membership).replica

    assert [fleet.replicas[r].name for r in chosen] == ["r0", "r1", "r0", "r0", "r0", "r2", "r0"]
    assert all(fleet.replicas[r].lives_at(at) for r, at in zip(chosen, view.started_us, strict=True))


def test_requests_while_nobody_lives_are_refused():
    """Scaled to 0 with traffic: exit 2, with the number of requests."""
    with pytest.raises(UsageError, match="2 requests"):
        route(
            "random",
            _view([{"at_us": 5}, {"at_us": 6}]),
            _members(1, [named(1, 5, "scale", replicas=0)]),
        )


def test_an_unknown_router_names_those_that_exist():
    """Nothing falls back."""
    with pytest.raises(UsageError, match="as-logged, random, round-robin, prefix-hash, least-loaded"):
        route("most-loaded", _view([{}]), _members(1))
    assert set(ROUTINGS) == {"as-logged", *ROUTERS, *STATEFUL}


def test_rows_sort_lookups_from_the_rest():
    """Failed calls and rows with usage only are no lookups; cut ones are."""
    rows = make_rows([{}, {"status": "failed"}, {"status": "cut"}, {"keyed": False}])

    assert rows.is_lookup.tolist() == [True, False, True, False]
