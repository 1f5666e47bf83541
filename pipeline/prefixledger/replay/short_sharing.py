"""Says so where prompts share a beginning that is shorter than a block: no hits, and nothing is wrong but the size of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.ingest.forest_kernel import rows_below, sums_down
from prefixledger.replay.told_changes import LEAST_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.contents import Contents

_FEWEST = 3
"""Prompts from which a beginning is more than chance."""


def short_notes(
    contents: Contents, block_size: NDArray[np.int64], ideal_blocks: NDArray[np.int64]
) -> tuple[str, ...]:
    """Return a sentence on a log in which most prompts begin alike and no cache of any size could hit one block.

    Args:
        contents: What prompts are made of.
        block_size: int64[m], tokens a block of each lookup, in order of arrival.
        ideal_blocks: int64[m], blocks that each would hit in one unlimited cache for everybody.
    """
    known = np.flatnonzero(contents.node >= 0)
    if ideal_blocks.any() or known.size < _FEWEST:
        return ()
    node, above = contents.node[known], contents.parent
    through, _ = rows_below(above, node, np.arange(node.size))
    length = contents.end - np.where(above >= 0, contents.end[np.maximum(above, 0)], 0)
    shared = np.asarray(sums_down(above, np.where(through > 1, length, 0)))[node]
    short = (shared >= LEAST_TOKENS) & (shared < block_size[known])
    if 2 * int(short.sum()) < known.size:
        return ()
    tokens, size = int(np.median(shared[short])), int(np.median(block_size[known[short]]))
    note = (
        f"no block is asked for twice, but {int(short.sum()):,} of {known.size:,} prompts begin with some {tokens:,} tokens that "
        f"others begin with too: less than a block of {size:,}, and only whole blocks are used again; shorter blocks would hit, "
        "more capacity or another routing would not"
    )
    return (note,)
