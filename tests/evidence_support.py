"""Evidence of pools, made by the kernel and written as the twin does."""

from __future__ import annotations

import numpy as np

from prefixledger.replay.evidence import (
    NO_TIME,
    collect_evidence,
)
from prefixledger.replay.touches import find_touches
from twins.evidence_blocks import Segment
from twins.pool_logs import Ask, PoolCase, removal_log


def evidence_of(case):
    """Replay a case and return (evidence, log, hits, which of ``asks`` each lookup is)."""
    replayed = case.replay(capacity=case.capacity, ttl=case.ttl)
    log, order = case.pool_log(replayed)
    hits = replayed.hit_blocks[order].astype(np.int64)
    found = collect_evidence(
        find_touches(log, case.reset_log()),
        hits,
        case.lifetimes(),
        removals=removal_log(replayed, order),
        ttl_us=case.ttl,
    )
    return found, log, hits, order


def segments_of(found, order):
    """Return the rows as the twin writes them."""
    asked = np.append(order, -1)

    def known(value):
        return None if value < 0 else int(value)

    return [
        Segment(
            ask=int(order[found.lookup[k]]),
            first=int(found.first_block[k]),
            blocks=int(found.n_blocks[k]),
            hit=bool(found.hit[k]),
            own=known(asked[found.own_previous[k]]),
            own_reset=known(found.own_reset[k]),
            resident=known(found.resident_replica[k]),
            elsewhere=known(asked[found.else_previous[k]]),
            else_reset=known(found.else_reset[k]),
            removed=None
            if found.removed_at_us[k] == NO_TIME
            else (int(found.removed_at_us[k]), int(asked[found.removed_by[k]])),
        )
        for k in range(len(found))
    ]


def hand_made(asks, *, replicas=1, resets=(), live=None, capacity=100, ttl=None):
    """Return a case on one chain of 8 blocks of 2 tokens; ``asks`` are (at, replica, tokens)."""
    path = list(range(8))
    made = [Ask(at, replica, tokens, path[: tokens // 2], tokens // 2) for at, replica, tokens in asks]
    live = live or [(0, None)] * replicas
    return PoolCase([-1, *path[:-1]], made, 2, replicas, capacity, ttl, list(resets), live)
