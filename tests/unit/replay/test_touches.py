from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.replay import touches as module
from prefixledger.replay.touches import find_touches, vllm_cap_blocks
from twins.block_touches import find_pieces
from twins.pool_logs import random_pool


def pieces_of(found):
    """Return the pieces of each lookup as (end, lookup that used them last)."""
    slots = np.append(found.order, -1)
    return {
        int(lookup): [
            (int(found.piece_end[p]), int(slots[found.piece_previous[p]]))
            for p in range(found.piece_offset[slot], found.piece_offset[slot + 1])
        ]
        for slot, lookup in enumerate(found.order)
    }


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_pieces_equal_a_walk_over_single_blocks(seed):
    """Every piece ends where the last user of the next block is another one, on every replica."""
    case = random_pool(seed)
    log, _ = case.pool_log()
    assert pieces_of(find_touches(log, case.reset_log())) == find_pieces(case)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_kernels_stay_inside_their_arrays(seed):
    """In plain Python, where a wrong index raises, the kernels give the same arrays."""
    case = random_pool(seed)
    log, _ = case.pool_log()
    compiled = find_touches(log, case.reset_log())
    with pytest.MonkeyPatch.context() as patch:
        for name in ("last_touches", "pair_entries"):
            patch.setattr(module, name, getattr(module, name).py_func)
        plain = find_touches(log, case.reset_log())
    for name in (
        "entry_pair",
        "pair_replica",
        "piece_end",
        "piece_previous",
        "stays",
        "ghost_older",
        "ghost_younger",
    ):
        assert np.array_equal(getattr(compiled, name), getattr(plain, name)), name


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_pairs_are_grouped_by_chain_and_sorted_by_replica(seed):
    """The replicas that ever touch a chain are a contiguous ascending range."""
    case = random_pool(seed)
    log, _ = case.pool_log()
    found = find_touches(log)
    touched = {
        (int(chain), int(log.replica[i]))
        for i in range(len(log))
        for chain in log.paths.chain[log.paths.offset[i] : log.paths.offset[i + 1]]
    }
    listed = [
        (chain, int(replica))
        for chain in range(log.chains.chain_length.size)
        for replica in found.pair_replica[found.pair_start[chain] : found.pair_start[chain + 1]]
    ]
    assert listed == sorted(touched)


def test_a_refused_lookup_touches_nothing():
    """The next lookup of the same path sees the one before the refused one."""
    case = random_pool(7)
    asks = [replace(case.asks[0], at=at, replica=0, tokens=5, path=[0, 1], keyed=2) for at in range(3)]
    case = replace(case, parent=[-1, 0], asks=asks, block=2, replicas=1, resets=[], live=[(0, None)])
    log, _ = case.pool_log()
    found = find_touches(replace(log, refused=np.array([False, True, False])))
    assert pieces_of(found) == {0: [(2, -1)], 1: [], 2: [(2, 0)]}
    assert found.entry_pair.tolist() == [0, -1, 0]


def test_output_blocks_are_touched_beyond_the_prompt():
    """A lookup that writes keyed output is the last user of the next turn's prompt."""
    case = random_pool(3)
    path = [0, 1, 2]
    asks = [replace(case.asks[0], at=0, replica=0, tokens=7, path=path[:n], keyed=n) for n in (1, 3)]
    case = replace(case, parent=[-1, 0, 1], asks=asks, block=2, replicas=1, resets=[], live=[(0, None)])
    log, _ = case.pool_log()
    deep = replace(asks[0], path=path, keyed=3)
    paths = replace(case, asks=[deep, asks[1]]).pool_log()[0].paths
    found = find_touches(replace(log, paths=paths, touched_blocks=np.array([3, 3])))
    assert pieces_of(found) == {0: [(3, -1)], 1: [(3, 0)]}


def test_room_for_pieces_and_ghosts_grows(monkeypatch):
    """A log with more pieces than the first guess is decomposed all the same."""
    case = random_pool(11, longest=120)
    log, _ = case.pool_log()
    expected = find_touches(log).piece_end
    kernel, rooms = module.last_touches, []

    def cramped(*given):
        given = list(given)
        if len(rooms) < 2:
            given[16], given[17] = given[16][: 3 * len(rooms)], given[17][: 3 * len(rooms)]
        rooms.append(given[16].size)
        return kernel(*given)

    monkeypatch.setattr(module, "last_touches", cramped)
    assert np.array_equal(find_touches(log).piece_end, expected)
    assert len(rooms) == 3


def test_what_is_out_of_order_is_refused():
    """Admissions and resets must not go back in time, and a path must cover what is touched."""
    case = random_pool(5)
    log, _ = case.pool_log()
    backwards = log.admitted_us.copy()
    backwards[0] = backwards[-1] + 1
    with pytest.raises(InternalError, match="order of admission"):
        find_touches(replace(log, admitted_us=backwards))
    resets = case.reset_log()
    late = replace(resets, at_us=np.array([5, 4]), replica=np.zeros(2, np.int32), event=np.arange(2))
    with pytest.raises(InternalError, match="resets"):
        find_touches(log, late)
    with pytest.raises(InternalError, match="its path lacks"):
        find_touches(replace(log, keyed_blocks=log.keyed_blocks + 99))


def test_cap_leaves_the_last_token_to_be_computed():
    """A prompt that ends with a block computes that block again; an unknown tail cannot hit either."""
    tokens, keyed = np.array([0, 1, 15, 16, 17, 32, 40]), np.array([0, 0, 0, 1, 1, 2, 1])
    assert vllm_cap_blocks(tokens, keyed, 16).tolist() == [0, 0, 0, 0, 1, 1, 1]
