"""Says when the load is uneven, and when the best hit rate comes with the worst load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.numbers import clean, percent

if TYPE_CHECKING:
    from prefixledger.report.load_parts import RoutingOption
    from prefixledger.report.parts import Replica
    from prefixledger.report.view import ReportView

_UNEVEN = 1.5
"""From 1.5 times an even share of the prompt tokens a replica is called the busy one."""

_BETTER = 0.02
"""A hit rate is better than that of the others from 2 points on."""


def load_notes(view: ReportView) -> tuple[str, ...]:
    """Return what must stand beside the hit rates, one sentence each."""
    found = [_of_routing(view.routing)]
    found += [_of_pool(replicas) for replicas in peers(view)]
    return tuple(text for text in found if text)


def peers(view: ReportView) -> tuple[tuple[Replica, ...], ...]:
    """Return the replicas of every pool that has several: only these share a load, the busiest first."""
    pools: dict[int | None, list[Replica]] = {}
    for replica in view.replicas:
        if replica.prompt_tokens:
            pools.setdefault(replica.pool, []).append(replica)
    return tuple(
        tuple(sorted(p, key=lambda r: (-r.prompt_tokens, r.name))) for p in pools.values() if len(p) > 1
    )


def _of_routing(options: tuple[RoutingOption, ...]) -> str:
    tried = [o for o in options if o.prompt_tokens]
    if len(tried) < 2:  # noqa: PLR2004  # nothing to compare
        return ""
    best = max(tried, key=lambda o: (o.hit_tokens / o.prompt_tokens, o.routing))
    worst = max(tried, key=lambda o: (o.largest_share, o.routing))
    if best is not worst:
        return ""
    return (
        f"The best hit rate comes with the worst load: under {clean(best.routing)} one of {best.replicas} replicas takes "
        f"{percent(best.largest_share)} of the requests."
    )


def _of_pool(replicas: tuple[Replica, ...]) -> str:
    busiest, others = replicas[0], replicas[1:]
    asked = sum(r.prompt_tokens for r in replicas)
    excess = busiest.prompt_tokens * len(replicas) / asked
    if excess < _UNEVEN:
        return ""
    rest = sum(r.hit_tokens for r in others) / sum(r.prompt_tokens for r in others)
    own, name = busiest.hit_tokens / busiest.prompt_tokens, clean(busiest.name, 40)
    load = f"{percent(busiest.prompt_tokens / asked)} of the prompt tokens, {excess:.1f} times an even share"
    if own - rest >= _BETTER:
        return (
            f"The best hit rate comes with the worst load: {name} hits {percent(own)}, the others {percent(rest)}, and it "
            f"is asked for {load}."
        )
    return f"The load is uneven: {name} is asked for {load}."
