"""What to do about each prefix of a hosted cache: not to cache it, for how long, where to mark it, and when to touch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.calls import LEAD_US, burst_starts, calls_after, kept_alive, with_calls
from prefixledger.advice.changes import Change, applied, marks
from prefixledger.advice.units import find_units
from prefixledger.config.registry import PROFILES
from prefixledger.errors import UsageError
from prefixledger.replay.routers.base import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground, Outcome
    from prefixledger.advice.units import Units
    from prefixledger.config.models import Pool
    from prefixledger.economics.rates import RateCard
    from prefixledger.replay.tally import PoolTally

NONE, SPLIT, PRE_WARM, KEEP_ALIVE, MERGE = "none", "split", "pre-warm", "keep-alive", "merge"
LEAST_GAIN = 0.02
"""Of what a unit pays must a policy save to be preferred to that of today."""
LEAST_LOOKUPS = 5
"""On the days that choose; of fewer nothing can be chosen."""
_RENTED = ("15m", "1h", "6h")
_LEAST_BRIDGED = 0.02
"""Share of gaps that calls must bridge to be worth a replay."""


@dataclass(frozen=True, slots=True)
class Study:
    """A hosted pool under every policy that it could have.

    Attributes:
        pool: The pool.
        tally: What it comes to today.
        mine: bool[m], its lookups.
        units: Who uses it.
        today: The policy of today.
        outcomes: What each policy comes to if all of the pool has it; that of today among them.
        calls: For each policy with calls and each unit number the lookups and shifts of its calls.
        chosen: Best policy of each unit on the days that choose.
        whole: float64[policies, units], what each unit pays over the whole log, in the order of ``outcomes``.
        refused: What could not be replayed.
    """

    pool: Pool
    tally: PoolTally
    mine: NDArray[np.bool_]
    units: Units
    today: str
    outcomes: dict[str, Outcome]
    calls: dict[str, dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]]
    chosen: tuple[str, ...]
    whole: NDArray[np.float64]
    refused: tuple[str, ...]

    def scenario_of(self, kind: str, units: list[int]) -> Change | None:
        """Return the change that gives a policy to some units; None where the marks stay as they are."""
        if kind in (PRE_WARM, KEEP_ALIVE):
            return None
        everyone = len(units) == len(self.units.units) and (self.units.code[self.mine] >= 0).all()
        field = "" if everyone or not self.units.field else self.units.field
        fleet = (("routing", "round-robin"), ("replicas", 1)) if kind == MERGE else ()
        cache = () if kind == MERGE else tuple(marks(self.pool.cache.profile, kind).items())
        values = tuple(self.units.units[number].value for number in units) if field else ()
        return Change(self.pool.name or "", cache=cache, fleet=fleet, field=field, values=values)


def study(ground: Ground, pool: Pool, tally: PoolTally, mine: NDArray[np.bool_]) -> Study:
    """Replay a hosted pool under every policy, and choose one for each of its users.

    Entries of different users never meet, so that what all of the pool comes to under one policy says what each user does.

    Args:
        ground: The log.
        pool: The pool.
        tally: What it comes to today.
        mine: bool[m], its lookups.
    """
    units = find_units(ground, mine, tally.plan.block_size)
    today = "as sent" if pool.cache.as_sent else _today(pool)
    outcomes, refused = {today: ground.base}, []
    changes = {}
    for kind in (kind for kind in _kinds(pool, tally, ground) if kind != today):
        fleet = (("routing", "round-robin"), ("replicas", 1)) if kind == MERGE else ()
        cache = () if kind == MERGE else tuple(marks(pool.cache.profile, kind).items())
        changes[kind] = Change(pool.name or "", cache=cache, fleet=fleet)
    found = ground.run_all([applied(ground.scenario, [change]) for change in changes.values()])
    for kind, outcome in zip(changes, found, strict=True):
        if isinstance(outcome, UsageError):
            refused.append(f"pool {pool.name}: {kind} could not be replayed: {outcome.message}")
        else:
            outcomes[kind] = outcome
    calls = _calls(ground, units, pool)
    for kind, by_unit in calls.items():
        outcomes[kind], _ = with_calls(
            ground, ground.scenario, [(units.units[unit], *call) for unit, call in by_unit.items()], kind
        )
    chosen = _choose(ground, units, today, outcomes)
    whole = np.stack([units.sums(outcome.amount, mine) for outcome in outcomes.values()])
    return Study(pool, tally, mine, units, today, outcomes, calls, chosen, whole, tuple(refused))


def card_of(ground: Ground, lookup: int) -> RateCard:
    """Return the prices that a lookup pays."""
    askers = ground.base.trial.askers
    return askers.cards[askers.groups[int(askers.group[lookup])][1]].card


def _today(pool: Pool) -> str:
    names = {"off": NONE, "long-heads": SPLIT}
    return names.get(pool.cache.mark_ttls or "all", pool.cache.ttl)


def _kinds(pool: Pool, tally: PoolTally, ground: Ground) -> Iterator[str]:
    """Yield the policies that can be had."""
    profile = PROFILES[pool.cache.profile]
    if profile.any_ttl and profile.mode != "explicit":
        return  # it caches unasked, and promises nothing that could be chosen
    cards = [card_of(ground, int(lookup)) for lookup in tally.lookup[:1]]
    if any(card.write > card.base or card.storage_hour for card in cards):
        yield NONE
    yield from _RENTED if profile.any_ttl else profile.ttls
    if len(profile.ttls) > 1 and any(card.write_1h > card.write for card in cards):
        yield SPLIT
    # Further caches that load spills into are the service's own: nobody can merge them, and one cache would spill more.
    branch = tally.plan.branch
    spilled = branch is not None and bool((branch == BRANCHES.index("overflow")).any())
    if len(tally.plan.fleet.replicas) > 1 and not spilled:
        yield MERGE


def _calls(
    ground: Ground, units: Units, pool: Pool
) -> dict[str, dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Return the calls of those users whose uses come in bursts, or between a lifetime and a few of them."""
    ttl_us = pool.cache.ttl_us
    if ttl_us is None or PROFILES[pool.cache.profile].any_ttl:
        return {}
    found: dict[str, dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]] = {PRE_WARM: {}, KEEP_ALIVE: {}}
    started_us = ground.log.lookups.started_us
    missed = ground.base.hit_tokens
    for number, unit in enumerate(units.units):
        if unit.head_blocks < 1 or unit.lookups.size < LEAST_LOOKUPS:
            continue
        # Written again although it was asked for just before: whoever wrote it had no first token yet.
        again = (unit.gaps_us <= LEAD_US) & (missed[unit.lookups[1:]] < unit.head_tokens)
        starts = burst_starts(unit, started_us, ttl_us)
        if starts.size and again.sum() > starts.size:
            found[PRE_WARM][number] = (starts, np.full(starts.size, -LEAD_US))
        card = card_of(ground, int(unit.lookups[0]))
        w, r = float(card.write_for(ttl_us) / card.base), float(card.read / card.base)
        fitted = ground.fitted[unit.lookups[:-1]]
        count = calls_after(unit.gaps_us[fitted], ttl_us, w, r)
        bridged = unit.gaps_us > ttl_us
        if count and bridged.mean() > _LEAST_BRIDGED:
            found[KEEP_ALIVE][number] = kept_alive(unit, count, ttl_us)
    return {kind: by_unit for kind, by_unit in found.items() if by_unit}


def _choose(ground: Ground, units: Units, today: str, outcomes: dict[str, Outcome]) -> tuple[str, ...]:
    """Return for each unit the policy that costs least on the days that choose; that of today unless it saves enough."""
    kinds = list(outcomes)
    paid = np.stack([units.sums(outcome.amount, ground.fitted) for outcome in outcomes.values()])
    called = np.isin(kinds, (PRE_WARM, KEEP_ALIVE))
    # Calls have to be made by somebody: they must beat what needs none by as much as that must beat today's policy.
    paid[called] /= 1 - LEAST_GAIN
    best = paid.argmin(axis=0)
    now = paid[kinds.index(today)]
    enough = paid.min(axis=0) < now * (1 - LEAST_GAIN)
    seen = [int(ground.fitted[unit.lookups].sum()) >= LEAST_LOOKUPS for unit in units.units]
    return tuple(
        kinds[int(best[number])] if enough[number] and seen[number] else today
        for number in range(len(units.units))
    )
