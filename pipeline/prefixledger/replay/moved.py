"""Counts the prefixes that a router sends to another replica once the fleet was scaled."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.routers.base import step_of
from prefixledger.replay.routers.ring import head_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.fleet import Membership
    from prefixledger.replay.routers.base import RouterView


def moved_notes(
    name: str | None, view: RouterView, replica: NDArray[np.int64], membership: Membership
) -> tuple[str, ...]:
    """Say, for every change of the number of replicas, how many prefixes are asked elsewhere after it.

    A prefix is what hashing policies look at. It counts if it is asked between the change before and this one, and between
    this one and the next; it has moved if the last request before and the first after go to different replicas. A ring
    moves about 1 in n, a number modulo n nearly all.

    Args:
        name: The pool.
        view: What the router saw.
        replica: int64[k], where it sent each lookup.
        membership: Who could be chosen when.
    """
    if len(membership.members) == 1:
        return ()
    keyed = np.flatnonzero(view.last_block >= 0)
    steps, keys, chosen = step_of(view, membership)[keyed], head_keys(view), replica[keyed]
    told = []
    for number, (before, after) in enumerate(pairwise(membership.members)):
        old, new = np.flatnonzero(steps == number), np.flatnonzero(steps == number + 1)
        known, last = np.unique(keys[old][::-1], return_index=True)
        again, first = np.unique(keys[new], return_index=True)
        _, here, there = np.intersect1d(known, again, assume_unique=True, return_indices=True)
        moved = int((chosen[old[::-1][last[here]]] != chosen[new[first[there]]]).sum())
        if here.size:
            told.append(
                f"pool {name!r}: scaled from {before.size} to {after.size} replicas, {moved} of {here.size} prefixes that are "
                f"asked before and after are asked of another replica ({moved / here.size:.0%})"
            )
    return tuple(told)
