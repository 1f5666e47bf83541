"""The memory of routers equals the slow one, block by block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.replay.routers.memory import PrefixMemory, router_blocks
from router_support import BLOCK, traffic
from twins.router_memory import SlowMemory

PROMPTS = st.lists(st.lists(st.integers(0, 1), max_size=5), min_size=1, max_size=12)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([None, 1, 2, 3, 7]), st.sampled_from([1, 4, 99])),
    min_size=12,
    max_size=12,
)


def _known(prompts, unit_tokens=BLOCK):
    view = traffic([{"ids": prompt} for prompt in prompts])
    return router_blocks(view.parent, view.last_block, BLOCK, unit_tokens)


@settings(max_examples=300, deadline=None)
@given(PROMPTS, STEPS, st.sampled_from(["each", "together", "blocks"]), st.booleans())
def test_memory_equals_the_slow_one(prompts, steps, ageing, head_first):
    """Matches, senders and what is held agree after every request, whatever is forgotten in between."""
    fast = PrefixMemory(_known(prompts), 3, ageing=ageing, head_first=head_first)
    slow = SlowMemory(prompts, 3, ageing=ageing, head_first=head_first)
    for row, (owner, most, back) in zip(range(len(prompts)), steps, strict=False):
        for memory in (fast, slow):
            memory.remember(row, owner)
            memory.forget(owner=owner, most_blocks=most, before_row=max(0, row - back))
        where = 3 if ageing == "blocks" else 0 if ageing == "together" else owner
        assert fast.held(where) == slow.held(owner)
        for asked in range(len(prompts)):
            counts, senders = slow.match(asked)
            assert fast.match(asked).tolist() == counts
            assert fast.sender.tolist() == senders
            assert fast.match(asked, holes=True).tolist() == slow.match(asked, holes=True)[0]


def test_tables_grow_while_it_forgets():
    """More pieces than the tables begin with, dropped again one by one, leave the memory as a new one."""
    prompts = [[n % 7, n, *range(n % 3)] for n in range(3000)]
    memory = PrefixMemory(_known(prompts), 3, ageing="blocks", head_first=True)
    for row in range(3000):
        memory.remember(row, row % 3)
    assert memory.held(3) == len({tuple(p[:n]) for p in prompts for n in range(1, len(p) + 1)})
    memory.forget(most_blocks=10)
    assert memory.held(3) == 10
    memory.forget(before_row=3000)
    assert [memory.held(owner) for owner in range(4)] == [0, 0, 0, 0]


def test_leaves_go_whole():
    """A tree drops what one request alone was sent, deepest first, until it fits."""
    memory = PrefixMemory(_known([[1, 2, 3, 4], [1, 2, 9], [1, 2, 9]]), 1)
    memory.remember(0, 0)
    memory.remember(1, 0)
    memory.forget(owner=0, most_blocks=4, whole=True)
    assert memory.held(0) == 3
    assert memory.match(2).tolist() == [3]
    assert memory.match(0).tolist() == [2]


@pytest.mark.parametrize(
    ("unit", "tokens", "blocks"), [(1, 16, [5, 1, 0]), (32, 32, [2, 0, 0]), (40, 48, [1, 0, 0])]
)
def test_a_longer_unit_takes_several_blocks(unit, tokens, blocks):
    """Blocks of a router are the least number of log blocks that holds its unit; what is left over has no key."""
    known = _known([[1, 2, 3, 4, 5], [1], []], unit)
    assert known.tokens == tokens
    assert known.blocks.tolist() == blocks


def test_units_tell_prompts_apart_where_their_blocks_end():
    """Two prompts that part within a unit share only the units before it."""
    known = _known([[1, 2, 3, 4], [1, 2, 3, 9]], 32)
    memory = PrefixMemory(known, 1)
    memory.remember(0, 0)
    assert memory.match(1).tolist() == [1]
    assert np.array_equal(known.blocks, [2, 2])
