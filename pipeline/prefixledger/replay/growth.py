"""A log as it would be with more traffic: sessions come again, keep what they share, and bring the rest as new content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.added_lookups import Added, with_lookups
from prefixledger.replay.growth_kernel import NOBODY, find_owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.index.load import Forest
    from prefixledger.replay.lookups import Log

MOST_SHIFT_US = 3_600_000_000
"""Copies come within the hour after what they are copies of, so that days keep their shape and no two arrive together."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Grown:
    """A log with copies of its sessions.

    Attributes:
        log: All of it.
        origin: int64[m], for each lookup that of the log it is, or is a copy of.
    """

    log: Log
    origin: NDArray[np.int64]


def grown(log: Log, factor: float, seed: int) -> Grown:
    """Return a log with so many times the sessions.

    A copied session keeps the keys of blocks that others use too and gets fresh ones below. Whole sessions are copied: of
    a factor of 2.5 each twice or, by a draw, once. A lookup without a session is a session of its own.

    Args:
        log: The log.
        factor: At least 1.
        seed: Decides which sessions are copied once more, and when copies come.
    """
    session = _sessions(log)
    sessions = int(session.max(initial=-1)) + 1
    random = np.random.default_rng(seed)
    copies = np.full(sessions, int(factor) - 1, np.int64) + (random.random(sessions) < factor % 1)
    copied = np.repeat(np.arange(sessions), copies)  # session of each copy
    if not copied.size:
        return Grown(log, np.arange(session.size))
    shift_us = random.integers(1_000_000, MOST_SHIFT_US, copied.size)
    owner = np.empty(len(log.forest.parent), np.int64)
    find_owners(
        read_only(log.forest.parent, np.int64),
        read_only(log.lookups.last_block, np.int64),
        read_only(session, np.int64),
        owner,
    )
    forest, fresh_of = _with_fresh(log.forest, owner, copied)
    of_session = np.argsort(session, kind="stable")
    counts = np.bincount(session, minlength=sessions)
    begins = np.cumsum(counts) - counts
    like = of_session[_stretches(begins[copied], counts[copied])]
    copy = np.repeat(np.arange(copied.size), counts[copied])
    last = log.lookups.last_block[like]
    own = np.append(owner, NOBODY)[last] == session[like]
    added = Added(
        like=like,
        shift_us=shift_us[copy],
        last_block=np.where(own, fresh_of(copy, np.maximum(last, 0)), last),
        n_blocks=log.lookups.n_blocks[like],
        prompt_tokens=log.lookups.prompt_tokens[like],
        names=[f"copy {number}" for number in copy.tolist()],
        calls=False,
    )
    longer = with_lookups(log, added, forest)
    origin = np.empty(session.size + like.size, np.int64)
    origin[longer.logged], origin[longer.added] = np.arange(session.size), like
    return Grown(longer.log, origin)


def _with_fresh(forest: Forest, owner: NDArray[np.int64], copied: NDArray[np.int64]) -> tuple[Forest, _Fresh]:
    """Return the forest with the blocks of each copy, and how to find them."""
    order = np.argsort(owner, kind="stable")
    begin = np.searchsorted(owner[order], np.arange(int(owner.max(initial=-1)) + 2))
    begin = np.append(begin, np.full(max(0, int(copied.max()) + 2 - begin.size), order.size))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    counts = begin[copied + 1] - begin[copied]
    source = order[_stretches(begin[copied], counts)]
    copy = np.repeat(np.arange(copied.size), counts)
    fresh_of = _Fresh(order.size + np.cumsum(counts) - counts, begin[copied], rank)
    above = forest.parent[source]
    own = np.append(owner, NOBODY)[above] == copied[copy]
    parent = np.where(own, fresh_of(copy, np.maximum(above, 0)), above)
    mixed = (copy.astype(np.uint64) + np.uint64(1)) * _ODD
    key = forest.key[source] ^ mixed[:, None] if len(forest.key) else forest.key
    return (
        replace(
            forest,
            parent=np.concatenate([forest.parent, parent]),
            key=np.concatenate([forest.key, key]),
            namespace=np.concatenate([forest.namespace, forest.namespace[source]]),
            first_seen_us=np.concatenate([forest.first_seen_us, forest.first_seen_us[source]]),
        ),
        fresh_of,
    )


class _Fresh:
    """Finds the block that a copy has in place of one that its session alone uses."""

    def __init__(self, base: NDArray[np.int64], begin: NDArray[np.int64], rank: NDArray[np.int64]) -> None:
        """Take the number of the first block of each copy, where its session begins in the order of owners, and that order."""
        self._base, self._begin, self._rank = base, begin, rank

    def __call__(self, copy: NDArray[np.int64], block: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[k], the blocks of some copies."""
        return np.asarray(self._base[copy] + self._rank[block] - self._begin[copy], np.int64)


def _stretches(begin: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of stretches of so many from each beginning on, one after the other."""
    before = np.cumsum(count) - count
    return np.asarray(np.arange(int(count.sum())) + np.repeat(begin - before, count), np.int64)


def _sessions(log: Log) -> NDArray[np.int64]:
    """Return int64[m], a number from 0 for the session of each lookup."""
    column = log.rows.table["session_id"].take(pa.array(log.lookups.request_row)).combine_chunks()
    encoded = column.dictionary_encode()
    number = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    alone = number < 0
    number[alone] = len(encoded.dictionary) + np.arange(int(alone.sum()))
    return number
