"""The stretch before the window, and how far the figures of the first screen have moved since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.books import Book, rate
from prefixledger.report.from_marts import missed
from prefixledger.report.numbers import duration, multiplier, percent, points
from prefixledger.report.view import OBSERVED_HEADLINE_SHARE, Earlier

if TYPE_CHECKING:
    from prefixledger.attribute.before import Before
    from prefixledger.report.view import ReportView

_WEEK_S = 7 * 86_400
_SAME = 0.0005
"""Less than half of the last digit that is shown is no change."""


@dataclass(frozen=True, slots=True)
class Change:
    """How a figure moved.

    Attributes:
        text: With its direction, size, and the value before.
        better: Whether that is good; None where it is neither.
    """

    text: str
    better: bool | None


def earlier(found: Before | None) -> Earlier | None:
    """Read the stretch before a window as the report has it; None where the log does not hold it."""
    if found is None:
        return None
    books = {
        row["basis"]: Book(
            row["basis"], row["requests"], row["requests_with_hit"], row["prompt_tokens"], row["output_tokens"],
            row["hit_tokens"], missed(row), row["hit_host_tokens"],
        )
        for row in found.totals.to_pylist()
    }  # fmt: skip
    ideal = {row["basis"]: row["ideal_hit_tokens"] for row in found.totals.to_pylist()}
    simulated = books.get("simulated")
    asked_ideal = None if simulated is None else ideal["simulated"]
    return Earlier(
        from_us=found.window.from_us,
        to_us=found.window.to_us,
        book=_observed(found, books["all"]) or simulated or books["all"],
        ideal_hit_rate=None
        if simulated is None or asked_ideal is None
        else rate(asked_ideal, simulated.prompt_tokens),
        multipliers={
            bill.currency: float(bill.multiplier) for bill in found.bills if bill.multiplier is not None
        },
    )


def _observed(found: Before, total: Book) -> Book | None:
    """Return the observed book where it is the headline, by the rule of the window itself."""
    sums = found.observed_book.to_pylist()[0]
    if not total.prompt_tokens or sums["prompt_tokens"] < OBSERVED_HEADLINE_SHARE * total.prompt_tokens:
        return None
    return Book(
        "observed", sums["requests"], sums["requests_with_hit"], sums["prompt_tokens"], sums["output_tokens"],
        sums["observed_hit_tokens"], missed(sums, "observed_{}_tokens"),
    )  # fmt: skip


def stretch_name(view: ReportView) -> str:
    """Return what the stretch before is called: the week before, or so many hours."""
    length_s = view.window.length_s
    return "the week before" if length_s == _WEEK_S else f"the {duration(length_s)} before"


def rate_change(
    view: ReportView, now: float | None, was: float | None, *, more_is_better: bool
) -> Change | None:
    """Say how a share moved, in points; None where one of the two is not known."""
    if now is None or was is None:
        return None
    since = f"{percent(was)} in {stretch_name(view)}"
    if abs(now - was) < _SAME:
        return Change(f"as {since}", None)
    return Change(f"{_arrow(now - was)} {points(now - was)}, from {since}", (now > was) == more_is_better)


def multiplier_change(view: ReportView, now: float | None, was: float | None) -> Change | None:
    """Say how a cost multiplier moved; less is better."""
    if now is None or was is None:
        return None
    since = f"{multiplier(was)} in {stretch_name(view)}"
    if multiplier(now) == multiplier(was):
        return Change(f"as {since}", None)
    return Change(f"{_arrow(now - was)} from {since}", now < was)


def comparable(view: ReportView) -> Earlier | None:
    """Return the stretch before where its rate is of the same basis: simulated and observed are never compared."""
    was = view.earlier
    return was if was is not None and was.book.basis == view.result.headline.basis else None


def unmoved(view: ReportView) -> str:
    """Say why the figures have no change beside them; empty where they have one."""
    if view.window.from_us is None or not view.result.total.requests or comparable(view) is not None:
        return ""
    if view.earlier is None and view.window.why == "whole log":
        return "No change is shown: this is the whole log, and nothing lies before it."
    if view.earlier is None:
        return f"No change is shown: the log does not hold {stretch_name(view)}."
    return (
        f"No change of rates is shown: {stretch_name(view)} was of another kind, {view.earlier.book.basis}."
    )


def _arrow(change: float) -> str:
    return "\N{UPWARDS ARROW}" if change > 0 else "\N{DOWNWARDS ARROW}"
