"""A forest cut into parts has the keys and the numbers that it has whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingest_support import mooncake, tree, write_lines
from prefixledger import index, ingest
from prefixledger.engine import LocalEngine
from prefixledger.index import partitions
from prefixledger.index.tables import SourceForest
from prefixledger.kernels.blake2b_kernel import chain_keys, root_keys
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200), st.integers(1, 9))
def test_parts_are_whole_subtrees_that_cover_the_forest(draws: list[int], parts: int) -> None:
    """Every block lies in one part or above all; what is above is closed towards the root, a part towards the leaves."""
    parent = np.asarray([draw % (at + 2) - 2 for at, draw in enumerate(draws)], np.int64)
    found, above = partitions.cut(parent, parts)
    assert sorted(np.concatenate([*found, above]).tolist()) == list(range(parent.size))
    of = np.full(parent.size, -1)
    for number, nodes in enumerate(found):
        assert (np.diff(nodes) > 0).all()
        of[nodes] = number
    below = np.flatnonzero(parent >= 0)
    hangs = of[parent[below]]
    assert ((hangs == -1) | (hangs == of[below])).all()
    label = np.asarray(draws, np.uint64)
    forest = SourceForest(parent, label // np.uint64(7), label)
    roots = root_keys(("a", "b"))
    keys = np.empty((parent.size, 2), np.uint64)
    for nodes in (above, *found):
        part = partitions._part(forest, nodes, roots, keys)
        keys[nodes] = partitions._keys(None, part)
    np.testing.assert_array_equal(keys, chain_keys(parent, forest.label_hi, forest.label_lo, roots))


def test_one_giant_prefix_is_cut_below_itself() -> None:
    """Cut at the first block all prompts would be one part: 1,000 share 500 blocks, and bring 20 each."""
    shared, own, prompts = 500, 20, 1_000
    parent = np.arange(-1, shared + own * prompts - 1)
    parent[shared::own] = shared - 1
    found, above = partitions.cut(parent, 8)
    assert above.tolist() == list(range(shared))
    sizes = np.asarray([nodes.size for nodes in found])
    assert sizes.size == 8
    assert sizes.max() <= 1.05 * sizes.mean()


def test_the_index_is_the_same_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, keys and first uses; a second log meets blocks of the first."""
    logs = [
        write_lines(
            tmp_path / f"{name}_blksz_16.jsonl",
            [mooncake(10 * at, [at % 3, 5, 100 + at // 4, 9_000 * first + at]) for at in range(300)],
        )
        for name, first in (("a", 1), ("b", 2))
    ]
    trees = []
    for folder in ("whole", "parts"):
        workspace = Workspace(tmp_path / folder)
        ingest.run([str(log) for log in logs], workspace, ingest.IngestOptions(t0=0, id_scope="global"))
        if folder == "parts":
            monkeypatch.setattr(partitions, "FEWEST_BLOCKS", 0)
        with LocalEngine(2) as engine:
            index.update(workspace, engine)
            assert bool(engine.times.summaries()) == (folder == "parts")
        trees.append(
            {name: data for name, data in tree(workspace.root).items() if name.split("/")[0] != "run.json"}
        )
    assert trees[0] == trees[1]
