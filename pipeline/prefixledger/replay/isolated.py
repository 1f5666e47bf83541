"""A log whose prompts share keys within a group alone, as if each group had a salt of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.isolated_kernel import copy_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Log

_ODD = np.uint64(0x9E3779B97F4A7C15)


def isolated(log: Log, group: NDArray[np.int64]) -> Log:
    """Return a log in which every group has keys of its own.

    Args:
        log: The log.
        group: int64[m], number of the group of each lookup, from 0.
    """
    forest, known = log.forest, log.lookups
    blocks = forest.parent.size
    order = np.argsort(group, kind="stable").astype(np.int64)
    last = np.full(group.size, -1, np.int64)
    count = 0
    for _ in range(2):  # counts, then copies
        source, owner, parent = (np.empty(count, np.int64) for _ in range(3))
        count = copy_paths(
            read_only(forest.parent, np.int64),
            read_only(known.last_block, np.int64),
            read_only(group, np.int64),
            read_only(order, np.int64),
            np.zeros(blocks, np.int64),
            np.empty(blocks, np.int64),
            np.empty(blocks, np.int64),
            source,
            owner,
            parent,
            last,
        )
    mixed = ((owner.astype(np.uint64) + np.uint64(1)) * _ODD)[:, None]
    return replace(
        log,
        forest=replace(
            forest,
            parent=parent,
            key=forest.key[source] ^ mixed if len(forest.key) else forest.key,
            namespace=forest.namespace[source],
            first_seen_us=forest.first_seen_us[source],
        ),
        lookups=replace(known, last_block=last),
    )
