"""The kernel of hosted caches equals its twin, and keeps the laws."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.kernels.path_forest import PathForest
from prefixledger.replay import hosted_kernel as kernel
from prefixledger.replay.evidence import Lifetimes
from prefixledger.replay.extents import Resets
from prefixledger.replay.hosted import Answers, HostedTraffic, Marks, hosted_pool
from prefixledger.replay.lookups import NO_TIME
from twins import hosted_cache
from twins.hosted_cache import RANKS, Ask


def lay_out(asks, *, block_size=1, per_token=0.0, every=None, first=0):
    """Turn lookups of the twin into a pool of the kernel; ``every``: of which the last mark and a distance are to do."""
    every = [0] * len(asks) if every is None else every
    laid = [ask.marks[-1:] if tokens else ask.marks for ask, tokens in zip(asks, every, strict=True)]
    forest = PathForest()
    paths = [*(ask.ids for ask in asks), *(ask.answer or () for ask in asks)]
    ends = np.cumsum([0, *map(len, paths)]).astype(np.int64)
    ids = np.asarray([block for path in paths for block in path], np.uint64)
    last = forest.add(np.zeros(len(paths), np.int64), ends, None, ids)
    last, answers = last[: len(asks)], last[len(asks) :]
    parent = np.maximum(forest.parent, -1).astype(np.int64)
    block, depth = [], []
    for marks, end in zip(laid, last.tolist(), strict=True):
        path, above = [], end
        while above >= 0:
            path.append(above)
            above = parent[above]
        path.reverse()
        block += [path[mark - 1] for mark, *_ in marks]
        depth += [mark for mark, *_ in marks]
    ordinal = [-1 if at is None else at for marks in laid for _, at, _ in marks]

    def column(of):
        return np.asarray([of(ask) for ask in asks], np.int64)

    def times(of):
        return column(lambda ask: NO_TIME if of(ask) is None else of(ask))

    traffic = HostedTraffic(
        at_us=column(lambda ask: ask.at),
        replica=column(lambda ask: ask.replica).astype(np.int32),
        prompt_tokens=column(lambda ask: ask.tokens),
        last_block=last,
        keyed_blocks=column(lambda ask: len(ask.ids)),
        first_token_us=times(lambda ask: ask.first_token),
        finished_us=times(lambda ask: ask.finished),
        readable_us=times(lambda ask: ask.readable),
        read_blocks=column(lambda ask: -1 if ask.read is None else ask.read),
        wanted_blocks=column(lambda ask: -1 if ask.read is None else ask.wanted),
        minimum_tokens=column(lambda ask: ask.minimum_tokens),
        look_back=column(lambda ask: -1 if ask.look_back is None else ask.look_back),
        refresh=column(lambda ask: ask.refresh).astype(np.bool_),
        marks=Marks(
            np.cumsum([0, *map(len, laid)]).astype(np.int64),
            np.asarray(block, np.int64),
            np.asarray(ordinal, np.int64),
            np.asarray(every, np.int64),
            np.asarray([first % tokens if tokens else 0 for tokens in every], np.int64),
        ),
        takes_ttl=column(lambda ask: ask.takes_ttl).astype(np.bool_),
        answers=Answers(answers, column(lambda ask: len(ask.answer or ())), times(lambda ask: ask.answered)),
    )
    return hosted_pool(
        traffic, parent, np.asarray(depth, np.int64), block_size=block_size, us_per_token=per_token
    )


def lifetimes(asks, every=None):
    """Return the lifetime of each mark, -1 for none."""
    every = [0] * len(asks) if every is None else every
    laid = [ask.marks[-1:] if tokens else ask.marks for ask, tokens in zip(asks, every, strict=True)]
    return np.asarray([-1 if ttl is None else ttl for marks in laid for *_, ttl in marks], np.int64)


@st.composite
def traffic(draw, replicas=2, ttls=(None, 2, 5), always=False):
    """Prompts over a few shared heads, marks anywhere and for any time, ties, waits, two replicas."""
    asks, at = [], 0
    for _ in range(draw(st.integers(1, 12))):
        at += draw(st.integers(0, 3))
        head = draw(st.sampled_from([(), (1,), (1, 2), (1, 2, 3), (1, 4), (5, 6, 7, 8)]))
        ids = head + (9,) * draw(st.integers(0, 2))
        depths = sorted(draw(st.sets(st.integers(1, max(1, len(ids))), max_size=3))) if ids else []
        asks.append(
            Ask(
                at=at,
                ids=ids,
                # A position is a property of the prefix, so that it is the same in every prompt.
                marks=[
                    (depth, draw(st.just(3 * depth) | st.none()), draw(st.sampled_from(ttls)))
                    for depth in depths
                ],
                tokens=2 * len(ids) + draw(st.integers(0, 1)),
                replica=draw(st.integers(0, replicas - 1)),
                first_token=draw(st.none() | st.just(at + draw(st.integers(0, 4)))),
                finished=draw(st.none() | st.just(at + draw(st.integers(0, 4)))),
                readable=draw(st.none() | st.just(at + draw(st.integers(0, 6)))),
                read=draw(st.none() | st.integers(0, 4)),
                wanted=draw(st.integers(0, 6)),
                minimum_tokens=draw(st.sampled_from([1, 3, 4])),
                look_back=draw(st.sampled_from([None, 1, 4, 7])),
                refresh=always or draw(st.booleans()),
                takes_ttl=not always and draw(st.booleans()),
                answer=ids + (9,) * draw(st.integers(0, 2)) if ids and draw(st.booleans()) else None,
                answered=draw(st.none() | st.just(at + draw(st.integers(0, 4)))),
            )
        )
    resets = sorted(
        (draw(st.integers(0, 20)), draw(st.integers(0, replicas - 1))) for _ in range(draw(st.integers(0, 2)))
    )
    return asks, resets


def _resets(resets):
    return Resets(
        np.asarray([at for at, _ in resets], np.int64),
        np.asarray([replica for _, replica in resets], np.int32),
        np.ones(len(resets), np.bool_),
    )


def blocks_of(pool, replayed):
    """Spread segments over blocks: the form in which the twin answers."""
    spread = [[] for _ in pool.stored_blocks]
    for row in replayed.segments.tolist():
        assert row[kernel.FIRST] == len(spread[row[kernel.LOOKUP]])
        piece = (
            RANKS[row[kernel.CLASS]],
            *(
                row[c]
                for c in (kernel.OWN, kernel.OWN_RESET, kernel.RESIDENT, kernel.ELSE, kernel.ELSE_RESET)
            ),
        )
        spread[row[kernel.LOOKUP]] += [piece] * (row[kernel.END] - row[kernel.FIRST])
    return spread


@settings(max_examples=100, deadline=None)
@given(traffic(), st.booleans())
def test_kernel_equals_twin(given_traffic, short_lived):
    """Hits, causes and evidence of every block, over resets, ends of replicas, waits, marks and minimums."""
    asks, resets = given_traffic
    lives = [(-100, 9 if short_lived else 100), (-100, 100)]
    pool = lay_out(asks, block_size=2, per_token=0.5)
    replayed = pool.replay(
        replicas=2,
        ttl_us=lifetimes(asks),
        resets=_resets(resets),
        lives=Lifetimes(
            *(np.asarray(each, np.int64) for each in zip(*lives, strict=True)), np.arange(2, dtype=np.int32)
        ),
        explain=True,
    )
    expected = hosted_cache.replay(asks, block_size=2, replicas=2, resets=resets, lives=lives, per_token=0.5)
    assert replayed.hit_blocks.tolist() == [hit for hit, _ in expected]
    assert blocks_of(pool, replayed) == [blocks for _, blocks in expected]
    for row in replayed.segments.tolist():
        block, depth = row[kernel.END_BLOCK], 0
        while block >= 0:
            block, depth = pool.parent[block], depth + 1
        assert depth == row[kernel.END]


@settings(max_examples=60, deadline=None)
@given(traffic(), st.data())
def test_a_distance_stands_for_marks_at_all_its_multiples(given_traffic, data):
    """Among lookups with marks of their own: one mark and a distance store what marks at all of those places store."""
    asks, resets = given_traffic
    every = [data.draw(st.sampled_from([0, 1, 2, 3, 4, 5])) for _ in asks]
    first = data.draw(st.integers(0, 4))
    for number, tokens in enumerate(every):
        if tokens:
            length = 2 * len(asks[number].ids)  # in tokens
            ends = sorted({end // 2 for end in range(first % tokens, length + 1, tokens)} - {0})
            ttl = data.draw(st.sampled_from([None, 2, 5]))
            asks[number].marks = [(depth, None, ttl) for depth in ends]
    every = [tokens if ask.marks else 0 for ask, tokens in zip(asks, every, strict=True)]
    lives = [(-100, 100)] * 2
    pool = lay_out(asks, block_size=2, per_token=0.5, every=every, first=first)
    replayed = pool.replay(replicas=2, ttl_us=lifetimes(asks, every), resets=_resets(resets), explain=True)
    expected = hosted_cache.replay(asks, block_size=2, replicas=2, resets=resets, lives=lives, per_token=0.5)
    assert replayed.hit_blocks.tolist() == [hit for hit, _ in expected]
    assert blocks_of(pool, replayed) == [blocks for _, blocks in expected]


@settings(max_examples=50, deadline=None)
@given(traffic(always=True), st.sampled_from([2, 5]))
def test_ladder_equals_causes(given_traffic, ttl):
    """Where nobody waits, each rung loses the blocks of its causes, and a longer life never hits less."""
    asks, resets = given_traffic
    pool = lay_out(asks, block_size=2)
    base = {"replicas": 2, "waits": False}
    limits = {"resets": _resets(resets)}
    rungs = [
        pool.replay(**base, pooled=True).hit_blocks,
        pool.replay(**base).hit_blocks,
        pool.replay(**base, **limits).hit_blocks,
        pool.replay(**base, **limits, ttl_us=ttl).hit_blocks,
    ]
    causes = blocks_of(pool, pool.replay(**base, **limits, ttl_us=ttl, explain=True))
    for number, blocks in enumerate(causes):
        kinds = [kind for kind, *_ in blocks]
        pooled, per_replica, after_resets, after_ttl = (int(rung[number]) for rung in rungs)
        assert kinds.count("hit") == after_ttl
        assert kinds.count("expired") == after_resets - after_ttl
        assert kinds.count("invalidated") == per_replica - after_resets
        assert kinds.count("misrouted") + kinds.count("elsewhere") == pooled - per_replica
    longer = pool.replay(**base, **limits, ttl_us=ttl + 2).hit_blocks
    assert (longer >= rungs[3]).all()


@settings(max_examples=40, deadline=None)
@given(traffic(replicas=1, always=True), st.sampled_from([1, 3, 6]))
def test_waiting_and_short_lives_never_add_hits(given_traffic, ttl):
    """With waits logged, a longer TTL never lowers a hit; without waits there are never fewer."""
    asks, _ = given_traffic
    pool = lay_out(asks, block_size=2, per_token=0.5)
    short, longer = (pool.replay(ttl_us=each).hit_blocks for each in (ttl, ttl + 2))
    assert (short <= longer).all()
    assert (short <= pool.replay(ttl_us=ttl, waits=False).hit_blocks).all()
    assert (short <= pool.stored_blocks).all()
