"""Chooses a replica for every lookup that the log did not place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prefixledger.config.routers import (
    ROUTER_OPTIONS,
    AibrixPrefix,
    CacheAware,
    ConsistentHash,
    KvAware,
    LeastLoaded,
    LlmDPrefix,
    ProductionStackPrefix,
    RayPrefix,
    RouterOptions,
    Session,
    router_options,
)
from prefixledger.errors import UsageError
from prefixledger.replay.routers.base import (
    HASH,
    RANDOM,
    TIE,
    TURN,
    Placement,
    Router,
    RouterView,
    decide,
    step_of,
)
from prefixledger.replay.routers.cache_aware import PAGE_TOKENS, CacheAwareRouter
from prefixledger.replay.routers.kv_aware import KvAwareRouter
from prefixledger.replay.routers.least_loaded import LeastLoadedRouter
from prefixledger.replay.routers.llm_d import LlmDPrefixRouter
from prefixledger.replay.routers.prefix_policies import (
    AibrixPrefixRouter,
    ProductionStackPrefixRouter,
    RayPrefixRouter,
)
from prefixledger.replay.routers.ring import ConsistentHashRouter, SessionRouter, head_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.replay.fleet import Membership

__all__ = [
    "ROUTERS",
    "STATEFUL",
    "Placement",
    "RouterView",
    "draws",
    "needs_capacity",
    "needs_load",
    "needs_sessions",
    "route",
    "unit_tokens",
]


def route(
    routing: str, view: RouterView, membership: Membership, options: RouterOptions | None = None
) -> Placement:
    """Return the replica of each lookup, and why.

    Args:
        routing: One of ``ROUTERS`` or ``STATEFUL``.
        view: What the router sees.
        membership: Who may be chosen when; a change counts for arrivals at the same moment.
        options: Those of the router; None: its defaults.

    Raises:
        UsageError: No such router, or a lookup arrives while no replica lives.
    """
    if routing in STATEFUL:
        told = router_options(routing, options)
        return decide(_MAKERS[type(told)](view, told), view, membership)
    if routing not in ROUTERS:
        raise UsageError(
            f"there is no router {routing!r}",
            hint=f"routers that exist: as-logged, {', '.join((*ROUTERS, *STATEFUL))}",
        )
    ticket, branch = ROUTERS[routing](view)
    step = step_of(view, membership)
    replica = np.empty(ticket.size, np.int64)
    for number, members in enumerate(membership.members):
        here = step == number
        if here.any():
            replica[here] = members[(ticket[here] % np.uint64(members.size)).astype(np.int64)]
    return Placement(replica, branch)


def draws(routing: str, branch: NDArray[np.int8]) -> bool:
    """Tell whether a router would have placed its lookups otherwise under another seed.

    Args:
        routing: Its name.
        branch: int8[k], why it sent each where it did. A router that says so whenever it draws, and never did, decides
            the same under every seed.
    """
    return routing in _DRAWS_UNSAID or bool(np.isin(branch, (RANDOM, TIE)).any())


def needs_load(routing: str, options: RouterOptions) -> bool:
    """Tell whether a router goes by the requests in flight."""
    if isinstance(options, ConsistentHash):
        return options.bounded
    return routing in STATEFUL and not isinstance(options, (Session, ProductionStackPrefix))


def needs_sessions(options: RouterOptions) -> bool:
    """Tell whether a router goes by session ids."""
    return isinstance(options, Session) or (isinstance(options, ConsistentHash) and options.key == "session")


def needs_capacity(options: RouterOptions) -> bool:
    """Tell whether a router goes by how large a cache is, or by what it holds."""
    return isinstance(options, (LlmDPrefix, KvAware))


def unit_tokens(options: RouterOptions) -> int | None:
    """Return the tokens that a router takes as one unit of a prompt; None for one that remembers none, or keys alone."""
    match options:
        case CacheAware():
            return PAGE_TOKENS
        case ProductionStackPrefix():
            return options.chunk_tokens
        case LlmDPrefix(mode="precise"):
            return None
        case LlmDPrefix() | AibrixPrefix():
            return options.block_tokens
        case RayPrefix():
            return 1
    return None


def _random(view: RouterView) -> tuple[NDArray[np.uint64], NDArray[np.int8]]:
    return view.hashes(np.arange(view.started_us.size)), np.full(view.started_us.size, RANDOM, np.int8)


def _round_robin(view: RouterView) -> tuple[NDArray[np.uint64], NDArray[np.int8]]:
    return np.arange(view.started_us.size, dtype=np.uint64), np.full(view.started_us.size, TURN, np.int8)


def _prefix_hash(view: RouterView) -> tuple[NDArray[np.uint64], NDArray[np.int8]]:
    ticket = np.empty(view.last_block.size, np.uint64)
    keyed = view.last_block >= 0
    ticket[keyed] = head_keys(view)
    ticket[~keyed] = view.hashes(np.flatnonzero(~keyed))
    return ticket, np.where(keyed, HASH, RANDOM).astype(np.int8)


ROUTERS: dict[str, Callable[[RouterView], tuple[NDArray[np.uint64], NDArray[np.int8]]]] = {
    "random": _random,
    "round-robin": _round_robin,
    "prefix-hash": _prefix_hash,
}
"""Routers that need no load and no memory; each gives a ticket, taken modulo the live replicas."""

_MAKERS: dict[type[RouterOptions], Callable[[RouterView, Any], Router]] = {
    LeastLoaded: LeastLoadedRouter,
    Session: SessionRouter,
    ConsistentHash: ConsistentHashRouter,
    CacheAware: CacheAwareRouter,
    KvAware: KvAwareRouter,
    LlmDPrefix: LlmDPrefixRouter,
    ProductionStackPrefix: ProductionStackPrefixRouter,
    AibrixPrefix: AibrixPrefixRouter,
    RayPrefix: RayPrefixRouter,
}

_DRAWS_UNSAID = frozenset({"aibrix-prefix", "ray-prefix"})
"""AIBrix shuffles equals before it ranks them, Ray draws the two that it compares: the branch names the rule, not that."""

STATEFUL = tuple(ROUTER_OPTIONS)
"""Routers that remember, go by what is in flight, or have options."""
