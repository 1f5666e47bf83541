from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.shared_kernel import head_block
from prefixledger.replay.shared_nodes import shared_nodes
from stage_support import ints
from twins import shared_nodes as twin


@st.composite
def forests(draw):
    """A random forest, numbered so that parents come first, and lookups that end in its blocks."""
    size = draw(st.integers(1, 12))
    parent = [draw(st.integers(-1, block - 1)) for block in range(size)]
    last = draw(st.lists(st.integers(-1, size - 1), max_size=8))
    return parent, last


def _pieces(found):
    return list(
        zip(
            found.piece_lookup.tolist(),
            found.piece_node.tolist(),
            found.piece_first_block.tolist(),
            found.piece_n_blocks.tolist(),
            strict=True,
        )
    )


@given(forests())
def test_the_kernels_find_what_the_twin_finds(forest):
    """Nodes, their parents and depths, and all pieces in order."""
    parent, last = forest
    nodes, pieces = twin.shared_nodes(parent, last)

    found = shared_nodes(ints(*parent), ints(*last))

    assert _pieces(found) == pieces
    rows = zip(found.parent_node.tolist(), found.depth_blocks.tolist(), strict=True)
    assert dict(zip(found.node.tolist(), rows, strict=True)) == nodes


@given(forests(), st.integers(1, 6))
def test_head_blocks_equal_the_twin(forest, head):
    """The ancestor at a depth, or the block itself."""
    parent, _ = forest
    assert head_block(read_only(ints(*parent), np.int64), head).tolist() == twin.head_block(parent, head)


def test_pieces_cover_each_prompt_once():
    """System prompt 0-1 shared by all, document 2 by two, tails 3 and 4; 5 is asked twice, whole."""
    found = shared_nodes(ints(-1, 0, 1, 2, 2, 1), ints(3, 4, 5, 5, -1))

    assert _pieces(found) == [
        (0, 1, 0, 2), (0, 2, 2, 1), (0, -1, 3, 1),
        (1, 1, 0, 2), (1, 2, 2, 1), (1, -1, 3, 1),
        (2, 1, 0, 2), (2, 5, 2, 1),
        (3, 1, 0, 2), (3, 5, 2, 1),
    ]  # fmt: skip
    assert found.node.tolist() == [1, 2, 5]
    assert found.parent_node.tolist() == [-1, 1, 1]


def test_a_block_that_only_other_rows_use_makes_nothing_shared():
    """Block 2 is in the forest for a failed call: block 0 has one used child."""
    found = shared_nodes(ints(-1, 0, 0), ints(1))

    assert found.node.size == 0
    assert _pieces(found) == [(0, -1, 0, 2)]
