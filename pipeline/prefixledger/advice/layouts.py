"""What to change about prompts: text that varies at their head, and salts that keep equal content apart."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.ground import Outcome, run
from prefixledger.attribute.laid_out import LATE, lay_out_trials
from prefixledger.attribute.other_keys import without_salt
from prefixledger.errors import UsageError
from prefixledger.replay.layout import varying

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground
    from prefixledger.attribute.trial import Trials
    from prefixledger.replay.contents import Contents

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
    return _tried(ground, late, contents.namespace, _name(contents, late), LATE)


def one_salt(ground: Ground) -> LaidOut | str | None:
    """Replay the log as if prompts that differ in their salt alone shared their keys; None where none do."""
    contents = ground.log.contents
    if contents is None or not all(name.startswith("{") for name in contents.namespaces):
        return None
    without = [json.loads(name) for name in contents.namespaces]
    if len({one.get("cache_salt") for one in without}) < 2:  # noqa: PLR2004
        return None
    names = [without_salt(name) for name in contents.namespaces]
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    merged = np.asarray([number[name] for name in names], np.int64)[contents.namespace]
    return _tried(ground, np.zeros(contents.parent.size, np.bool_), merged, "", "one salt")


def _tried(
    ground: Ground,
    late: NDArray[np.bool_],
    namespace: NDArray[np.int64],
    varies: str,
    what: str,
) -> LaidOut | str:
    try:
        laid = lay_out_trials(ground.trials, late, namespace, what)
        control, after = (run(trials, ground.scenario) for trials in (laid.as_it_is, laid.changed))
        ground.tried += 2
        laid.check(ground.base.hit_tokens, control.hit_tokens)
    except UsageError as error:
        return error.message
    base = ground.base
    outcome = replace(
        after,
        hit_tokens=base.hit_tokens + after.hit_tokens - control.hit_tokens,
        written_tokens=base.written_tokens + after.written_tokens - control.written_tokens,
        amount=base.amount + after.amount - control.amount,
    )
    return LaidOut(laid.changed, outcome, laid.struck, varies)


def _name(contents: Contents, late: NDArray[np.bool_]) -> str:
    """Say what varies: of several kinds the one that changes most often names it."""
    values: dict[str, set[str]] = {}
    for piece in np.unique(contents.piece[late]).tolist():
        for mark in filter(None, contents.marks.get(piece, "").split(";")):
            kind, _, _, value = mark.split(":")
            values.setdefault(kind, set()).add(value)
    return next((_WORDS[kind] for kind in _WORDS if len(values.get(kind, ())) > 1), "text that varies")
