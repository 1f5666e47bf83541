"""The kernels that set prompts beside earlier ones, against twins on lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.kernels.arrays import read_only
from prefixledger.replay import changes_kernel as kernel
from prefixledger.replay.changes import Changes, with_changes
from prefixledger.schema import SEGMENT_FACTS
from twins import prompt_changes as twin

PROMPT = st.lists(st.integers(0, 7), max_size=9)
LENGTHS = (3, 16, 20, 33, 40, 50, 64, 90)


def forest(prompts: list[list[int]]):
    """Return parent, end, piece and the last node of each prompt, as a forest of which each prompt is a path."""
    nodes: dict[tuple[int, ...], int] = {}
    parent, end, piece = [], [], []
    for prompt in prompts:
        for at in range(len(prompt)):
            path = tuple(prompt[: at + 1])
            if path not in nodes:
                nodes[path] = len(parent)
                parent.append(nodes.get(path[:-1], -1))
                end.append(sum(LENGTHS[content] for content in path))
                piece.append(path[-1])
    last = [nodes.get(tuple(prompt), -1) for prompt in prompts]
    return tuple(read_only(column, np.int64) for column in (parent, end, piece, last))


def path(parent, last: int) -> list[int]:
    """Return the nodes up to one, the first of the prompt first."""
    nodes: list[int] = []
    while last >= 0:
        nodes.insert(0, last)
        last = int(parent[last])
    return nodes


def sized(prompt: list[int]) -> list[tuple[int, int]]:
    """Return pieces with their lengths."""
    return [(content, LENGTHS[content]) for content in prompt]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_references_are_those_of_the_twin(data: st.DataObject) -> None:
    """Whatever the streams, and wherever the keys begin to be new."""
    prompts = data.draw(st.lists(PROMPT, min_size=1, max_size=7))
    streams = [
        data.draw(st.tuples(st.integers(-1, 1), st.integers(-1, 1), st.integers(0, 1))) for _ in prompts
    ]
    new_from = [data.draw(st.integers(0, 120)) for _ in prompts]
    parent, end, piece, node = forest(prompts)
    session, tenant, namespace = (read_only([each[at] for each in streams], np.int64) for at in range(3))
    found = kernel.find_references(
        parent, end, piece, 8, node, read_only(new_from, np.int64), read_only(np.ones(len(prompts)), np.bool_), session, tenant,
        namespace, twin.LEAST, twin.LEAST_OWN,
    )  # fmt: skip
    expected = twin.reference([sized(prompt) for prompt in prompts], new_from, streams)
    reference, _served, continued = (column.tolist() for column in found)
    assert (reference, continued) == expected


@settings(deadline=None, max_examples=200)
@given(st.data(), PROMPT, PROMPT, st.sampled_from([twin.LEAST, twin.LEAST_OWN]), st.booleans())
def test_changes_are_those_of_the_twin(
    data: st.DataObject, new: list[int], old: list[int], least: int, by_ids: bool
) -> None:
    """Inserted, dropped, moved and repeated pieces, of text or known by ids, between strangers and turns of a session."""
    parent, end, piece, node = forest([new, old])
    kind = read_only(
        data.draw(st.lists(st.integers(-1, 2), min_size=parent.size, max_size=parent.size)), np.int8
    )
    blocks_from = 0 if by_ids else parent.size
    counts, layers = kernel.align(
        parent, end, piece, kind, 8, node[:1], node[1:], read_only([least], np.int64), blocks_from
    )
    kinds = tuple([int(kind[at]) for at in path(parent, last)] for last in node.tolist())
    expected = twin.changes(sized(new), sized(old), kinds, least, by_ids=by_ids)
    columns = [kernel.AT, kernel.GAP, kernel.GAP_BEFORE, kernel.KEPT, kernel.LEAD]
    assert [tuple(row) for row in layers[0, : counts[0], columns].T.tolist()] == expected


def test_facts_are_cut_where_changes_begin_and_end_and_no_block_is_lost() -> None:
    """What is hit, was asked for before, or lies between changes keeps its row; every piece ends in its own block."""
    rows = [
        {"lookup": 0, "first_block": 0, "n_blocks": 1, "last_block": 0, "hit": True},
        {"lookup": 0, "first_block": 1, "n_blocks": 9, "last_block": 9, "hit": False},
        {"lookup": 1, "first_block": 0, "n_blocks": 3, "last_block": 2, "hit": False, "own_previous": 0},
        {"lookup": 1, "first_block": 3, "n_blocks": 2, "last_block": 4, "hit": False},
    ]
    facts = pa.Table.from_pylist(rows, schema=SEGMENT_FACTS.arrow())
    columns = ((0, 0, 1), (2, 5, 0), (5, 7, 4))
    changes = Changes(facts, *(np.array(column) for column in columns))
    names = ["lookup", "first_block", "n_blocks", "last_block", "change"]
    found = with_changes(facts, changes, np.arange(10) - 1).select(names)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (0, 0, 1, 0, None),
        (0, 1, 1, 1, None),
        (0, 2, 3, 4, 0),
        (0, 5, 2, 6, 1),
        (0, 7, 3, 9, None),
        (1, 0, 3, 2, None),
        (1, 3, 1, 3, 2),
        (1, 4, 1, 4, None),
    ]
