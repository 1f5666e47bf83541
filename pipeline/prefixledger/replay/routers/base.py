"""What every router gets to see, and the loop that lets one decide request after request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.fleet import Membership
    from prefixledger.replay.routers.load import Load

BRANCHES = (
    "affinity",
    "below_threshold",
    "fallback",
    "hash",
    "imbalance",
    "least_loaded",
    "overflow",
    "overload",
    "random",
    "tie",
    "turn",
)
"""Why a request went where it went.

``affinity``: the longest prefix that the router remembers. ``below_threshold``: it remembers too little of it.
``fallback``: whom it wanted is gone, or there is no session id. ``hash``: the owner of the key. ``imbalance``: loads are
so uneven that prefixes do not count. ``least_loaded``: it remembers nothing. ``overflow``: a provider's cache had
as much to do for this head as it takes in a minute. ``overload``: it would have preferred a
replica that has too much to do. ``random``: drawn, or no key to go by. ``tie``: several were equally good. ``turn``: in
turn.
"""

(
    AFFINITY,
    BELOW_THRESHOLD,
    FALLBACK,
    HASH,
    IMBALANCE,
    LEAST_LOADED,
    OVERFLOW,
    OVERLOAD,
    RANDOM,
    TIE,
    TURN,
) = range(len(BRANCHES))


_HASHED_AT_ONCE = 64
"""Few draw here and there, and some routers draw for each."""


class Known(Protocol):
    """What a router knows, or believes, of the caches."""

    def match(self, row: int, now_us: int, /) -> list[int]:
        """Count the blocks at the head of a prompt that each replica holds, by the number of the replica."""

    def remember(self, row: int, replica: int, /) -> None:
        """Take note of where a lookup was sent."""


@dataclass(frozen=True, slots=True)
class RouterView:
    """What a router may look at: the lookups of one pool in order of arrival, and the forest.

    Attributes:
        started_us: int64[k], arrival of each lookup.
        last_block: int64[k], last full block of each, -1 below one block.
        block_size: Tokens per block.
        parent: int64[n], parent of each block of the forest, -1 for the first block of a prompt.
        key: uint64[n, 2], chained key of each block.
        hashes: Returns uint64[j], a seeded hash of who each of the chosen lookups (int64[j]) is.
        prompt_tokens: int64[k].
        first_token_us: int64[k], when each has its first token, counted from its arrival; None where nothing tells.
        end_us: int64[k], when each leaves, counted from its arrival; None where nothing tells.
        session: uint64[k], hash of the session id; None where the log has none.
        has_session: bool[k].
        capacity_blocks: Usable blocks of a replica; None is unlimited.
        prefix_tokens: Tokens that hashing policies look at.
        names: Names of all replicas that ever live.
        caches: What they hold, for a router that is told by KV events: good for one pass over the lookups. None: nothing
            tells.
    """

    started_us: NDArray[np.int64]
    last_block: NDArray[np.int64]
    block_size: int
    parent: NDArray[np.int64]
    key: NDArray[np.uint64]
    hashes: Callable[[NDArray[np.int64]], NDArray[np.uint64]]
    prompt_tokens: NDArray[np.int64] | None = None
    first_token_us: NDArray[np.int64] | None = None
    end_us: NDArray[np.int64] | None = None
    session: NDArray[np.uint64] | None = None
    has_session: NDArray[np.bool_] | None = None
    capacity_blocks: int | None = None
    prefix_tokens: int = 256
    names: tuple[str, ...] = ()
    caches: Known | None = None

    def draws(self) -> Draws:
        """Return the seeded hashes of all lookups, for those who draw."""
        return Draws(self)

    def tokens(self) -> list[int]:
        """Return the prompt tokens of every lookup."""
        assert self.prompt_tokens is not None
        tokens: list[int] = self.prompt_tokens.tolist()
        return tokens


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a router sent each lookup.

    Attributes:
        replica: int64[k], positions in ``Fleet.replicas``.
        branch: int8[k], positions in ``BRANCHES``.
    """

    replica: NDArray[np.int64]
    branch: NDArray[np.int8]


class Router(Protocol):
    """A policy with a state: it is asked in order of arrival and learns what it decided."""

    @property
    def load(self) -> Load | None:
        """What is in flight, for a router that goes by it."""

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen from now on, in the order of their numbers."""

    def choose(self, row: int, now_us: int, /) -> tuple[int, int]:
        """Send one lookup to a replica; return the replica and the branch that decided."""


def decide(router: Router, view: RouterView, membership: Membership) -> Placement:
    """Ask a router for every lookup.

    Args:
        router: The policy, at its start.
        view: What it sees.
        membership: Who may be chosen when; a change counts for arrivals at the same moment.

    Raises:
        UsageError: A lookup arrives while no replica lives.
    """
    steps = step_of(view, membership)
    started = view.started_us.tolist()
    replica = np.empty(len(started), np.int64)
    branch = np.empty(len(started), np.int8)
    load, at_step = router.load, -1
    for row, (now_us, step) in enumerate(zip(started, steps.tolist(), strict=True)):
        if step != at_step:
            at_step = step
            router.join(membership.members[step].tolist())
        if load is not None:
            load.advance(now_us)
        chosen, why = router.choose(row, now_us)
        if load is not None:
            load.send(row, chosen)
        replica[row], branch[row] = chosen, why
    return Placement(replica, branch)


def step_of(view: RouterView, membership: Membership) -> NDArray[np.int64]:
    """Return int64[k], the step of the membership in which each lookup arrives.

    Raises:
        UsageError: In one of them no replica lives.
    """
    steps = np.searchsorted(membership.from_us, view.started_us, side="right") - 1
    empty = np.asarray([members.size == 0 for members in membership.members])[steps]
    if empty.any():
        raise UsageError(
            f"{int(empty.sum())} requests arrive while the pool is scaled to 0 replicas",
            hint="scale to at least 1 replica, or end the log before that event",
        )
    return np.asarray(steps, np.int64)


class Draws:
    """The seeded hash of every lookup, made when it is asked for: of 31,242 lookups of the demo 50 draw at all."""

    def __init__(self, view: RouterView) -> None:
        """Start with none.

        Args:
            view: What the router sees.
        """
        self._hashes, self._size = view.hashes, view.started_us.size
        self._known: dict[int, list[int]] = {}

    def __getitem__(self, row: int) -> int:
        """Return 64 bits that depend on who a lookup is, and on the seed."""
        run, place = divmod(row, _HASHED_AT_ONCE)
        if run not in self._known:
            first = run * _HASHED_AT_ONCE
            rows = np.arange(first, min(first + _HASHED_AT_ONCE, self._size))
            self._known[run] = self._hashes(rows).tolist()
        return self._known[run][place]


def drawn(candidates: Sequence[int], draws: Draws, row: int) -> int:
    """Return one of some candidates, by the seeded hash of a lookup where there are several."""
    return candidates[0] if len(candidates) == 1 else candidates[draws[row] % len(candidates)]


def least(candidates: Sequence[int], of: Sequence[float]) -> list[int]:
    """Return the candidates with the least value, in their order."""
    low = min(of[each] for each in candidates)
    return [each for each in candidates if of[each] == low]
