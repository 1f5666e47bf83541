"""The four figures beside the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from prefixledger.report.books import AVOIDABLE, rate
from prefixledger.report.earlier import Change, comparable, multiplier_change, rate_change
from prefixledger.report.glossary import CAUSE_TERMS, cause_name
from prefixledger.report.numbers import amount, count, money, multiplier, percent, points, span
from prefixledger.report.verdict import largest_loss

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView


@dataclass(frozen=True, slots=True)
class Kpi:
    """One of the four figures.

    Attributes:
        label: What it is.
        value: The figure, formatted.
        note: Its basis or size, one line.
        term: Anchor of its definition.
        change: How it moved since the stretch before; None where the log does not hold that.
    """

    label: str
    value: str
    note: str
    term: str
    change: Change | None = None


def kpis(view: ReportView) -> tuple[Kpi, Kpi, Kpi, Kpi]:
    """Return the hit rate, what was within reach, the largest loss and the price."""
    result, book = view.result, view.result.headline
    asked = f"{amount(book.prompt_tokens)} prompt tokens, {book.basis}"
    requests = f"{percent(book.request_hit_rate)} of {count(book.requests, 'request')} had any hit"
    ideal = result.ideal_hit_rate
    reach = "needs keys" if ideal is None else "unlimited shared cache, simulated"
    if ideal is not None and book.token_hit_rate is not None and ideal > book.token_hit_rate:
        reach = f"{points(ideal - book.token_hit_rate)} more than now; {reach}"
    was = comparable(view)
    moved = (
        None
        if was is None
        else rate_change(view, book.token_hit_rate, was.book.token_hit_rate, more_is_better=True)
    )
    reached = (
        None
        if view.earlier is None
        else rate_change(view, ideal, view.earlier.ideal_hit_rate, more_is_better=True)
    )
    return (
        Kpi(
            "Token hit rate", percent(book.token_hit_rate), f"of {asked}; {requests}", "token-hit-rate", moved
        ),
        Kpi("Within reach", percent(ideal), reach, "ideal-hit-rate", reached),
        _loss_kpi(view),
        _cost_kpi(view),
    )


def _loss_kpi(view: ReportView) -> Kpi:
    loss, book = largest_loss(view), view.result.headline
    if loss is None:
        return Kpi("Largest loss", "none", "no cause that a change could remove", "causes")
    size, tokens = points(loss.tokens / book.prompt_tokens), amount(loss.tokens)
    if loss.burst is not None:
        note = f"{tokens} tokens that were new all at once, {span(loss.burst.from_us, loss.burst.to_us, view.window)}"
        return Kpi("Largest drop", size, note, "causes")
    note = f"{cause_name(loss.cause)}, {tokens} tokens: {CAUSE_TERMS[loss.cause].gloss}"
    was = comparable(view)
    moved = None if was is None else rate_change(
        view, loss.tokens / book.prompt_tokens, rate(was.book.misses.get(loss.cause, 0), was.book.prompt_tokens),
        more_is_better=False,
    )  # fmt: skip
    return Kpi("Largest loss", size, note, "causes", moved)


def _cost_kpi(view: ReportView) -> Kpi:
    result = view.result
    cost = result.cost
    if cost is None:
        computed = result.headline.prompt_tokens - result.headline.hit_tokens
        return Kpi(
            "Prefill left to do",
            amount(computed),
            "prompt tokens computed anew; no rates were given",
            "prefill",
        )
    excess = [
        money(sum((v for c, v in bill.by_cause.items() if c in AVOIDABLE), Decimal(0)), bill.currency)
        for bill in result.costs
    ]
    note = f"of the price without a cache; avoidable misses cost {' and '.join(excess)}"
    was = None if view.earlier is None else view.earlier.multipliers.get(cost.currency)
    moved = multiplier_change(view, cost.multiplier, was)
    return Kpi("Cost multiplier", multiplier(cost.multiplier), note, "cost-multiplier", moved)
