"""More traffic: copied sessions keep what several use, and bring the rest as new content."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.growth import grown
from prefixledger.replay.growth_kernel import NOBODY, SEVERAL, find_owners
from stage_support import MINUTE, make_log


def sessions_log(seed: int, sessions: int = 12):  # type: ignore[no-untyped-def]
    """Return a log of sessions of three turns below a few shared heads."""
    draw = random.Random(seed)
    rows = []
    for number in range(sessions):
        ids = [1, 2, 10 + draw.randrange(3)]
        for turn in range(3):
            ids = [*ids, 1000 * number + turn + 100]
            rows.append(
                {
                    "ids": ids,
                    "at_us": (30 * number + turn) * MINUTE,
                    "session_id": f"s{number}",
                    "request_id": f"q{number}.{turn}",
                    "output_tokens": 5,
                    "finished_at": (30 * number + turn) * MINUTE + 7,
                }
            )
    rows.sort(key=lambda row: row["at_us"])
    return make_log(rows)


def path(parent: np.ndarray, block: int) -> list[int]:
    """Return the blocks of a prompt, the first first."""
    found = []
    while block >= 0:
        found.append(block)
        block = int(parent[block])
    return found[::-1]


@pytest.mark.parametrize("seed", range(4))
def test_owners_are_those_of_the_slow_way(seed: int) -> None:
    """A block is of the one session that passes it, or of several."""
    log = sessions_log(seed)
    names = log.rows.table["session_id"].to_pylist()
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    session = np.array([number[names[row]] for row in log.lookups.request_row.tolist()], np.int64)
    owner = np.empty(len(log.forest.parent), np.int64)
    parent = read_only(log.forest.parent, np.int64)
    find_owners(parent, read_only(log.lookups.last_block, np.int64), read_only(session, np.int64), owner)
    users: list[set[int]] = [set() for _ in owner]
    for lookup, last in enumerate(log.lookups.last_block.tolist()):
        for block in path(log.forest.parent, last):
            users[block].add(int(session[lookup]))
    slow = [NOBODY if not one else min(one) if len(one) == 1 else SEVERAL for one in users]
    assert owner.tolist() == slow


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_copies_share_what_is_shared_and_nothing_else(factor: float) -> None:
    """Every copy has the shared blocks of its session and as many fresh ones, which its turns share among themselves."""
    log = sessions_log(1)
    more = grown(log, factor, seed=3)
    found = more.log
    known, parent = found.lookups, found.forest.parent
    assert len(known) == factor * len(log.lookups)
    assert (parent < np.arange(parent.size)).all()
    assert (np.diff(known.started_us) >= 0).all()
    names = found.rows.table["request_id"].to_pylist()
    last = {names[row]: int(known.last_block[at]) for at, row in enumerate(known.request_row.tolist())}
    assert len(last) == len(known)
    paths = {name: path(parent, block) for name, block in last.items()}
    for name, blocks in paths.items():
        original, _, copy = name.partition(" ")
        assert len(blocks) == len(paths[original])
        if copy:
            session, turn = original.split(".")
            same = [one == other for one, other in zip(blocks, paths[original], strict=True)]
            assert same == [True, True, True] + [False] * (len(blocks) - 3)
            if turn != "0":
                before = paths[f"{session}.{int(turn) - 1} {copy}"]
                assert blocks[: len(before)] == before
    logged = log.rows.table["request_id"].take(log.lookups.request_row[more.origin]).to_pylist()
    at = [names[row].partition(" ")[0] for row in known.request_row.tolist()]
    assert logged == at  # every copy says what it is a copy of
    fresh = parent.size - len(log.forest.parent)
    assert fresh == (factor - 1) * 12 * 3
    again = grown(log, factor, seed=3)
    assert again.log.lookups.started_us.tolist() == known.started_us.tolist()


def test_a_part_of_the_sessions_is_copied() -> None:
    """Half as much again is about half of the sessions, whole ones."""
    found = grown(sessions_log(2, 60), 1.5, seed=0).log
    sessions = found.rows.table["session_id"].to_pylist()
    copies = {name for name in sessions if "copy" in name}
    assert 20 <= len(copies) <= 40
    assert all(sessions.count(name) == 3 for name in copies)
