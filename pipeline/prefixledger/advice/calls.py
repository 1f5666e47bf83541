"""Calls that only touch a prefix: one before each burst of requests, or some after each use to keep it alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.ground import Outcome, run
from prefixledger.attribute.trial import Trials
from prefixledger.replay.added_lookups import Added, with_lookups
from prefixledger.replay.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground
    from prefixledger.advice.units import Unit
    from prefixledger.config.models import Scenario

LEAD_US = 30_000_000
"""How long before a burst its prefix is asked for: longer than any prefill takes until its first token."""
BURST_US = 30_000_000
"""Requests that follow each other so closely that the first of them need not have been answered."""
SPACING = 0.9
"""Of a lifetime passes between two calls that keep a prefix alive."""
MOST_CALLS = 48


def burst_starts(unit: Unit, started_us: NDArray[np.int64], ttl_us: int) -> NDArray[np.int64]:
    """Return the lookups at which a burst begins after the lifetime of what was there before is over.

    Args:
        unit: Who asks.
        started_us: int64[m], of all lookups.
        ttl_us: Lifetime.
    """
    lookups = unit.lookups
    at_us = started_us[lookups]
    if at_us.size < 2:  # noqa: PLR2004
        return np.empty(0, np.int64)
    cold = np.append(True, unit.gaps_us > ttl_us)
    followed = np.append(unit.gaps_us < BURST_US, False)
    starts: NDArray[np.int64] = lookups[cold & followed]
    return starts


def calls_after(gaps_us: NDArray[np.int64], ttl_us: int, w: float, r: float) -> int:
    """Return how many calls after each use cost least, over all gaps; 0 for none.

    A call is due whenever nobody has asked for most of a lifetime. A gap that outlives the last of them costs all of them and
    the write as well.
    """
    step = SPACING * ttl_us
    most = min(MOST_CALLS, max(0, int((w - r) / max(r, 1e-9))))
    best, cheapest = 0, float((gaps_us > ttl_us).sum()) * (w - r)
    for calls in range(1, most + 1):
        needed = np.clip(np.ceil(gaps_us / step) - 1, 0, calls)
        lost = gaps_us > calls * step + ttl_us
        cost = float(needed.sum()) * r + float(lost.sum()) * (w - r)
        if cost < cheapest * (1 - 1e-9):
            best, cheapest = calls, cost
    return best


def kept_alive(unit: Unit, calls: int, ttl_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lookup that each call follows, and how long after it it comes."""
    step = int(SPACING * ttl_us)
    needed = np.clip(np.ceil(unit.gaps_us / step) - 1, 0, calls).astype(np.int64)
    like = np.repeat(unit.lookups[:-1], needed)
    begin = np.cumsum(needed) - needed
    nth = np.arange(int(needed.sum())) - np.repeat(begin, needed) + 1
    return like, nth * step


def with_calls(
    ground: Ground,
    scenario: Scenario,
    asked: Sequence[tuple[Unit, NDArray[np.int64], NDArray[np.int64]]],
    name: str,
) -> tuple[Outcome, int]:
    """Replay a log with further calls, each for the head of a unit; what they cost is added to the lookup they are like.

    Args:
        ground: The log.
        scenario: What is replayed.
        asked: For each unit the lookup that each call is like, and how much later it comes.
        name: Of the calls.

    Returns:
        What the logged lookups come to, and how many calls were made.

    Raises:
        UsageError: The scenario does not fit the log.
    """
    like = np.concatenate([lookups for _, lookups, _ in asked])
    head = np.concatenate([np.full(lookups.size, unit.head_block) for unit, lookups, _ in asked])
    depth = np.concatenate([np.full(lookups.size, unit.head_blocks) for unit, lookups, _ in asked])
    size = np.concatenate([np.full(lookups.size, unit.block_size) for unit, lookups, _ in asked])
    longer = with_lookups(
        ground.log,
        Added(
            like=like,
            shift_us=np.concatenate([shift for _, _, shift in asked]),
            last_block=head,
            n_blocks=depth,
            prompt_tokens=depth * size + 1,  # the last token is never read, so one follows the head
            names=[f"{name} {number}" for number in range(like.size)],
            calls=True,
        ),
    )
    old = ground.trials.prepared
    trials = Trials(prepared(longer.log, old.facts, old.events), ground.trials.noise)
    ground.tried += 1
    whole = run(trials, scenario)
    amount = whole.amount[longer.logged]
    np.add.at(amount, like, whole.amount[longer.added])
    written = whole.written_tokens[longer.logged]
    np.add.at(written, like, whole.written_tokens[longer.added])
    return Outcome(whole.hit_tokens[longer.logged], written, amount, whole.trial), like.size
