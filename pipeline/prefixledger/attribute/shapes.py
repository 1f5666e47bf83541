"""Recognises what the log as a whole looks like: sags at peak, lifetimes that fit some traffic only, routing that changed."""

from __future__ import annotations

from itertools import chain
from math import prod
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
_LEAST_UNFORESEEN = 7
"""Reads of one cache none of which a router that foresees every other one would miss by chance once in a hundred times."""
_MOST_NAMED = 3
_BAD, _GOOD = 0.2, 0.05
"""Shares of prompts that expired, from which a lifetime is bad for somebody, and up to which it is good."""


def shapes(
    whole: Series | None,
    paces: Sequence[dict[str, Any]],
    ttl_s: float | None,
    rerouted: Sequence[Nearby],
    floors: Sequence[dict[str, Any]] = (),
    pressures: Sequence[dict[str, Any]] = (),
    expected: Sequence[dict[str, Any]] = (),
) -> tuple[str, ...]:
    """Say what the log as a whole looks like.

    Args:
        whole: Slices of the whole log.
        paces: Of ``85_investigate/paces``.
        ttl_s: Lifetime of the pool's cache; None has none, or several.
        rerouted: Moments at which conversations stopped or began to stay on their replica.
        floors: Of ``85_investigate/floors``.
        pressures: Of ``85_investigate/pressures``.
        expected: Of ``85_investigate/expected``.
    """
    routing = [f"routing changed at {moment(each.at)}: {each.name}" for each in rerouted]
    found = (
        () if whole is None else _at_peak(whole), _too_late(paces, ttl_s), routing, _floors(floors), _alone(pressures),
        _unforeseen(expected),
    )  # fmt: skip
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


def _alone(pressures: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say where nothing is read by requests that run alone while like ones beside others read: capacity does the reverse."""
    engines = list(dict.fromkeys((row["pool"], row["model"]) for row in pressures))
    for engine in engines:
        mine = [row for row in pressures if (row["pool"], row["model"]) == engine]
        like: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in mine:
            like.setdefault((row["opens"], row["age_class"], row["from_tokens"]), []).append(row)
        alone = sum(row["requests"] for row in mine if not row["others_from"])
        if any(row["requests_with_read"] for row in mine if not row["others_from"]):
            continue
        # The chance that of all who read none is one that ran alone, if that had nothing to do with it: the product
        # over classes of like requests, each of which has as many readers as it has.
        chance = prod(_none_alone(rows) for rows in like.values())
        if chance * len(engines) > _SURE:
            continue
        yield (
            f"reads rise with load: {engine[1] or 'the service'} reads nothing for {alone:,} requests that ran alone, although the "
            f"replay finds something for each, but {_beside(mine)} (chance {chance:.1g} among like requests): that is how the "
            "engine runs, not capacity, which would take more from the busy; which of its modes, only its settings can tell"
        )


def _none_alone(like: Sequence[dict[str, Any]]) -> float:
    requests = sum(row["requests"] for row in like)
    readers = sum(row["requests_with_read"] for row in like)
    alone = sum(row["requests"] for row in like if not row["others_from"])
    return float(scipy.stats.hypergeom.pmf(0, requests, readers, alone))


def _beside(rows: Sequence[dict[str, Any]]) -> str:
    shares = []
    for least in sorted({row["others_from"] for row in rows} - {0}):
        mine = [row for row in rows if row["others_from"] == least]
        requests = sum(row["requests"] for row in mine)
        others = "1 other" if least == 1 else f"{least:,} to {2 * least - 1:,} others"
        share = sum(row["requests_with_read"] for row in mine) / requests
        shares.append(f"for {share:.0%} of {requests:,} beside {others}")
    return ", ".join(shares)


def _unforeseen(expected: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say of which caches a router never expected anything, although they serve reads."""
    blind = [
        row for row in expected if not row["requests_expected"] and row["unforeseen"] >= _LEAST_UNFORESEEN
    ]
    if not blind:
        return
    reads = sum(row["unforeseen"] for row in blind)
    seen = [row for row in expected if row["requests_expected"]]
    requests = sum(row["requests"] for row in (blind if seen else expected))
    which = (
        "of any cache"
        if not seen
        else f"of {'replica' if len(blind) == 1 else 'replicas'} {', '.join(row['replica'] for row in blind[:_MOST_NAMED])}"
        + (f" and {len(blind) - _MOST_NAMED:,} more" if len(blind) > _MOST_NAMED else "")
    )
    yield (
        f"a router that does not see: it expected nothing {which} for any of {requests:,} requests, while {reads:,} of them were "
        "served from a cache: events of these caches do not reach it, or it does not use them; which, only its settings can tell"
    )
