"""The forest of a workspace as it would be if namespaces were called otherwise; nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.index.key_map import KeyMap
from prefixledger.index.load import Forest, arrival_order
from prefixledger.index.node_kernel import earliest_uses, root_namespaces
from prefixledger.index.sources import read_indexed, read_sources
from prefixledger.index.tables import read_paths, read_uses
from prefixledger.kernels.blake2b_kernel import chain_keys, root_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

_NEVER = np.iinfo(np.int64).max


def rekeyed(workspace: Workspace, rename: Callable[[str], str]) -> tuple[Forest, NDArray[np.int64]]:
    """Chain the keys of all prompts anew, from what ingest left of them.

    Args:
        workspace: Indexed.
        rename: Returns the name of a namespace by which its keys are to be made; namespaces of one name share keys.

    Returns:
        The forest, and int64[rows], the last block of each row, -1 where it has none, in the order of ``load``.
    """
    sources = {source.name: source for source in read_sources(workspace)}
    keys, names = KeyMap(), dict[str, int]()
    parents, namespaces, seen, last = [], [], np.empty(0, np.int64), []
    for entry in read_indexed(workspace):
        source = sources[entry.source]
        forest, uses = read_paths(source.paths), read_uses(source.requests)
        renamed = [rename(name) for name in source.namespaces]
        roots = root_keys(renamed)
        earliest_us = np.full(forest.parent.size, _NEVER, np.int64)
        earliest_uses(forest.parent, uses.last_node, uses.started_us, earliest_us)
        before = len(keys)
        used = earliest_us < _NEVER
        block = keys.number(chain_keys(forest.parent, forest.label_hi, forest.label_lo, roots), used)
        seen = np.append(seen, np.full(len(keys) - before, _NEVER, np.int64))
        np.minimum.at(seen, block[used], earliest_us[used])
        node = np.flatnonzero(block >= before)
        _, first = np.unique(block[node], return_index=True)
        node = node[first]
        above = forest.parent[node]
        parents.append(np.where(above >= 0, block[np.maximum(above, 0)], -1))
        space = np.empty(forest.parent.size, np.int32)
        root_namespaces(forest.parent, space)
        number = np.array([names.setdefault(name, len(names)) for name in renamed], np.int32)
        namespaces.append(number[space[node]] if node.size else np.empty(0, np.int32))
        last.append(np.append(block, -1)[uses.last_node])
    parent = np.concatenate([np.empty(0, np.int64), *parents])
    whole = Forest(
        parent,
        keys.keys_from(0).copy(),
        np.concatenate([np.empty(0, np.int32), *namespaces]),
        seen,
        tuple(names),
    )
    return whole, np.concatenate([np.empty(0, np.int64), *last])[arrival_order(workspace)]
