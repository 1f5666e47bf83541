"""Explains in words why one routing hits more than another, and what that does to the busiest replica."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from prefixledger.report.glossary import cause_name
from prefixledger.report.load_parts import RoutingOption
from prefixledger.report.numbers import amount, clean, percent, points
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prefixledger.attribute.cell import Cell

_YARDSTICKS = ("random", "round-robin", "least-loaded")
"""Routings that know nothing of prefixes, the plainest first: what the others are held against."""

_MELTING = 1.5
"""From 1.5 times the mean on the busiest replica carries too much, if another routing spreads the same traffic better."""

_WORSE = 1.25
"""A load is worse than another from a quarter more on."""

_SAME = 0.0005
"""Below 0.05 points two rates print as the same."""

_CAUSES_TOLD = 2
_SLIGHTLY = 0.05


def options_of(cells: Sequence[Cell]) -> tuple[RoutingOption, ...]:
    """Return cells of a grid as routings to compare."""
    return tuple(_option(cell) for cell in cells)


def _option(cell: Cell) -> RoutingOption:
    totals: Mapping[str, float | int | None] = cell.totals
    pools: dict[int, list[int]] = {}
    for one in cell.replicas:
        pools.setdefault(one["pool"], []).append(one["requests"])
    # Only replicas of one pool share a load; of several pools the one with the largest share on one of them is told.
    requests = max(pools.values(), key=lambda r: (len(r) > 1, max(r) / sum(r)), default=[])
    return RoutingOption(
        routing=str(cell.axes["routing"]),
        lookups=int(totals["requests"] or 0),
        prompt_tokens=int(totals["prompt_tokens"] or 0),
        hit_tokens=int(totals["hit_tokens"] or 0),
        largest_share=max(requests) / sum(requests) if requests else 0.0,
        replicas=len(requests),
        misses=cell.misses["by_cause"],
        busiest_prefill_tokens=int(totals["busiest_prefill_tokens"] or 0),
        imbalance_requests=totals["imbalance_requests"],
        imbalance_prefill=totals["imbalance_prefill"],
        seeds=int(totals["seeds"] or 1),
        rate_low=totals["token_hit_rate_low"],
        rate_high=totals["token_hit_rate_high"],
    )


def uneven(option: RoutingOption) -> float:
    """Return the busiest replica over the mean, by requests or by prefill, whichever is worse."""
    return max(option.imbalance_requests or 1.0, option.imbalance_prefill or 1.0)


def melting(options: Sequence[RoutingOption]) -> tuple[bool, ...]:
    """Tell which routings load one replica far more than the others where another routing of the pool does not."""
    least: dict[str, float] = {}
    for option in options:
        least[option.pool] = min(uneven(option), least.get(option.pool, uneven(option)))
    return tuple(uneven(o) >= max(_MELTING, _WORSE * least[o.pool]) for o in options)


def ranking(options: Sequence[RoutingOption]) -> tuple[str, ...]:
    """Return one sentence per routing, best hit rate first, and then what the winner costs.

    Args:
        options: The same lookups under several routings.

    Returns:
        Nothing where there is nothing to compare.
    """
    pools = list(dict.fromkeys(o.pool for o in options))
    told = [(pool, _of_pool([o for o in options if o.pool == pool and o.prompt_tokens])) for pool in pools]
    if len(pools) == 1:
        return told[0][1]
    return tuple(f"Pool {clean(pool)}: {text}" for pool, texts in told for text in texts)


def _of_pool(tried: Sequence[RoutingOption]) -> tuple[str, ...]:
    if len(tried) < 2:  # noqa: PLR2004  # nothing to compare
        return ()
    names = dict(zip(map(id, tried), _names(tried), strict=True))
    melts = dict(zip(map(id, tried), melting(tried), strict=True))
    ranked = sorted(tried, key=lambda o: (-_rate(o), names[id(o)]))
    plain = _yardstick(ranked)
    found = []
    for place, option in enumerate(ranked, start=1):
        said = (
            f"{_load(option)}: what the others are held against"
            if option is plain
            else _against(option, plain, names[id(plain)])
        )
        melted = "; it melts a replica" if melts[id(option)] else ""
        found.append(
            f"{place}. {names[id(option)]} hits {percent(_rate(option))}{_range(option)}, {said}{melted}."
        )
    return (*found, *_close(ranked, names), *_price(ranked, names, melts))


def _names(options: Sequence[RoutingOption]) -> list[str]:
    """Name routings; of two with one routing each by its scenario or replicas too."""
    times = Counter(o.routing for o in options)
    return [
        clean(o.routing)
        if times[o.routing] == 1
        else f"{clean(o.routing)} ({clean(o.scenario) if o.scenario else f'{o.replicas} replicas'})"
        for o in options
    ]


def _rate(option: RoutingOption) -> float:
    return option.hit_tokens / option.prompt_tokens


def _range(option: RoutingOption) -> str:
    if option.spread is None:
        return ""
    return f" ({option.spread.told})"


def _yardstick(ranked: Sequence[RoutingOption]) -> RoutingOption:
    for name in _YARDSTICKS:
        found = next((o for o in ranked if o.routing == name), None)
        if found is not None:
            return found
    return ranked[-1]


def _load(option: RoutingOption) -> str:
    requests, prefill = option.imbalance_requests, option.imbalance_prefill
    if requests is None:
        return "with no load to compare"
    told = f"its busiest replica has {requests:.2f} times the mean of the requests"
    return told if prefill is None else f"{told} and {prefill:.2f} times the mean of the prefill"


def _against(option: RoutingOption, plain: RoutingOption, name: str) -> str:
    change = _rate(option) - _rate(plain)
    if abs(change) < _SAME:
        return f"as much as {name}; {_load(option)}"
    more = change > 0
    moved = {
        cause: plain.misses.get(cause, 0) / plain.prompt_tokens
        - option.misses.get(cause, 0) / option.prompt_tokens
        for cause in CAUSES
    }
    with_it = _told({c: gain for c, gain in moved.items() if gain >= _SAME})
    against_it = _told({c: -gain for c, gain in moved.items() if gain <= -_SAME})
    saved, added = f"takes away {with_it} misses", f"adds {against_it} misses"
    why = [text for text, known in ((saved, with_it), (added, against_it)) if known]
    if not more:
        why.reverse()
    because = f", because it {' but '.join(why)}" if why else ""
    price = (
        "at the price of an uneven load" if uneven(option) >= _WORSE * uneven(plain) else "with an even load"
    )
    if uneven(option) >= _MELTING and uneven(option) < _WORSE * uneven(plain):
        price = f"with a load no more uneven than that of {name}"
    return f"{points(change)} {'more' if more else 'less'} than {name}{because}, {price}: {_load(option)}"


def _told(gains: Mapping[str, float]) -> str:
    largest = sorted(gains.items(), key=lambda item: (-item[1], CAUSES.index(item[0])))[:_CAUSES_TOLD]
    return " and ".join(f"{points(gain)} of {cause_name(cause)}" for cause, gain in largest)


def _close(ranked: Sequence[RoutingOption], names: Mapping[int, str]) -> Iterator[str]:
    """Name neighbours that other draws would rank the other way round."""
    for better, worse in pairwise(ranked):
        low = better.rate_low if better.rate_low is not None else _rate(better)
        high = worse.rate_high if worse.rate_high is not None else _rate(worse)
        drawn = better.spread is not None or worse.spread is not None
        if drawn and low <= high:
            yield (
                f"{names[id(better)]} and {names[id(worse)]} cannot be told apart: their hit rates overlap from seed to seed."
            )


def _price(
    ranked: Sequence[RoutingOption], names: Mapping[int, str], melts: Mapping[int, bool]
) -> Iterator[str]:
    """Say what the best hit rate does to the busiest replica, and what is best without that."""
    best = ranked[0]
    if not melts[id(best)]:
        return
    even = min(ranked, key=lambda o: (uneven(o), names[id(o)]))
    most, its = best.busiest_prefill_tokens, even.busiest_prefill_tokens
    work = ""
    if most and its:
        if most > its * (1 + _SLIGHTLY):
            work = (
                f" and computes {amount(most)} tokens, {most / its:.2f} times as many as the busiest under {names[id(even)]}: "
                "that replica is full first, whatever the fleet hits"
            )
        elif most < its * (1 - _SLIGHTLY):
            work = (
                f", though it computes {amount(most)} tokens, fewer than the {amount(its)} of the busiest under "
                f"{names[id(even)]}, because it hits more: decoding, not prefill, is what it has too much of"
            )
    yield (
        f"The best hit rate comes from melting a replica: under {names[id(best)]} one of {best.replicas} replicas is asked "
        f"{percent(best.largest_share)} of the requests{work}."
    )
    sparing = next((o for o in ranked if not melts[id(o)]), None)
    if sparing is not None:
        yield (
            f"Of those that melt none, {names[id(sparing)]} hits most: {percent(_rate(sparing))}, "
            f"{points(_rate(best) - _rate(sparing))} less than {names[id(best)]}."
        )
