"""Chooses a replica for every lookup that the log did not place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.shared_kernel import head_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.replay.fleet import Membership


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
    """

    started_us: NDArray[np.int64]
    last_block: NDArray[np.int64]
    block_size: int
    parent: NDArray[np.int64]
    key: NDArray[np.uint64]
    hashes: Callable[[NDArray[np.int64]], NDArray[np.uint64]]


def route(routing: str, view: RouterView, membership: Membership, *, prefix_tokens: int) -> NDArray[np.int64]:
    """Return the replica of each lookup.

    Args:
        routing: ``random``, ``round-robin`` or ``prefix-hash``.
        view: What the router sees.
        membership: Who may be chosen when; a change counts for arrivals at the same moment.
        prefix_tokens: Tokens that ``prefix-hash`` looks at.

    Returns:
        int64[k], positions in ``Fleet.replicas``.

    Raises:
        UsageError: No such router, or a lookup arrives while no replica lives.
    """
    if routing not in ROUTERS:
        raise UsageError(
            f"there is no router {routing!r}", hint=f"routers that exist: as-logged, {', '.join(ROUTERS)}"
        )
    ticket = ROUTERS[routing](view, prefix_tokens)
    step = np.searchsorted(membership.from_us, view.started_us, side="right") - 1
    replica = np.empty(ticket.size, np.int64)
    for number, members in enumerate(membership.members):
        here = step == number
        if not here.any():
            continue
        if members.size == 0:
            raise UsageError(
                f"{int(here.sum())} requests arrive while the pool is scaled to 0 replicas",
                hint="scale to at least 1 replica, or end the log before that event",
            )
        replica[here] = members[(ticket[here] % np.uint64(members.size)).astype(np.int64)]
    return replica


def _random(view: RouterView, _prefix_tokens: int) -> NDArray[np.uint64]:
    return view.hashes(np.arange(view.started_us.size))


def _round_robin(view: RouterView, _prefix_tokens: int) -> NDArray[np.uint64]:
    return np.arange(view.started_us.size, dtype=np.uint64)


def _prefix_hash(view: RouterView, prefix_tokens: int) -> NDArray[np.uint64]:
    """Take the key of the deepest block that ends within the first ``prefix_tokens`` tokens, or of the first block.

    A chained key is a strong hash of everything up to its block, so it needs no second hash.
    """
    ticket = np.empty(view.last_block.size, np.uint64)
    keyed = view.last_block >= 0
    head = head_block(read_only(view.parent, np.int64), max(1, prefix_tokens // view.block_size))
    ticket[keyed] = view.key[head[view.last_block[keyed]], 1]
    ticket[~keyed] = view.hashes(np.flatnonzero(~keyed))
    return ticket


ROUTERS: dict[str, Callable[[RouterView, int], NDArray[np.uint64]]] = {
    "random": _random,
    "round-robin": _round_robin,
    "prefix-hash": _prefix_hash,
}
"""Routers that need no load and no state of the caches; each gives a ticket, taken modulo the live replicas."""
