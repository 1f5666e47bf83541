"""What to change about prompts: text that varies at their head, and salts that keep equal content apart."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.ground import Outcome, run
from prefixledger.attribute.trial import Trials
from prefixledger.replay.layout import laid_out, lay_out, varying
from prefixledger.replay.prepared import prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground
    from prefixledger.replay.contents import Contents

MOST_ERROR = 0.005
"""Of the prompt tokens may a replay of prompts that are laid out as they are differ from that of their keys."""
LEAST_KNOWN = 0.95
"""Of the lookups must have contents that are known."""
_WORDS = {
    "time": "the time of day",
    "uuid": "a UUID",
    "random": "a random string",
    "number": "a number",
    "date": "the date",
}
"""What may change from call to call, the most often first."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A log with its prompts laid out anew.

    Attributes:
        trials: The log.
        outcome: What it comes to under the scenario of today, less what laying it out as it is would change.
        struck: bool[m], lookups in whose prompts something was moved.
        varies: What varies.
    """

    trials: Trials
    outcome: Outcome
    struck: NDArray[np.bool_]
    varies: str


def late_varying(ground: Ground) -> LaidOut | str | None:
    """Replay the log with what varies from call to call at the end of prompts; a note where that cannot be tried, None where nothing varies."""
    contents = ground.log.contents
    if contents is None:
        return None
    late = varying(contents)
    if not late.any():
        return None
    return _tried(
        ground, contents, late, contents.namespace, _name(contents, late), "what varies at their end"
    )


def one_salt(ground: Ground) -> LaidOut | str | None:
    """Replay the log as if prompts that differ in their salt alone shared their keys; None where none do."""
    contents = ground.log.contents
    if contents is None or not all(name.startswith("{") for name in contents.namespaces):
        return None
    without = [json.loads(name) for name in contents.namespaces]
    if len({one.get("cache_salt") for one in without}) < 2:  # noqa: PLR2004
        return None
    names = [json.dumps({**one, "cache_salt": None}, sort_keys=True) for one in without]
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    merged = np.asarray([number[name] for name in names], np.int64)[contents.namespace]
    return _tried(ground, contents, np.zeros(contents.parent.size, np.bool_), merged, "", "one salt")


def _tried(
    ground: Ground,
    contents: Contents,
    late: NDArray[np.bool_],
    namespace: NDArray[np.int64],
    varies: str,
    what: str,
) -> LaidOut | str:
    mine = contents.node >= 0
    if mine.mean() < LEAST_KNOWN:
        return f"prompts with {what} could not be tried: the log says of {100 * mine.mean():.0f} % what they are made of"
    nothing = lay_out(contents, np.zeros(contents.parent.size, np.bool_))
    as_it_is = laid_out(ground.log, nothing, contents.namespace, mine)
    layout = lay_out(contents, late)
    changed = laid_out(ground.log, layout, namespace, mine)
    if as_it_is is None or changed is None:
        return f"prompts with {what} could not be tried: what they are made of is counted in other tokens than they are"
    old = ground.trials.prepared
    outcomes = []
    for log in (as_it_is, changed):
        trials = Trials(prepared(log, old.facts, old.events), ground.trials.noise)
        outcomes.append(run(trials, ground.scenario))
        ground.tried += 1
    control, after = outcomes
    error = np.abs(control.hit_tokens - ground.base.hit_tokens).sum()
    asked = ground.log.lookups.prompt_tokens.sum()
    if error > MOST_ERROR * asked:
        return (
            f"prompts with {what} could not be tried: laid out as they are, their hits differ from those of their keys by "
            f"{100 * error / asked:.1f} % of the tokens"
        )
    base = ground.base
    outcome = replace(
        after,
        hit_tokens=base.hit_tokens + after.hit_tokens - control.hit_tokens,
        written_tokens=base.written_tokens + after.written_tokens - control.written_tokens,
        amount=base.amount + after.amount - control.amount,
    )
    struck = mine & (layout.late_tokens[np.maximum(contents.node, 0)] > 0)
    return LaidOut(trials, outcome, struck, varies)


def _name(contents: Contents, late: NDArray[np.bool_]) -> str:
    """Say what varies: of several kinds the one that changes most often names it."""
    values: dict[str, set[str]] = {}
    for piece in np.unique(contents.piece[late]).tolist():
        for mark in filter(None, contents.marks.get(piece, "").split(";")):
            kind, _, _, value = mark.split(":")
            values.setdefault(kind, set()).add(value)
    return next((_WORDS[kind] for kind in _WORDS if len(values.get(kind, ())) > 1), "text that varies")
