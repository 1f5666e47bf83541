from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from prefixledger.replay.clairvoyant import clairvoyant_hits
from prefixledger.replay.curves import capacity_curve
from prefixledger.replay.touches import find_touches
from twins.clairvoyant import clairvoyant_blocks
from twins.pool_logs import Ask, PoolCase, random_pool, repeating_pool


def touches_of(case):
    """Return the decomposed log, resets included."""
    return find_touches(case.pool_log()[0], case.reset_log())


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None)
def test_pieces_keep_what_single_blocks_keep(seed, again):
    """With aligned prompts, unkeyed tails, replicas, resets and a TTL, at every capacity that admits all prompts."""
    case = (repeating_pool if again else random_pool)(seed)
    touches = touches_of(case)
    capacities = range(case.largest, case.largest + 8)
    for ttl in (None, case.ttl):
        found = clairvoyant_hits(touches, capacities, ttl_us=ttl)
        assert found.tolist() == [clairvoyant_blocks(case, capacity, ttl) for capacity in capacities]


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_engine_hits_more(seed, again):
    """LRU as vLLM has it hits at most as much at every capacity, and both hit all there is where nothing is evicted."""
    case = (repeating_pool if again else random_pool)(seed)
    touches = touches_of(case)
    for ttl in (None, case.ttl):
        curve = capacity_curve(touches, ttl_us=ttl)
        capacities = np.arange(curve.capacity_blocks[0], curve.capacity_blocks[-1] + 2)
        bound = clairvoyant_hits(touches, capacities, ttl_us=ttl)
        assert (curve.hits_at(capacities) <= bound).all()
        assert (np.diff(bound) >= 0).all()
        assert bound[-1] == curve.hit_blocks[-1]


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_no_other_choice_keeps_more(seed):
    """Of all ways to keep blocks between two uses that fit beside every prompt, none hits more."""
    case = random_pool(seed, longest=7)
    asks = [ask for ask in case.asks if ask.replica == 0]
    case = PoolCase(case.parent, asks, case.block, 1, 1, None, [], [(0, None)])
    assume(asks)
    spans = []
    for later, ask in enumerate(asks):
        cap = min((ask.tokens - 1) // case.block, ask.keyed)
        for block in ask.path[:cap]:
            earlier = [n for n in range(later) if block in asks[n].path[: asks[n].keyed]]
            if earlier:
                spans.append((earlier[-1], later))
    assume(len(spans) < 9)  # 256 subsets
    best = max(
        size
        for size in range(len(spans) + 1)
        for chosen in combinations(spans, size)
        if all(
            sum(begin < now < end for begin, end in chosen) + ask.tokens // case.block <= case.largest
            for now, ask in enumerate(asks)
        )
    )
    assert clairvoyant_hits(touches_of(case), [case.largest]).tolist() == [best]


def test_a_cycle_that_nearly_fits():
    """Three prompts of one block in turn, room for two: LRU hits nothing, who knows the future every second one."""
    asks = [Ask(at, 0, 3, [at % 3], 1) for at in range(12)]
    case = PoolCase([-1, -1, -1], asks, 2, 1, 1, None, [], [(0, None)])
    touches = touches_of(case)
    assert capacity_curve(touches).hits_at(2) == 0
    assert clairvoyant_hits(touches, [1, 2, 3]).tolist() == [0, 5, 9]


def test_all_orders_of_use_of_two_blocks():
    """With room for one block beside none, a repeat hits where nothing came in between."""
    for order in product((0, 1), repeat=5):
        asks = [Ask(at, 0, 3, [block], 1) for at, block in enumerate(order)]
        touches = touches_of(PoolCase([-1, -1], asks, 2, 1, 1, None, [], [(0, None)]))
        same = sum(a == b for a, b in pairwise(order))
        assert clairvoyant_hits(touches, [1]).tolist() == [same]
