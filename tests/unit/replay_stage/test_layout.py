"""Prompts laid out anew share exactly what their texts share; added lookups stand where their times say."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from prefixledger.replay.added_lookups import Added, with_lookups
from prefixledger.replay.contents import Contents
from prefixledger.replay.layout import laid_out, lay_out, varying
from prefixledger.replay.lookups import NO_TIME
from stage_support import MINUTE, make_log

SIZE = 4


def contents_of(prompts: list[list[tuple[int, int, bool]]]) -> Contents:
    """Return the forest of the pieces of some prompts: number of the content, tokens, whether it varies."""
    known: dict[tuple[int, int], int] = {}
    parent, end, piece, varies, node = [], [], [], [], []
    for prompt in prompts:
        at, tokens = -1, 0
        for number, length, changing in prompt:
            tokens += length
            key = (at, number)
            if key not in known:
                known[key] = len(parent)
                parent.append(at)
                end.append(tokens)
                piece.append(number)
                varies.append(changing)
            at = known[key]
        node.append(at)
    numbers, n = np.array(piece), len(prompts)
    zeros = np.zeros(n, np.int64)
    return Contents(
        parent=np.array(parent), end=np.array(end), blocks_from=len(parent), piece=numbers,
        mask=np.where(varies, 10**6, numbers), n_pieces=int(numbers.max()) + 1,
        kind=np.ones(len(parent), np.int8), length=numbers, marks={}, node=np.array(node),
        session=zeros, tenant=zeros, namespace=zeros, namespaces=("{}",), tools=zeros, same_tools=zeros,
    )  # fmt: skip


def shared_blocks(parent: np.ndarray, one: int, other: int) -> int:
    """Count the blocks that two paths have in common."""
    paths = []
    for last in (one, other):
        path, block = set(), last
        while block >= 0:
            path.add(block)
            block = int(parent[block])
        paths.append(path)
    return len(paths[0] & paths[1])


@pytest.mark.parametrize("seed", range(6))
def test_keys_follow_from_contents(seed: int) -> None:
    """Two prompts share as many blocks as their tokens, with what varies at the end, agree in full."""
    draw = random.Random(seed)
    lengths = {number: draw.choice([1, 2, 3, 5, 9, 16]) for number in range(60)}
    prompts = []
    for _ in range(25):
        stable = [(number, lengths[number], False) for number in draw.sample(range(4), draw.randint(1, 4))]
        stamps = [
            (number, lengths[number], True) for number in draw.sample(range(40, 60), draw.randint(0, 1))
        ]
        place = draw.randint(0, len(stable))
        prompts.append([*stable[:place], *stamps, *stable[place:]])
    contents = contents_of(prompts)
    late = varying(contents)
    log = make_log(
        [
            {
                "ids": [],
                "at_us": n * MINUTE,
                "block_size": SIZE,
                "prompt_tokens": sum(p[1] for p in prompt) + 1,
            }
            for n, prompt in enumerate(prompts)
        ]
    )
    for moved in (late, np.zeros_like(late)):
        found = laid_out(
            type(log)(log.rows, log.lookups, log.forest, contents=contents),
            lay_out(contents, moved),
            contents.namespace,
            np.ones(len(prompts), np.bool_),
        )
        assert found is not None
        parent = found.forest.parent
        assert (parent < np.arange(parent.size)).all()
        texts: list[list[Any]] = []
        for prompt in prompts:
            parts = prompt if not moved.any() else sorted(prompt, key=lambda part: part[2])
            texts.append([(number, at) for number, length, _ in parts for at in range(length)])
        assert found.lookups.n_blocks.tolist() == [len(text) // SIZE for text in texts]
        for one, other in pairwise(range(len(prompts))):
            same = 0
            for left, right in zip(texts[one], texts[other], strict=False):
                if left != right:
                    break
                same += 1
            last = found.lookups.last_block
            assert shared_blocks(parent, int(last[one]), int(last[other])) == same // SIZE


def test_contents_longer_than_prompts_are_not_laid_out() -> None:
    """Bytes taken for tokens would give blocks that no prompt has."""
    contents = contents_of([[(1, 400, False)]])
    log = make_log([{"ids": [1, 2], "at_us": 0}])
    log = type(log)(log.rows, log.lookups, log.forest, contents=contents)
    nothing = lay_out(contents, np.zeros(1, np.bool_))
    assert laid_out(log, nothing, contents.namespace, np.ones(1, np.bool_)) is None


def test_added_lookups_stand_in_order_of_arrival() -> None:
    """What was logged keeps its rows; a call has no times, no output, no usage, and no line of the log."""
    rows = [
        {
            "ids": [1, 2, n],
            "at_us": n * MINUTE,
            "request_id": f"q{n}",
            "session_id": f"s{n}",
            "output_tokens": 7,
            "finished_at": n * MINUTE + 5,
            "usage_state": "present",
            "cached_tokens_observed": 0,
        }
        for n in range(4)
    ]
    log = make_log(rows)
    head = int(log.forest.parent[log.lookups.last_block[0]])
    added = Added(
        like=np.array([2, 0]),
        shift_us=np.array([-MINUTE - 1, 5 * MINUTE]),
        last_block=np.array([head, head]),
        n_blocks=np.array([2, 2]),
        prompt_tokens=np.array([33, 33]),
        names=["call 0", "call 1"],
        calls=True,
    )
    longer = with_lookups(log, added)
    known = longer.log.lookups
    assert longer.logged.tolist() == [0, 2, 3, 4]
    assert longer.added.tolist() == [1, 5]
    assert (np.diff(known.started_us) >= 0).all()
    assert known.last_block[longer.logged].tolist() == log.lookups.last_block.tolist()
    assert known.finished_us[longer.added].tolist() == [NO_TIME, NO_TIME]
    assert known.output_tokens.tolist() == [7, 0, 7, 7, 7, 0]
    table = longer.log.rows.table
    assert table["request_id"].to_pylist() == ["q0", "q2 call 0", "q1", "q2", "q3", "q0 call 1"]
    assert table["started_at"].cast("int64").to_pylist() == known.started_us.tolist()
    assert len(set(table["source_line"].to_pylist())) == 6
    assert table["usage_state"].to_pylist() == ["present", "absent", *["present"] * 3, "absent"]
    assert table["cached_tokens_observed"].to_pylist() == [0, None, 0, 0, 0, None]
