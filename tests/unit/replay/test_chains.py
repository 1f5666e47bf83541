from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from prefixledger.errors import InternalError
from prefixledger.kernels.path_forest import PathForest
from prefixledger.replay.chains import build_chains, build_paths
from support import shared
from twins import chains as twin

_FORESTS = st.integers(0, 40).flatmap(
    lambda n: st.tuples(*(st.integers(max(-1, block - 4), block - 1) for block in range(n))).map(list)
)


@settings(deadline=None)  # the first call compiles
@given(parent=_FORESTS)
def test_chains_equal_their_twin(parent):
    """Chains are the maximal pieces without a fork, numbered by first block, with the right place in the forest."""
    expected = twin.chains_of(parent)

    chains = build_chains(np.array(parent, np.int64))

    assert chains.chain_length.tolist() == [len(blocks) for blocks in expected]
    for number, blocks in enumerate(expected):
        assert chains.chain[blocks].tolist() == [number] * len(blocks)
        assert chains.position[blocks].tolist() == list(range(len(blocks)))
        above = parent[blocks[0]]
        assert chains.chain_parent[number] == (chains.chain[above] if above >= 0 else -1)
        assert chains.chain_depth[number] == len(twin.ancestors(parent, above))


@settings(deadline=None)  # the first call compiles
@given(parent=_FORESTS, data=st.data())
def test_paths_cover_exactly_the_ancestors_of_the_last_block(parent, data):
    """All chains of a path whole, and the last one up to the last block, are the blocks of the prompt, in order."""
    last = data.draw(st.lists(st.integers(-1, len(parent) - 1), max_size=10))
    chains = build_chains(np.array(parent, np.int64))

    paths = build_paths(chains, np.array(last, np.int64))

    members = twin.chains_of(parent)
    assert paths.offset.shape[0] == len(last) + 1
    for request, block in enumerate(last):
        on_path = paths.chain[paths.offset[request] : paths.offset[request + 1]].tolist()
        blocks = [b for chain in on_path for b in members[chain]]
        expected = twin.ancestors(parent, block)
        assert blocks[: len(expected)] == expected
        assert bool(on_path) == (block >= 0)
        if on_path:
            assert on_path[-1] == chains.chain[block]


def test_no_blocks_and_no_requests():
    """An empty workspace has no chains and no paths."""
    chains = build_chains(np.empty(0, np.int64))

    paths = build_paths(chains, np.array([-1, -1]))

    assert chains.chain_length.shape == (0,)
    assert paths.offset.tolist() == [0, 0, 0]
    assert paths.chain.shape == (0,)


def test_broken_forests_are_refused():
    """A child before its parent, a parent below -1, or a request outside the forest never reaches a kernel."""
    with pytest.raises(InternalError, match="before its child"):
        build_chains(np.array([0]))
    with pytest.raises(InternalError, match="before its child"):
        build_chains(np.array([-2]))
    with pytest.raises(InternalError, match="lacks"):
        build_paths(build_chains(np.array([-1])), np.array([1]))


@pytest.mark.parametrize(
    ("name", "block_size", "chains", "entries"),
    [
        ("mooncake_conversation.jsonl.zst", 512, 7_363, 24_905),
        pytest.param("weka_agentic_blk64.jsonl.zst", 64, 7_153, 195_412, marks=pytest.mark.slow),
    ],
    ids=["conversation", "agentic"],
)
def test_chains_of_real_traces_are_as_many_as_were_counted(name, block_size, chains, entries):
    """The given figures of the public traces come out."""
    trace = traces.load(shared(f"traces/{name}"), block_size)
    forest = PathForest()
    rows = np.zeros(trace.offset.shape[0] - 1, np.int64)
    last = forest.add(rows, trace.offset, None, trace.ids.view(np.uint64))

    made = build_chains(forest.parent)

    assert len(forest) == np.unique(trace.ids).shape[0]
    assert made.chain_length.shape[0] == chains
    assert build_paths(made, last).chain.shape[0] == entries
