"""The replay of one pool on a hosted prompt cache: allocates what the kernel needs and hands back what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import hosted_kernel as kernel
from prefixledger.replay.hosted_entries_kernel import ENTRY_COLUMNS, find_ends, find_parents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.evidence import Lifetimes
    from prefixledger.replay.extents import Resets

_SPARE_ROWS = 1024
_UNKNOWN = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Marks:
    """The places of each prompt up to which it asks to be cached.

    Attributes:
        offset: int64[m + 1], where the marks of each lookup begin.
        block: int64[k], last full block before each mark, from the head of a prompt to its tail; no mark lies before
            the end of the first block.
        ordinal: int64[k], number of the content block (or message) that each mark stands behind; -1: not known, and then
            whatever is stored before it is in reach.
        every_tokens: int64[m], where a lookup stores more: above its mark every so many tokens, for the same time; 0:
            nowhere. Marks at all of these places would take memory with lookups times blocks.
        first_tokens: int64[m], the first of these places, below ``every_tokens``; 0: they are its multiples.
    """

    offset: NDArray[np.int64]
    block: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    every_tokens: NDArray[np.int64]
    first_tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answers:
    """Where prompts and their answers end, of which that is stored as well.

    Attributes:
        block: int64[m], last full block of prompt and answer, -1 where it is not known or not stored.
        depth: int64[m], blocks down to it.
        ready_us: int64[m], when it can be read, ``NO_TIME`` where that is not known: with the prompt.
    """

    block: NDArray[np.int64]
    depth: NDArray[np.int64]
    ready_us: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HostedTraffic:
    """The lookups of one pool, in order of arrival.

    Attributes:
        at_us: int64[m], start of each request.
        replica: int32[m], whom each asks.
        prompt_tokens: int64[m].
        last_block: int64[m], last keyed block, -1 for none.
        keyed_blocks: int64[m], blocks down to it.
        first_token_us: int64[m], ``NO_TIME`` where it is not known.
        finished_us: int64[m], ``NO_TIME`` where it is not known.
        readable_us: int64[m], when what each stores can be read for sure, ``NO_TIME``: from its first token on.
        read_blocks: int64[m], what each read by its usage, -1 where the log does not say.
        wanted_blocks: int64[m], what each read or wrote by its usage, -1 where the log does not say.
        minimum_tokens: int64[m], length of the shortest prefix that is stored.
        look_back: int64[m], positions searched back from a mark, the mark counted; -1: no limit.
        refresh: bool[m], whether a use starts a lifetime anew.
        marks: Where each prompt is to be cached.
        takes_ttl: bool[m], whether a read gives what it reads the lifetime that the reader asks for; None: nowhere.
        answers: Ends of answers; None where none is stored.
    """

    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    prompt_tokens: NDArray[np.int64]
    last_block: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    first_token_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    readable_us: NDArray[np.int64]
    read_blocks: NDArray[np.int64]
    wanted_blocks: NDArray[np.int64]
    minimum_tokens: NDArray[np.int64]
    look_back: NDArray[np.int64]
    refresh: NDArray[np.bool_]
    marks: Marks
    takes_ttl: NDArray[np.bool_] | None = None
    answers: Answers | None = None


@dataclass(frozen=True, slots=True)
class HostedReplayed:
    """What the cache did.

    Attributes:
        hit_blocks: int64[m].
        segments: int32[s, 11], see the columns of ``hosted_kernel``; None unless asked for.
    """

    hit_blocks: NDArray[np.int64]
    segments: NDArray[np.int32] | None


class _Asked(NamedTuple):
    """What the kernel reads of lookups, marks, entries and blocks, in the order of its arguments."""

    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    prompt_tokens: NDArray[np.int64]
    last_block: NDArray[np.int64]
    keyed_blocks: NDArray[np.int32]
    ready_us: NDArray[np.int64]
    latest_us: NDArray[np.int64]
    readable_us: NDArray[np.int64]
    read_blocks: NDArray[np.int32]
    wanted_blocks: NDArray[np.int32]
    minimum_blocks: NDArray[np.int32]
    look_back: NDArray[np.int32]
    refresh: NDArray[np.bool_]
    takes_ttl: NDArray[np.bool_]
    answer_entry: NDArray[np.int32]
    answer_ready_us: NDArray[np.int64]
    mark_offset: NDArray[np.int64]
    mark_entry: NDArray[np.int32]
    mark_ordinal: NDArray[np.int32]
    mark_ttl_us: NDArray[np.int64]
    every_tokens: NDArray[np.int64]
    first_tokens: NDArray[np.int64]
    entry_parent: NDArray[np.int32]
    entry_depth: NDArray[np.int32]
    entry_block: NDArray[np.int32]
    parent: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HostedPool:
    """The lookups of one pool, checked and laid out; one lifetime after the other can be replayed on it.

    Attributes:
        traffic: The lookups.
        parent: int64[blocks].
        block_size: Tokens per block.
        us_per_token: Time until the first token for every token that is not read, where the log has no first token.
        stored_blocks: int64[m], depth of the deepest mark that is stored, 0 for none.
        reasons: int8[m], why nothing is stored: a class of ``hosted_kernel``, -1 where something is.
        mark_entry: int32[k].
        entry_parent: int32[e].
        entry_depth: int32[e].
        entry_block: int32[e].
        answer_entry: int32[m], entry at the end of each answer, -1 for none.
    """

    traffic: HostedTraffic
    parent: NDArray[np.int64]
    block_size: int
    us_per_token: float
    stored_blocks: NDArray[np.int64]
    reasons: NDArray[np.int8]
    mark_entry: NDArray[np.int32]
    entry_parent: NDArray[np.int32]
    entry_depth: NDArray[np.int32]
    entry_block: NDArray[np.int32]
    answer_entry: NDArray[np.int32]

    def replay(
        self,
        *,
        replicas: int = 1,
        ttl_us: int | NDArray[np.int64] | None = None,
        resets: Resets | None = None,
        lives: Lifetimes | None = None,
        waits: bool = True,
        pooled: bool = False,
        explain: bool = False,
    ) -> HostedReplayed:
        """Replay all lookups.

        Args:
            replicas: Caches that share nothing.
            ttl_us: Longest gap between two uses, start to start, that still hits; int64[k]: after what was stored at each
                mark, -1 for any gap; None: any.
            resets: Moments at which a cache lost everything.
            lives: When each cache can be asked; None: always.
            waits: Whether an entry can be read only once its writer's first token is there.
            pooled: Whether all ask one cache, whoever they would have asked.
            explain: Whether to say what became of every piece.
        """
        asks = self.traffic
        count = 1 if pooled else replicas
        none = np.empty(0, np.int64)
        given = (
            *self._asked(ttl_us, pooled=pooled),
            read_only(none if resets is None else resets.at_us, np.int64),
            read_only(none if resets is None else resets.replica, np.int32),
            read_only(np.full(count, _UNKNOWN) if lives is None else lives.live_from_us, np.int64),
            read_only(np.full(count, _NEVER) if lives is None else lives.live_to_us, np.int64),
            read_only(np.arange(count) if lives is None else lives.rank, np.int32),
            int(self.block_size),
            float(self.us_per_token),
            bool(waits),
            bool(explain),
        )
        hits = np.empty(len(asks.at_us), np.int32)
        rows = 2 * len(asks.at_us) + _SPARE_ROWS if explain else 0
        slots = self.entry_depth.size * count
        while True:
            state = np.zeros((count, kernel.STATE_COLUMNS), np.int64)
            state[:, 1] = -1
            segments = np.empty((rows, kernel.COLUMNS), np.int32)
            found = kernel.replay_hosted(
                *given,
                np.full((slots, ENTRY_COLUMNS), -1, np.int32),
                np.empty((slots, 2), np.int64),
                np.zeros(self.entry_depth.size, np.bool_),
                np.zeros(self.parent.size, np.bool_),
                state,
                hits,
                segments,
            )
            if found != kernel.SEGMENTS_FULL:
                return HostedReplayed(hits.astype(np.int64), segments[:found].copy() if explain else None)
            rows *= 4

    def _asked(self, ttl_us: int | NDArray[np.int64] | None, *, pooled: bool) -> _Asked:
        """Return what the kernel reads of lookups, marks, entries and blocks, in the order of its arguments."""
        asks = self.traffic
        m = asks.at_us.size
        takes = np.zeros(m, np.bool_) if asks.takes_ttl is None else asks.takes_ttl
        return _Asked(
            read_only(asks.at_us, np.int64),
            read_only(np.zeros_like(asks.replica) if pooled else asks.replica, np.int32),
            read_only(asks.prompt_tokens, np.int64),
            read_only(asks.last_block, np.int64),
            read_only(asks.keyed_blocks, np.int32),
            read_only(asks.first_token_us, np.int64),
            read_only(asks.finished_us, np.int64),
            read_only(asks.readable_us, np.int64),
            read_only(asks.read_blocks, np.int32),
            read_only(asks.wanted_blocks, np.int32),
            read_only(-(-asks.minimum_tokens // self.block_size), np.int32),
            read_only(asks.look_back, np.int32),
            read_only(asks.refresh, np.bool_),
            read_only(takes, np.bool_),
            read_only(self.answer_entry, np.int32),
            read_only(np.full(m, _UNKNOWN) if asks.answers is None else asks.answers.ready_us, np.int64),
            read_only(asks.marks.offset, np.int64),
            read_only(self.mark_entry, np.int32),
            read_only(asks.marks.ordinal, np.int32),
            read_only(np.broadcast_to(-1 if ttl_us is None else ttl_us, asks.marks.ordinal.shape), np.int64),
            read_only(asks.marks.every_tokens, np.int64),
            read_only(asks.marks.first_tokens, np.int64),
            read_only(self.entry_parent, np.int32),
            read_only(self.entry_depth, np.int32),
            read_only(self.entry_block, np.int32),
            read_only(self.parent, np.int64),
        )


def hosted_pool(
    traffic: HostedTraffic,
    parent: NDArray[np.int64],
    depth: NDArray[np.int64],
    *,
    block_size: int,
    us_per_token: float = 0.0,
) -> HostedPool:
    """Lay out the lookups of one pool.

    Args:
        traffic: The lookups.
        parent: int64[blocks], smaller than its own index; -1 for the first block of a prompt.
        depth: int64[k], blocks from the start of the prompt down to each mark.
        block_size: Tokens per block.
        us_per_token: See ``HostedPool``.

    Raises:
        InternalError: The lookups are not in order of arrival, or marks not in order of depth.
    """
    marks, m = traffic.marks, len(traffic.at_us)
    owner = np.repeat(np.arange(m), np.diff(marks.offset))
    same = owner[1:] == owner[:-1]
    if (np.diff(traffic.at_us) < 0).any() or (np.diff(depth)[same] < 0).any() or (depth < 1).any():
        raise InternalError("lookups or marks are not in order")
    depth_of = np.zeros(len(parent), np.int32)
    depth_of[marks.block] = depth
    answers = traffic.answers
    if answers is not None:
        known = answers.block >= 0
        depth_of[answers.block[known]] = answers.depth[known]
    spaced = np.stack([marks.every_tokens, marks.first_tokens])
    for every, first in np.unique(spaced[:, marks.every_tokens > 0], axis=1).T.tolist():
        of = (marks.every_tokens[owner] == every) & (marks.first_tokens[owner] == first)
        find_ends(
            read_only(parent, np.int64),
            read_only(marks.block[of], np.int64),
            read_only(depth[of], np.int64),
            every,
            first,
            block_size,
            np.zeros(len(parent), np.bool_),
            depth_of,
        )
    entry_block = np.flatnonzero(depth_of)
    entry_depth = depth_of[entry_block]
    is_entry = np.full(len(parent), -1, np.int32)
    is_entry[entry_block] = np.arange(entry_block.size, dtype=np.int32)
    mark_entry = is_entry[marks.block]
    entry_parent = np.empty(entry_block.size, np.int32)
    find_parents(
        read_only(parent, np.int64),
        read_only(is_entry, np.int32),
        np.empty(len(parent), np.int32),
        entry_parent,
    )
    deepest = np.zeros(m, np.int64)
    np.maximum.at(deepest, owner, depth)
    stored = deepest * block_size >= traffic.minimum_tokens
    reasons = np.where(deepest == 0, kernel.NO_BREAKPOINT, np.where(stored, -1, kernel.BELOW_MINIMUM))
    too_short = traffic.prompt_tokens < traffic.minimum_tokens
    reasons = np.where(too_short, kernel.BELOW_MINIMUM, reasons)
    return HostedPool(
        traffic=traffic,
        parent=parent,
        block_size=block_size,
        us_per_token=us_per_token,
        stored_blocks=np.where(stored, deepest, 0),
        reasons=reasons.astype(np.int8),
        mark_entry=mark_entry.astype(np.int32),
        entry_parent=entry_parent,
        entry_depth=entry_depth,
        entry_block=entry_block.astype(np.int32),
        answer_entry=np.full(m, -1, np.int32) if answers is None else np.append(is_entry, -1)[answers.block],
    )
