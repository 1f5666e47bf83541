"""Recognises what the log as a whole looks like: sags at peak, lifetimes that fit some traffic only, routing that changed."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from prefixledger.attribute.change_points import ENOUGH_SLICES
from prefixledger.attribute.explained import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.attribute.investigated import Nearby
    from prefixledger.attribute.series import Series

_SURE = 0.01
_TIED = 0.4
"""Rank correlation from which load and misses go together."""
_LEAST_SHARE = 0.01
_LEAST_PAIRS = 20
_MOST_FLOORS = 3
_BAD, _GOOD = 0.2, 0.05
"""Shares of prompts that expired, from which a lifetime is bad for somebody, and up to which it is good."""


def shapes(
    whole: Series | None,
    paces: Sequence[dict[str, Any]],
    ttl_s: float | None,
    rerouted: Sequence[Nearby],
    floors: Sequence[dict[str, Any]] = (),
) -> tuple[str, ...]:
    """Say what the log as a whole looks like.

    Args:
        whole: Slices of the whole log.
        paces: Of ``85_investigate/paces``.
        ttl_s: Lifetime of the pool's cache; None has none, or several.
        rerouted: Moments at which conversations stopped or began to stay on their replica.
        floors: Of ``85_investigate/floors``.
    """
    routing = [f"routing changed at {moment(each.at)}: {each.name}" for each in rerouted]
    found = (() if whole is None else _at_peak(whole), _too_late(paces, ttl_s), routing, _floors(floors))
    return tuple(chain.from_iterable(found))


def _at_peak(whole: Series) -> Iterator[str]:
    evicted = whole.rates.get("evicted")
    if evicted is None or whole.slices.size < ENOUGH_SLICES:
        return
    share = float((evicted * whole.prompt).sum() / whole.prompt.sum())
    if share < _LEAST_SHARE or not np.ptp(whole.requests) or not np.ptp(evicted):
        return  # where one of them never changes nothing says whether they go together
    tie = scipy.stats.spearmanr(whole.requests, evicted)
    if tie.statistic >= _TIED and tie.pvalue <= _SURE:
        yield (
            f"sags at peak: evictions rise with the number of requests (rank correlation {tie.statistic:.2f}, p {tie.pvalue:.1g}), "
            f"{share:.1%} of the prompts in all: more room, or less traffic on a replica, helps then"
        )
    else:
        yield (
            f"evictions do not go with load (rank correlation {tie.statistic:.2f}): {share:.1%} of the prompts find no room at any time of day"
        )


def _too_late(paces: Sequence[dict[str, Any]], ttl_s: float | None) -> Iterator[str]:
    for field in dict.fromkeys(row["field"] for row in paces):
        rows = [
            row
            for row in paces
            if row["field"] == field and row["pairs"] >= _LEAST_PAIRS and row["prompt_tokens"]
        ]
        share = {row["value"]: row["miss_expired_tokens"] / row["prompt_tokens"] for row in rows}
        bad = [row for row in rows if share[row["value"]] >= _BAD]
        good = [row for row in rows if share[row["value"]] <= _GOOD]
        if not bad or not good:
            continue
        slow, quick = bad[0], max(good, key=lambda row: (row["pairs"], row["value"]))
        if slow["median_gap_s"] <= quick["median_gap_s"]:
            continue
        limit = "" if ttl_s is None else f" against a lifetime of {ttl_s:,.0f} s"
        yield (
            f"lifetime: good for {field} {quick['value']} (comes back after {quick['median_gap_s']:,.0f} s) and bad for "
            f"{slow['value']} (after {slow['median_gap_s']:,.0f} s{limit}), {share[slow['value']]:.0%} of whose prompts expire"
        )


def _floors(floors: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in floors[:_MOST_FLOORS]:
        talks = row["conversations"]
        yield (
            f"a floor: reads fall back to {row['floor_tokens']:,} tokens while prompts grow, {row['falls']:,} times in {talks:,} "
            f"conversation{'' if talks == 1 else 's'}, {row['lost_tokens']:,} tokens in all: what stands before that stays, and "
            "something right behind it changes or goes; what it is, only the text of the prompts can tell"
        )
