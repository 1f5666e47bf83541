"""Tries changes on a log, keeps those that pay, and replays all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from prefixledger.advice.calls import with_calls
from prefixledger.advice.changes import applied
from prefixledger.advice.decisions import decide
from prefixledger.advice.engines import Tried, try_engine
from prefixledger.advice.ground import Ground, open_ground, run
from prefixledger.advice.hosted import study
from prefixledger.advice.layouts import LaidOut, late_varying, one_salt
from prefixledger.advice.parts import Advice, Effect, Recommendation
from prefixledger.advice.policies import policies, told_blankets
from prefixledger.advice.units import find_units
from prefixledger.advice.words import confidence, moment, verify
from prefixledger.attribute.policy import doubts
from prefixledger.attribute.trial import open_trials
from prefixledger.config.events import in_order
from prefixledger.config.scenario import dump
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prefixledger.advice.hosted import Study
    from prefixledger.attribute.trial import Trials
    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.workspace import Workspace


def advise(
    workspace: Workspace,
    scenario: Scenario,
    events: Sequence[Event] = (),
    tell: Callable[[str], None] = lambda _: None,
    engine: Engine | None = None,
) -> Advice:
    """Advise on an indexed workspace.

    Args:
        workspace: Where requests and index are.
        scenario: How the service is run today.
        events: From event files.
        tell: Called with a few words whenever a step begins.
        engine: What replays changes beside each other; None: this process, one after the other.

    Returns:
        Nothing but a note where no change can be tried, as on a log of usage alone.
    """
    whole = scenario.model_copy(update={"event": in_order((*scenario.event, *events))})
    try:
        trials = open_trials(workspace, whole)
        return advise_on(trials, whole, tell, engine)
    except UsageError as error:
        return Advice(notes=(f"Nothing could be tried: {error.message}.",))


def advise_on(
    trials: Trials,
    scenario: Scenario,
    tell: Callable[[str], None] = lambda _: None,
    engine: Engine | None = None,
) -> Advice:
    """Advise on a log that is open; see ``advise``."""
    ground = open_ground(trials, scenario, engine)
    tried: list[Tried] = []
    notes: list[str] = []
    tell("try another layout of prompts")
    for laid in _layouts(ground):
        if isinstance(laid, str):
            notes.append(laid)
        else:
            tried.append(laid)
    studies: list[Study] = []
    for pool, tally, mine in ground.tallies():
        tell(f"try changes of pool {pool.name}")
        if not pool.hosted:
            found = list(try_engine(ground, pool, tally, mine))
        else:
            studies.append(study(ground, pool, tally, mine))
            found = [*studies[-1].refused, *policies(ground, studies[-1])]
            notes += told_blankets(ground, studies[-1])
        notes += [one for one in found if isinstance(one, str)]
        tried += [one for one in found if isinstance(one, Tried)]
    judge = _judge(ground)
    kept = [(one, advice) for one in tried if (advice := judge.recommended(one)) is not None]
    notes += [note for one in tried if (note := judge.refused(one))]
    kept, spare = _without_rivals(kept)
    notes += spare
    kept.sort(key=lambda pair: (-float(pair[1].effect.saved or 0), -pair[1].effect.tokens, pair[1].action))
    tell("replay all of it at once")
    together = _together(ground, [one for one, _ in kept]) if len(kept) > 1 else None
    return Advice(
        recommendations=tuple(advice for _, advice in kept),
        together=together,
        decisions=tuple(row for one in studies for row in decide(ground, one)),
        tried=ground.tried,
        fitted_to_us=ground.fitted_to_us,
        notes=tuple(f"{note[:1].upper()}{note[1:]}." for note in dict.fromkeys(notes)),
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """Turns what was tried into advice.

    Attributes:
        ground: The log.
        billed: Whether it says what any of its requests read.
        doubts: Where the replay does not reproduce that.
    """

    ground: Ground
    billed: bool
    doubts: tuple[str, ...]

    def recommended(self, tried: Tried) -> Recommendation | None:
        """Return the advice, None where it does not pay."""
        ground = self.ground
        everything = np.ones_like(ground.judged)
        in_full = ground.effect(tried.outcome, tried.mine, judged=everything)
        effect = ground.effect(tried.outcome, tried.mine) if tried.chosen else in_full
        if not effect.pays:
            return None
        sure, because = confidence(
            effect,
            chosen=tried.chosen,
            apart=ground.fitted_to_us is not None,
            billed=self.billed,
            doubts=self.doubts,
        )
        scenario = ""
        if tried.change is not None:
            scenario = dump(applied(ground.scenario, [tried.change]))
        predicted, within = self._predicted(tried, effect)
        return Recommendation(
            kind=tried.kind,
            action=tried.action,
            where=tried.where,
            effect=effect,
            in_full=in_full,
            shown_by=tried.shown_by,
            side_effects=tried.side_effects,
            confidence=sure,
            because=because,
            verify=verify(effect, tried.where),
            scenario=scenario,
            predicted=predicted,
            predicted_within=within,
        )

    def _predicted(self, tried: Tried, effect: Effect) -> tuple[Decimal | None, Decimal | None]:
        """Return what the days that chose promise for those that judge, and half the length of its interval."""
        if not tried.chosen or self.ground.fitted_to_us is None or effect.before is None:
            return None, None
        promise = self.ground.effect(tried.outcome, tried.mine, judged=self.ground.fitted)
        if not promise.before or promise.saved is None:
            return None, None
        assert promise.saved_low is not None
        assert promise.saved_high is not None
        scale = float(effect.before) / float(promise.before)
        half = float(promise.saved_high - promise.saved_low) / 2 * scale
        within = max(half, self.ground.day_to_day(tried.outcome, tried.mine) * float(effect.before))
        return Decimal(f"{float(promise.saved) * scale:.9g}"), Decimal(f"{within:.9g}")

    def refused(self, tried: Tried) -> str | None:
        """Say that what was tried does not pay; None where it does."""
        everything = np.ones_like(self.ground.judged)
        effect = self.ground.effect(tried.outcome, tried.mine, judged=None if tried.chosen else everything)
        if effect.pays:
            return None
        return f"{tried.where}: the best {tried.kind.replace('_', ' ')} that was tried is within the noise, or loses"


def _judge(ground: Ground) -> _Judge:
    requests = ground.trials.requests
    billed = bool(pc.any(pc.equal(requests["usage_state"], "present")).as_py())
    return _Judge(ground, billed, doubts(requests, ground.base.hit_tokens, ground.base.written_tokens))


def _layouts(ground: Ground) -> Iterator[Tried | str]:
    late = late_varying(ground)
    if isinstance(late, LaidOut):
        ground.struck = late.struck
        at_us = ground.log.lookups.started_us[late.struck]
        last_us = int(ground.log.lookups.started_us[-1])
        over = f", which prompts from {moment(int(at_us[0]))} to {moment(int(at_us[-1]))} had"
        gone = int(at_us[-1]) < last_us - (last_us - int(at_us[0])) // 10
        yield Tried(
            kind="layout",
            action=f"{'Keep' if gone else 'Move'} {late.varies} out of the head of the prompt{over}: write it behind what "
            "stays the same, or into the last message.",
            where=f"{int(late.struck.sum()):,} prompts that begin with {late.varies}",
            change=None,
            outcome=late.outcome,
            mine=late.struck,
            side_effects=(
                "Wasted writes: the last block of a turn ends in what varies, and the next turn does not read it.",
            ),
            pool="",
            chosen=False,  # what varies is proven by the log; nothing was selected
            shown_by="the same log with these pieces behind all others of their prompts, keys computed anew",
            laid=late,
        )
    elif late is not None:
        yield late
    salt = one_salt(ground)
    if isinstance(salt, LaidOut):
        yield Tried(
            kind="salt",
            action="Use one cache salt where tenants may share their content.",
            where="all prompts that differ in their salt alone",
            change=None,
            outcome=salt.outcome,
            mine=np.ones_like(ground.judged),
            side_effects=(
                "Isolation: who shares a salt can tell by the time to the first token what others have sent.",
            ),
            pool="",
            chosen=False,
            shown_by="the same log with one salt for all, keys computed anew",
            laid=salt,
        )
    elif salt is not None:
        yield salt


def _without_rivals(
    kept: list[tuple[Tried, Recommendation]],
) -> tuple[list[tuple[Tried, Recommendation]], list[str]]:
    """Of more memory and a lower tier of one pool leave the better one; name the other."""
    best: dict[str, int] = {}
    for place, (one, _) in enumerate(kept):
        if one.kind in ("capacity", "tier") and (
            one.pool not in best or kept[best[one.pool]][1].effect.tokens < kept[place][1].effect.tokens
        ):
            best[one.pool] = place
    left, notes = [], []
    for place, (one, advice) in enumerate(kept):
        if one.kind in ("capacity", "tier") and best[one.pool] != place:
            notes.append(
                f"in place of that: {advice.action[:1].lower()}{advice.action[1:-1]}, "
                f"{advice.effect.tokens:,} more tokens read from cache"
            )
        else:
            left.append((one, advice))
    return left, notes


def _together(ground: Ground, tried: Sequence[Tried]) -> Effect:
    """Replay all changes at once, over the whole log."""
    changes = [one.change for one in tried if one.change is not None]
    scenario = applied(ground.scenario, changes)
    laid = next((one.laid for one in tried if one.laid is not None), None)
    on = ground if laid is None else replace(ground, trials=laid.trials)
    asked = []
    for one in tried:
        if one.calls:
            _, tally, mine = next(found for found in ground.tallies() if found[0].name == one.pool)
            units = {unit.value: unit for unit in find_units(on, mine, tally.plan.block_size).units}
            asked += [(units[value], *call) for value, call in one.calls.items() if units[value].head_blocks]
    ground.tried += 1
    if asked:
        outcome, _ = with_calls(on, scenario, asked, "call")
    else:
        outcome = run(on.trials, scenario)
    return ground.effect(outcome, np.ones_like(ground.judged), judged=np.ones_like(ground.judged))
