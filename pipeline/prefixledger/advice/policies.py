"""The policies that were chosen for the users of a hosted cache, each with the replay of that policy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.calls import LEAD_US, SPACING, with_calls
from prefixledger.advice.changes import applied
from prefixledger.advice.engines import Tried
from prefixledger.advice.hosted import KEEP_ALIVE, MERGE, NONE, PRE_WARM, SPLIT
from prefixledger.advice.words import money, named
from prefixledger.config.registry import PROFILES
from prefixledger.config.units import parse_duration_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.advice.ground import Ground, Outcome
    from prefixledger.advice.hosted import Study

_KINDS = {
    NONE: "caching_off",
    SPLIT: "split",
    PRE_WARM: "pre_warm",
    KEEP_ALIVE: "keep_alive",
    MERGE: "merge",
}


def policies(ground: Ground, study: Study) -> Iterator[Tried | str]:
    """Yield each policy for the users that it was chosen for.

    Args:
        ground: The log.
        study: A hosted pool under every policy.
    """
    changed = [kind for kind in dict.fromkeys(study.chosen) if kind != study.today]
    if not changed and len(study.outcomes) > 1:
        yield f"pool {study.pool.name}: no policy that was tried costs less than today's, {study.today}"
    for kind in changed:
        units = [number for number, chosen in enumerate(study.chosen) if chosen == kind]
        yield _policy(ground, study, kind, units)


def told_blankets(ground: Ground, study: Study) -> Iterator[str]:
    """Say what each policy comes to if all of a pool has it, on the days that judge."""
    for kind, outcome in study.outcomes.items():
        if kind == study.today or kind in study.calls:
            continue
        effect = ground.effect(outcome, study.mine)
        if effect.saved:
            verb = "costs" if effect.saved < 0 else "saves"
            amount = money(float(effect.saved), effect.currency)
            yield f"pool {study.pool.name}: {kind} for all of it {verb} {amount} against {study.today} on the days that judge"


def _policy(ground: Ground, study: Study, kind: str, units: list[int]) -> Tried:
    change = study.scenario_of(kind, units)
    values = [study.units.units[number].value for number in units]
    calls = {
        study.units.units[number].value: study.calls[kind][number] for number in units if kind in study.calls
    }
    made = 0
    if change is None:
        asked = [(study.units.units[number], *study.calls[kind][number]) for number in units]
        outcome, made = with_calls(ground, ground.scenario, asked, kind)
    else:
        outcome = ground.run(applied(ground.scenario, [change]))
    mine = study.mine & np.isin(study.units.code, units)
    whole = change is not None and not change.field
    who = (
        f"pool {study.pool.name}"
        if whole
        else f"{study.units.field}{'s' * (len(values) > 1)} {named(values)}"
    )
    return Tried(
        kind=_KINDS.get(kind, "ttl"),
        action=_action(study, kind, who, made),
        where=who,
        change=change,
        outcome=outcome,
        mine=mine,
        side_effects=tuple(_side_effects(ground, outcome, mine, kind, made)),
        pool=study.pool.name or "",
        shown_by=_shown_by(kind, whole=whole),
        calls=calls,
    )


def _action(study: Study, kind: str, who: str, made: int) -> str:
    profile, today = PROFILES[study.pool.cache.profile], study.today
    long, short = (profile.ttls[1] if len(profile.ttls) > 1 else ""), profile.ttls[0]
    ttl_us = parse_duration_us(study.pool.cache.ttl) or 0
    texts = {
        NONE: f"Turn prompt caching off for {who}: what it writes is read too rarely to pay for the writing.",
        SPLIT: f"Mark the shared head of the prompts of {who} for {long} and their end for {short}, in place of {today}.",
        PRE_WARM: f"Send the shared head of {who} alone, without output, {LEAD_US // 1_000_000} s before each batch: "
        f"{made:,} calls in this log.",
        KEEP_ALIVE: f"Touch the shared head of {who} with a call without output after {SPACING * ttl_us / 60e6:g} min in "
        f"which nobody asked for it, a few times in a row at most: {made:,} calls in this log.",
        MERGE: f"Let {who} share one cache: the same prompts are kept in several workspaces, keys or regions.",
    }
    return texts.get(kind, f"Give the cached prompts of {who} a time to live of {kind} in place of {today}.")


def _shown_by(kind: str, *, whole: bool) -> str:
    if kind in (PRE_WARM, KEEP_ALIVE):
        return "the same log with these calls in it"
    if whole and kind not in (NONE, SPLIT, MERGE):
        return f"whatif --ttl {kind}"
    return "replay --scenario with the scenario beside this advice"


def _side_effects(
    ground: Ground, outcome: Outcome, mine: np.ndarray[tuple[int], np.dtype[np.bool_]], kind: str, made: int
) -> Iterator[str]:
    before, after = (int(one.written_tokens[mine].sum()) for one in (ground.base, outcome))
    if kind == NONE:
        yield "Time to the first token: every prompt is computed whole."
    yield f"Writes: {after:,} tokens in place of {before:,} over the whole log."
    if made:
        yield f"Calls: {made:,} more, which count against limits of requests; their price is in the figure."
    if kind == MERGE:
        yield "Isolation: who shares a cache can tell by the time to the first token what others have sent."
