"""The rules of ``--fail-on``: what a report must not say, for schedules and pipelines."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from prefixledger.errors import UsageError
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*([a-z][a-z_0-9-]*)\s*(?:(<=|>=|<|>)\s*([0-9]*\.?[0-9]+)\s*(%?)\s*)?")
_SILENT = "reads-zero-writes-climb"
_BARE = {"gap-to-ideal": (">", 0.05), "rejects": (">", 0.0)}
"""Rules that stand without a number, and what they then mean: within 5 points of what is reachable, no reject at all."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must not be.

    Attributes:
        text: As the user wrote it.
        name: Name of a number of the report, or ``reads-zero-writes-climb``.
        relation: One of ``< <= > >=``; empty for a rule without a number.
        bound: The number; a share is between 0 and 1.
    """

    text: str
    name: str
    relation: str = ""
    bound: float = 0.0


def rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Read rules before any work is done.

    Args:
        texts: ``NAME<NUMBER``, ``NAME>NUMBER%`` …, or one of the names that stand alone.

    Raises:
        UsageError: One is no rule, or there is no such number.
    """
    return tuple(_rule(text) for text in texts)


def crossed(asked: Sequence[Rule], twin: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each rule that a report crosses.

    A number that the report does not know crosses its rule: a rule that cannot be checked is not kept.

    Args:
        asked: The rules.
        twin: The JSON twin of the report.
    """
    return tuple(sentence for rule in asked for sentence in _crossed(rule, twin))


def names() -> tuple[str, ...]:
    """Return every name that a rule may begin with."""
    return (*_NUMBERS, _SILENT)


def _rule(text: str) -> Rule:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is no rule", hint="write --fail-on 'token_hit_rate<0.8' or 'evicted_share>5%'"
        )
    name, relation, number, percent = found.groups()
    if name not in names():
        near = get_close_matches(name, names(), n=3) or names()
        raise UsageError(f"a report has no number {name!r}", hint=f"there is {', '.join(near)}")
    if name == _SILENT:
        if relation:
            raise UsageError(f"{name} takes no number", hint=f"write --fail-on {name}")
        return Rule(text.strip(), name)
    if relation is None:
        if name not in _BARE:
            raise UsageError(f"{name} needs a number", hint=f"write --fail-on '{name}<0.8'")
        return Rule(text.strip(), name, *_BARE[name])
    return Rule(text.strip(), name, relation, float(number) / (100 if percent else 1))


def _crossed(rule: Rule, twin: Mapping[str, Any]) -> tuple[str, ...]:
    if rule.name == _SILENT:
        return tuple(
            f"{rule.name}: model {row['model'] or '(not said)'}, tenant {row['tenant'] or '(not said)'} wrote "
            f"{row['written_tokens']:,} tokens in {row['requests']:,} requests on {row['day'][:10]} and read none"
            for row in twin["silent_writes"]
        )
    value = _NUMBERS[rule.name](twin)
    if value is None:
        return (f"{rule.text}: the report does not know {rule.name}",)
    if not _RELATIONS[rule.relation](value, rule.bound):
        return ()
    return (f"{rule.text}: it is {value:.6g}",)


def _total(key: str) -> Callable[[Mapping[str, Any]], float | None]:
    def number(twin: Mapping[str, Any]) -> float | None:
        value = twin["totals"][key]
        return None if value is None else float(value)

    return number


def _within(part: str, key: str) -> Callable[[Mapping[str, Any]], float | None]:
    def number(twin: Mapping[str, Any]) -> float | None:
        value = (twin[part] or {}).get(key)
        return None if value is None else float(value)

    return number


def _share_of(cause: str) -> Callable[[Mapping[str, Any]], float | None]:
    def number(twin: Mapping[str, Any]) -> float | None:
        asked = twin["totals"]["prompt_tokens"]
        return twin["misses"]["by_cause"][cause] / asked if asked else None

    return number


def _gap(twin: Mapping[str, Any]) -> float | None:
    ideal = twin["totals"]["ideal_hit_rate"]
    simulated = twin["totals"]["by_basis"].get("simulated")
    return None if ideal is None or simulated is None else float(ideal - simulated["token_hit_rate"])


def _rejects(twin: Mapping[str, Any]) -> float | None:
    records = sum(one["records"] for one in twin["inputs"])
    return sum(one["rejected"] for one in twin["inputs"]) / records if records else None


def _imbalance(twin: Mapping[str, Any]) -> float | None:
    found = [one["imbalance_prefill"] for one in twin["balance"] if one["imbalance_prefill"] is not None]
    return max(found, default=None)


_NUMBERS: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    **{
        key: _total(key)
        for key in ("token_hit_rate", "request_hit_rate", "ideal_hit_rate", "requests", "failed_requests")
    },
    "agreement": _within("observed", "agreement"),
    "multiplier": _within("cost", "multiplier"),
    "cost": _within("cost", "actual"),
    "imbalance": _imbalance,
    "gap-to-ideal": _gap,
    "rejects": _rejects,
    **{f"{cause}_share": _share_of(cause) for cause in CAUSES},
}
