"""Advice in the report: the rows of its section, the lines on the terminal, and its values in the JSON twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.numbers import amount, iso, money, percent, significant, span

if TYPE_CHECKING:
    from prefixledger.advice.parts import Decision, Effect, Recommendation
    from prefixledger.report import document
    from prefixledger.report.view import ReportView

LINES = 3
"""Pieces of advice that the terminal shows."""


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """A piece of advice as the page shows it.

    Attributes:
        advice: The advice.
        saves: What it saves, with its interval.
        share: Of what its input costs today; empty where that is not known.
        judged: The stretch that it was judged on.
        in_full: What it would have saved in the whole log; empty where that is the same.
    """

    advice: Recommendation
    saves: str
    share: str
    judged: str
    in_full: str


def advice_rows(view: ReportView) -> tuple[AdviceRow, ...]:
    """Return every piece of advice, in its order."""
    return tuple(
        AdviceRow(
            advice=one,
            saves=saves(one.effect),
            share=share(one.effect),
            judged=span(one.effect.from_us, one.effect.to_us, view.window),
            in_full="" if one.in_full == one.effect else saves(one.in_full),
        )
        for one in view.advice.recommendations
    )


def prize(effect: Effect) -> str:
    """Say in a word what a change saves: money, or tokens where nobody says what they cost."""
    if effect.saved is None or effect.currency == "prefill tokens":
        return f"{amount(effect.tokens)} tokens"
    return money(effect.saved, effect.currency)


def saves(effect: Effect) -> str:
    """Say what a change saves, with its interval, in money, tokens and time."""
    parts = []
    if effect.saved is not None and effect.currency != "prefill tokens":
        low, high = (money(end, effect.currency) for end in (effect.saved_low, effect.saved_high))
        ends = _between(low, high, effect)
        parts.append(f"{money(effect.saved, effect.currency)}{ends}")
    ends = _between(amount(effect.tokens_low), amount(effect.tokens_high), effect)
    more = "more" if effect.tokens >= 0 else "fewer"
    tokens = f"{amount(abs(effect.tokens))} tokens {more} from the cache"
    parts.append(f"{tokens}{ends}" if effect.tokens >= 0 else tokens)
    if effect.gpu_s:
        parts.append(f"{effect.gpu_s:,.0f} s of prefill on a GPU")
    return ", ".join(parts)


def share(effect: Effect) -> str:
    """Say which share of the input bill a change saves; empty where that is not known."""
    if effect.saved_share is None or effect.currency == "prefill tokens":
        return ""
    return f"{percent(effect.saved_share)} of what that input costs today"


def advice_lines(view: ReportView) -> tuple[str, ...]:
    """Return what the terminal says."""
    advice = view.advice
    lines = [
        f"{number}. {one.action} Saves {prize(one.effect)} ({share(one.effect) or saves(one.effect)})."
        for number, one in enumerate(advice.recommendations[:LINES], start=1)
    ]
    more = len(advice.recommendations) - len(lines)
    if more:
        lines.append(f"{more} more in the report.")
    if advice.together is not None:
        lines.append(
            f"All of it at once, over the whole log: {prize(advice.together)} ({share(advice.together)})."
        )
    return (f"To do, of {advice.tried} changes that were replayed on this log:", *lines) if lines else ()


def recommendation_value(one: Recommendation) -> document.Recommendation:
    """Return a piece of advice; what it saves is that of the stretch that it was judged on."""
    effect = effect_value(one.effect)
    return {
        "kind": one.kind,
        "action": one.action,
        "where": one.where or None,
        **effect,
        "cost": effect["saved"],
        "predicted": significant(one.predicted),
        "as_predicted": one.as_predicted,
        "in_full": effect_value(one.in_full),
        "shown_by": one.shown_by,
        "side_effects": list(one.side_effects),
        "confidence": one.confidence,
        "because": one.because,
        "verify": one.verify,
        "scenario": one.scenario or None,
    }


def advice_value(view: ReportView) -> document.Advice:
    """Return what belongs to no single piece of advice."""
    advice = view.advice
    return {
        "tried": advice.tried,
        "fitted_to": None if advice.fitted_to_us is None else iso(advice.fitted_to_us),
        "together": None if advice.together is None else effect_value(advice.together),
        "decisions": [decision_value(one) for one in advice.decisions],
        "notes": list(advice.notes),
    }


def effect_value(effect: Effect) -> document.Effect:
    """Return what a change comes to."""
    return {
        "from": iso(effect.from_us),
        "to": iso(effect.to_us),
        "prompt_tokens": effect.prompt_tokens,
        "tokens": effect.tokens,
        "tokens_low": effect.tokens_low,
        "tokens_high": effect.tokens_high,
        "before": significant(effect.before),
        "saved": significant(effect.saved),
        "saved_low": significant(effect.saved_low),
        "saved_high": significant(effect.saved_high),
        "currency": effect.currency or None,
        "gpu_s": significant(effect.gpu_s),
        "certain": effect.certain,
    }


def decision_value(one: Decision) -> document.Decision:
    """Return what to do about one shared prefix."""
    return {
        "prefix": one.key,
        "name": one.name,
        "pool": one.pool,
        "tokens": one.tokens,
        "requests": one.requests,
        "today": one.today,
        "decision": one.decision,
        "because": one.because,
        "hit_share": significant(one.hit_share),
        "break_even": significant(one.break_even),
        "reads_per_write": significant(one.reads_per_write),
        "saved": significant(one.saved),
        "loss": significant(one.loss),
        "currency": one.currency,
    }


def _between(low: str, high: str, effect: Effect) -> str:
    return f" ({low} to {high})" if effect.certain and low != high else ""
