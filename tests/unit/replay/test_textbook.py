from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.replay import textbook
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Traffic, replay_extents
from prefixledger.replay.textbook import BlockTraffic, replay_textbook
from twins.forests import random_log
from twins.textbook import TextbookRow, replay

_BLOCK = 16
_SYSTEM = [f"sys{i}" for i in range(1200)]
_DOCUMENT = {tenant: [f"{tenant}doc{i}" for i in range(800)] for tenant in "ABCDEFGH"}


def _replay(
    parent, rows: list[TextbookRow], capacity: int | None, replicas: int, ttl: int = -1, resets=(), **rest
):
    forest = np.array(parent, np.int64)
    traffic = BlockTraffic(
        arrival_us=np.array([row.arrival for row in rows], np.int64),
        replica=np.array([row.replica for row in rows], np.int32),
        full_blocks=np.array([row.prompt_keys for row in rows], np.int64),
        last_block=np.array([row.keys[-1] if row.keys else -1 for row in rows], np.int64),
        nameless_blocks=np.array([row.nameless for row in rows], np.int64),
    )
    return replay_textbook(
        traffic,
        forest,
        build_chains(forest),
        replicas=replicas,
        capacity_blocks=capacity,
        ttl_us=None if ttl < 0 else ttl,
        reset_at_us=np.array([at for at, _ in resets], np.int64),
        reset_replica=np.array([of for _, of in resets], np.int32),
        **rest,
    )


def _assert_equal(rng: random.Random) -> int:
    log = random_log(rng, output=rng.choice(["ignore", "at_release"]))
    rows = [TextbookRow(r.arrival, r.replica, r.keys, r.prompt_keys, rng.choice([0, 0, 2])) for r in log.rows]
    capacity, resets = rng.randint(1, 12), [(at, of) for at, of, _ in log.resets]
    expected = replay(rows, capacity, log.replicas, log.ttl, resets)

    found = _replay(log.parent, rows, capacity, log.replicas, log.ttl, resets, log_removals=True)

    assert found.hit_blocks.tolist() == expected.hit
    assert found.first_eviction_us.tolist() == expected.first_eviction
    gone = found.removals
    columns = (gone.lookup, gone.at_us, gone.replica, gone.block, gone.expired)
    removed = [
        ("expired" if expired else "evicted", row, at, replica, block)
        for row, at, replica, block, expired in zip(*(c.tolist() for c in columns), strict=True)
    ]
    assert sorted(removed) == sorted(expected.removed)
    assert [r for r in removed if r[0] == "evicted"] == [r for r in expected.removed if r[0] == "evicted"]
    return len(removed)


@settings(deadline=None, max_examples=100)
@given(rng=st.randoms(use_true_random=False))
def test_kernel_equals_an_ordered_dict(rng):
    """Hits, first evictions and removals in their order equal those of one OrderedDict a replica."""
    _assert_equal(rng)


def test_kernel_equals_an_ordered_dict_under_pressure():
    """The same on longer logs with tight caches, time limits, resets and output."""
    removed = [_assert_equal(random.Random(seed)) for seed in range(600)]

    assert sum(count > 20 for count in removed) > 200


def test_recency_is_head_first_and_what_is_still_there_is_not_refreshed():
    """A scan of three blocks through two slots evicts its own head, so the next one finds nothing."""
    rows = [TextbookRow(at, 0, [0, 1, 2], 3) for at in range(3)]

    found = _replay([-1, 0, 1], rows, 2, 1)

    assert found.hit_blocks.tolist() == [0, 0, 0]
    assert found.first_eviction_us.tolist() == [0]


def test_the_last_block_of_an_aligned_prompt_may_hit():
    """No last-token rule and no partial slot: the whole prompt is found again."""
    rows = [TextbookRow(at, 0, [0, 1, 2], 3) for at in range(2)]

    assert _replay([-1, 0, 1], rows, None, 1).hit_blocks.tolist() == [0, 3]


def test_removals_that_run_full_are_given_more_room(monkeypatch):
    """A table that is too small at first changes no result."""
    rows = [TextbookRow(at, 0, list(range(40)), 40) for at in range(2)]
    monkeypatch.setattr(textbook, "FIRST_ROWS", 1)

    found = _replay(range(-1, 39), rows, 1, 1, log_removals=True)

    assert found.removals.block.tolist() == [*range(40), *range(39)]


def test_more_full_blocks_than_the_path_has_are_refused():
    """A lookup cannot look up blocks that its path lacks."""
    with pytest.raises(InternalError, match="more full blocks"):
        _replay([-1], [TextbookRow(0, 0, [0], 2)], 9, 1)


def test_lookups_out_of_order_are_refused():
    """Arrivals of one replica that fall are a fault of the caller."""
    with pytest.raises(InternalError, match="order of arrival"):
        _replay([-1], [TextbookRow(5, 0, [0], 1), TextbookRow(4, 0, [0], 1)], 9, 1)


@dataclass(frozen=True, slots=True)
class _Lesson:
    parent: list[int]
    paths: list[list[int]]
    replica: list[int]
    tokens: list[int]


@cache
def _lessons() -> list[_Lesson]:
    """Draw the three runs of the lesson sample: random routing, prefix hash, prefix hash with a volatile word on top."""
    rng = random.Random(3)
    number: dict[str, int] = {}
    lessons = []
    for run in range(3):
        lesson, child = _Lesson([], [], [], []), {}
        for _ in range(2000):
            tenant = rng.choice("ABCDEFGH")
            fresh = [f"u{rng.randint(0, 10**6)}" for _ in range(60)]
            top = [f"time={rng.randint(0, 10**6)}"] if run == 2 else []
            words = [*top, *_SYSTEM, *_DOCUMENT[tenant], *fresh]
            digest = hashlib.md5(" ".join(words[:1280]).encode()).hexdigest()
            lesson.replica.append(rng.randrange(4) if run == 0 else int(digest, 16) % 4)
            lesson.tokens.append(len(words))
            content = np.array([number.setdefault(word, len(number)) for word in words], np.int32).tobytes()
            block, path = -1, []
            for start in range(0, 4 * _BLOCK * (len(words) // _BLOCK), 4 * _BLOCK):
                step = (block, content[start : start + 4 * _BLOCK])
                if step not in child:
                    child[step] = len(lesson.parent)
                    lesson.parent.append(block)
                block = child[step]
                path.append(block)
            lesson.paths.append(path)
        lessons.append(lesson)
    return lessons


def test_the_lesson_table_comes_out():
    """What routing, a volatile first word and the order of eviction are worth, to the token, under both profiles."""
    table = []
    for lesson in _lessons():
        rows = [
            TextbookRow(at, replica, path, len(path))
            for at, (replica, path) in enumerate(zip(lesson.replica, lesson.paths, strict=True))
        ]
        naive = _replay(lesson.parent, rows, 400, 4)
        chains = build_chains(np.array(lesson.parent, np.int64))
        paths = build_paths(chains, np.array([path[-1] for path in lesson.paths], np.int64))
        traffic = Traffic(
            arrival_us=np.arange(2000),
            replica=np.array(lesson.replica, np.int32),
            prompt_tokens=np.array(lesson.tokens, np.int64),
            keyed_blocks=np.array([len(path) for path in lesson.paths], np.int64),
            path_offset=paths.offset,
            path_chain=paths.chain,
        )
        exact = replay_extents(traffic, chains.chain_length, block_size=16, replicas=4, capacity_blocks=400)
        hits = (int(found.hit_blocks.sum()) * _BLOCK for found in (naive, exact))
        table.append((sum(lesson.tokens), *hits))

    assert table == [(4_120_000, 3_447_200, 3_548_816), (4_120_000, 3_988_800, 3_988_800), (4_122_000, 0, 0)]


def test_the_hash_of_the_lesson_sample_loads_the_replicas_unevenly():
    """The best hit rate comes with the worst load."""
    _, by_hash, _ = _lessons()

    assert np.bincount(by_hash.replica).tolist() == [244, 511, 233, 1012]
