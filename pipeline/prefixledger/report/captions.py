"""What each chart shows, in one sentence with its figures: a title states the finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.books import rate
from prefixledger.report.curve_charts import between
from prefixledger.report.curve_parts import KNEE
from prefixledger.report.gap_chart import LIVES_S, gaps, within
from prefixledger.report.heat_map import coldest
from prefixledger.report.load import peers
from prefixledger.report.numbers import (
    amount,
    clean,
    duration,
    moment,
    money,
    multiplier,
    percent,
    points,
    span,
    whole,
)  # fmt: skip
from prefixledger.report.routing_chart import unbeaten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.report.curve_parts import Curves
    from prefixledger.report.load_parts import RoutingOption
    from prefixledger.report.parts import Bucket
    from prefixledger.report.view import ReportView


_PRICES_TOLD = 3
_LIMITS = {
    "per_replica": "A cache of its own on each replica",
    "resets": "Starting empty after resets",
    "ttl": "The time to live",
    "capacity": "The capacity",
}
"""Rungs of the ladder as the subject of a sentence."""


def over_time(view: ReportView) -> str:
    """Say when the hit rate was unlike the rest: in the time of the largest finding that has one, else in its worst slice."""
    found = next((f for f in view.findings if f.from_us is not None and f.to_us is not None), None)
    if found is not None and found.from_us is not None and found.to_us is not None:
        inside = [b for b in view.timeline.buckets if found.from_us <= b.at_us < found.to_us]
        outside = [b for b in view.timeline.buckets if not found.from_us <= b.at_us < found.to_us]
        if _asked(inside) and _asked(outside):
            when = span(found.from_us, found.to_us, view.window)
            return (
                f"The hit rate was {percent(_rate(inside))} {when}, and {percent(_rate(outside))} otherwise"
            )
    rated = [b for b in view.timeline.buckets if b.prompt_tokens]
    low, high = min(rated, key=_one), max(rated, key=_one)
    if percent(_one(low)) == percent(_one(high)):
        return f"The hit rate is {percent(_one(low))} all the time"
    return (
        f"The hit rate is lowest, {percent(_one(low))}, at {moment(low.at_us, view.window)} and highest, "
        f"{percent(_one(high))}, at {moment(high.at_us, view.window)}"
    )


def replicas(view: ReportView) -> str:
    """Set the busiest replica against the others."""
    pool = peers(view)[0]
    busiest, asked = pool[0], sum(r.prompt_tokens for r in pool)
    share = busiest.prompt_tokens / asked
    return (
        f"{clean(busiest.name, 30)} gets {percent(share)} of the prompt tokens, {share * len(pool):.2f} times an even share, "
        f"and hits {percent(rate(busiest.hit_tokens, busiest.prompt_tokens))}; the others hit "
        f"{percent(rate(sum(r.hit_tokens for r in pool[1:]), asked - busiest.prompt_tokens))}"
    )


def ladder(view: ReportView) -> str:
    """Name the limit that takes most."""
    rungs = [r for r in view.result.ladder if r.rung != "observed"]
    most = max(rungs[1:], key=lambda r: r.lost_tokens)
    if not most.lost_tokens:
        return "No limit of the cache takes anything away"
    return (
        f"{_LIMITS[most.rung]} takes most: {amount(most.lost_tokens)} of the {amount(rungs[0].hit_tokens)} hit tokens "
        "within reach"
    )


def capacity(curves: Curves) -> str:
    """Say what half and twice as much memory would give, and where the knee is."""
    bend = 0 if curves.knee is None else curves.knee.capacity_blocks
    text = f"{whole(bend)} blocks a replica give {KNEE * 100:.0f} % of what any size can"
    if curves.capacity_today is None:
        return text
    today, half, twice = (_hit_at(curves, curves.capacity_today * n) for n in (1.0, 0.5, 2.0))
    return f"Half of today's memory would hit {points(today - half)} less, twice as much {points(twice - today)} more; {text}"


def ttl(curves: Curves) -> str:
    """Say what the times to live give that are sold, and where the price is lowest."""
    sold = [
        f"{duration(life)} gives {percent(_ttl_hits(curves, life) / curves.prompt_tokens)}"
        for life in LIVES_S
        if life <= curves.ttl[-1].ttl_s
    ]
    longest = (
        f"{duration(curves.ttl[-1].ttl_s)} gives {percent(curves.ttl[-1].hit_tokens / curves.prompt_tokens)}"
    )
    text = f"A time to live of {', one of '.join([*sold, longest])}"
    own = [line for line in curves.rates if line.own]
    told = []
    for line in own[:_PRICES_TOLD]:
        least = min(curves.ttl, key=lambda p: (curves.multiplier(line, p), p.ttl_s))  # used at once
        for_whom = f" for {clean(line.name, 30)}" if len(own) > 1 else ""
        told.append(f"{multiplier(curves.multiplier(line, least))}, at {duration(least.ttl_s)}{for_whom}")
    return f"{text}; the price is lowest, {' and '.join(told)}" if told else text


def used_again(curves: Curves) -> str:
    """Say what comes back soon enough."""
    found = gaps(curves)
    parts = [
        f"{percent(within(found, curves, life))} within {duration(life)}"
        for life in LIVES_S
        if life < found[-1].to_s
    ]
    soon = f"Of the tokens that are used again, {' and '.join(parts)} come back; the" if parts else "The"
    return f"{soon} longest time between two uses is {duration(found[-1].to_s)}"


def heat(view: ReportView) -> str:
    """Name the replica and time that fell short the most."""
    low = coldest(view)
    if low is None:
        return "Every replica hits the same all the time"
    return (
        f"{clean(low.replica, 30)} fell furthest below its own mean at {moment(low.at_us, view.window)}: "
        f"{percent(low.hit_tokens / low.prompt_tokens)} of {amount(low.prompt_tokens)} tokens"
    )


def prefixes(view: ReportView) -> str:
    """Name the branch that is asked most and the one that costs most."""
    tops = [p for p in view.prefixes.tree if p.level == 0] or list(view.prefixes.tree)
    widest = tops[0]
    asked = view.result.total.prompt_tokens
    text = f"The branch {clean(widest.name, 30)} is {percent(widest.below_tokens / asked)} of all tokens and hits {percent(rate(widest.below_hit_tokens, widest.below_tokens))}"
    if len({p.currency for p in tops}) == 1:
        costly = max(tops, key=lambda p: (p.below_excess_cost or 0, p.below_tokens - p.below_hit_tokens))
    else:
        costly = max(tops, key=lambda p: p.below_tokens - p.below_hit_tokens)
    if costly is not widest:
        price = (
            f", for {money(costly.below_excess_cost, costly.currency)}" if costly.below_excess_cost else ""
        )
        text += f"; most is lost under {clean(costly.name, 30)}, {amount(costly.below_tokens - costly.below_hit_tokens)} tokens{price}"
    return text


def routing(options: Sequence[RoutingOption]) -> str:
    """Name the routing that hits most and the one that loads most evenly."""
    best = [o for o, good in zip(options, unbeaten(options), strict=True) if good]
    top = max(best, key=lambda o: (o.hit_tokens / o.prompt_tokens, o.routing))
    even = min(best, key=lambda o: (o.imbalance_prefill or 0.0, o.routing))
    text = (
        f"{clean(top.routing, 30)} hits most, {percent(top.hit_tokens / top.prompt_tokens)}, with "
        f"{multiplier(top.imbalance_prefill)} of the mean on its busiest replica"
    )
    if even is not top:
        text += f"; {clean(even.routing, 30)} is most even, {multiplier(even.imbalance_prefill)}, and hits {percent(even.hit_tokens / even.prompt_tokens)}"
    return text


def _ttl_hits(curves: Curves, life_s: float) -> int:
    return next((p.hit_tokens for p in reversed(curves.ttl) if p.ttl_s <= life_s), 0)


def _hit_at(curves: Curves, blocks: float) -> float:
    """Return the hit rate of a capacity, straight between the points of the curve."""
    xs = [max(p.capacity_blocks, 1) for p in curves.capacity]
    return between(xs, [p.hit_tokens / curves.prompt_tokens for p in curves.capacity], blocks)


def _asked(buckets: Sequence[Bucket]) -> int:
    return sum(b.prompt_tokens for b in buckets)


def _rate(buckets: Sequence[Bucket]) -> float:
    return sum(b.hit_tokens for b in buckets) / _asked(buckets)


def _one(bucket: Bucket) -> float:
    return bucket.hit_tokens / bucket.prompt_tokens
