"""Ranked findings: what was lost, how much, where and when, and what would have kept it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.books import AVOIDABLE
from prefixledger.report.concentration import Stretch, burst_of_new_text, place, stretch, where_and_when
from prefixledger.report.glossary import CAUSE_TERMS, cause_name
from prefixledger.report.keep_alive import missing_calls
from prefixledger.report.key_changes import advice, described
from prefixledger.report.lifetime_parts import shortened
from prefixledger.report.numbers import amount, located, points, span
from prefixledger.report.parts import Finding

if TYPE_CHECKING:
    from prefixledger.report.key_changes import KeyChange
    from prefixledger.report.view import ReportView

_WORTH = 0.001
"""A finding explains at least 0.1 % of the prompt tokens."""

_NEARLY = 0.99
"""Share of what expired from which on a remedy is said to help all of it."""
_OPERATOR = ("in_flight", "invalidated", "expired", "evicted", "misrouted", "key_changed", "unexplained")
_EVENTS_NAMED = 5


def derive(view: ReportView) -> tuple[Finding, ...]:
    """Return one finding for each cause that explains at least 0.1 % of the tokens, largest first.

    A cause is named as a fault only where a change could remove it; new text and the rules of the cache are not. Beside
    the causes stand lifetimes that were shortened and calls that should have kept prefixes alive: their tokens are among
    those that expired or have no explanation.
    """
    book = view.result.headline
    found = [
        _of_cause(view, cause)
        for cause in _OPERATOR
        if book.misses.get(cause, 0) and book.misses[cause] >= _WORTH * book.prompt_tokens
    ]
    burst = burst_of_new_text(view)
    if burst is not None:
        found.append(_of_burst(view, burst))
    found += (*shortened(view.ttl_changes), *missing_calls(view.keep_alive))
    return tuple(sorted(found, key=lambda f: (-f.tokens, f.kind)))


def _of_burst(view: ReportView, burst: Stretch) -> Finding:
    """Point at text that was new all at once; it is evidence of a changed beginning, not proof."""
    book, spot = view.result.headline, place(view.breakdowns, "cold")
    tokens = round(burst.share * book.misses["cold"])
    where = "" if spot is None else located(spot[0], spot[1].value)
    return Finding(
        kind="cold",
        title=(
            f"{amount(tokens)} tokens were new to the cache {span(burst.from_us, burst.to_us, view.window)}, "
            f"{points(tokens / book.prompt_tokens)} of the hit rate, while hits fell"
            + (f"; {spot[2] * 100:.0f} % of all new tokens {where}" if spot else "")
        ),
        tokens=tokens,
        from_us=burst.from_us,
        to_us=burst.to_us,
        where=where.removeprefix("at "),
        action=(
            "if the text itself was not new: compare a prompt from before with one from then; what changed at its "
            "beginning, such as a time, belongs at its end"
        ),
    )


def _of_cause(view: ReportView, cause: str) -> Finding:
    book = view.result.headline
    tokens = book.misses[cause]
    spot, time = place(view.breakdowns, cause), stretch(view.timeline, cause)
    title = f"{amount(tokens)} tokens {_verb(cause)}, {points(tokens / book.prompt_tokens)} of the hit rate"
    title += where_and_when(view, cause, "them")
    changes = view.result.key_changes if cause == "key_changed" else ()
    title += described(changes)
    cost = next((c for c in view.result.costs if c.by_cause.get(cause)), None)
    events = [e for e in view.events if e.lost_tokens] if cause == "invalidated" else []
    events.sort(key=lambda e: (-e.lost_tokens, e.event_id))
    return Finding(
        kind=cause,
        title=title,
        tokens=tokens,
        cost=cost.by_cause[cause] if cost else None,
        currency=cost.currency if cost else "",
        from_us=time.from_us if time else None,
        to_us=time.to_us if time else None,
        where=located(spot[0], spot[1].value).removeprefix("at ") if spot else "",
        evidence=tuple(e.event_id for e in events[:_EVENTS_NAMED]),
        action=_action(view, cause, changes),
    )


def _action(view: ReportView, cause: str, changes: tuple[KeyChange, ...]) -> str:
    term, observed = CAUSE_TERMS[cause], view.result.observed
    if cause == "expired":
        return _longer_lives(view, term.advice)
    if cause in AVOIDABLE:
        return advice(changes) or term.advice
    if observed is not None and observed.simulated_hit_tokens is not None:
        return (
            "To find out: the hours and replicas where service and replay differ most, and whether capacity and lifetimes "
            "are there as the scenario says"
        )
    return f"To find out: {term.advice}"


def _longer_lives(view: ReportView, longer: str) -> str:
    """Say what a longer lifetime would keep: of a hosted cache only what those on sale do."""
    tokens, kept = view.result.headline.misses["expired"], view.result.longer_ttl_tokens
    if kept is None or kept >= _NEARLY * tokens:
        return longer
    if kept < _WORTH * tokens:
        return "no lifetime that can be had would have kept them; what keeps a prefix warm for longer is another call"
    return f"{longer} for {amount(min(kept, tokens))} of them; no lifetime that can be had would have kept the others"


def _verb(cause: str) -> str:
    return {
        "in_flight": "asked for while being computed",
        "unexplained": "missed without an explanation in the log",
        "key_changed": "missed because their key changed",
    }.get(cause, cause_name(cause))
