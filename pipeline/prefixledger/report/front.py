"""The first screen below the verdict, and the findings: what to do, for how much, and how to check it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.advice_parts import prize, share
from prefixledger.report.books import rate
from prefixledger.report.caveats import FEW_LOOKUPS
from prefixledger.report.earlier import comparable, rate_change
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import amount, count, money, percent, points, span, whole
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from prefixledger.report.books import Book
    from prefixledger.report.parts import Finding
    from prefixledger.report.view import ReportView

ACTIONS = 3
_EVIDENCE = {
    "in_flight": "replicas",
    "invalidated": "events",
    "expired": "ttl",
    "evicted": "capacity",
    "misrouted": "replicas",
    "key_changed": "prefixes",
    "cold": "time",
    "unexplained": "observed",
}
"""The section that holds the evidence of a cause."""

_PLAIN_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Slice:
    """One piece of the bar of the account, for its legend.

    Attributes:
        series: ``hit`` or a cause.
        name: Its label.
        share: Its share of the prompt tokens, formatted.
    """

    series: str
    name: str
    share: str


@dataclass(frozen=True, slots=True)
class Action:
    """One of the first things to do.

    Attributes:
        link: Section and number of what it follows from.
        cause: Its cause; empty for advice.
        text: What to do, a sentence without its point.
        where: Tenant, model, release … that it concerns; empty where it is everywhere.
        prize: What the misses cost, formatted; in tokens where there is no money.
        size: Points of the hit rate.
    """

    link: str
    cause: str
    text: str
    where: str
    prize: str
    size: str


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding with all that stands beneath it.

    Attributes:
        finding: The finding.
        cause: Its cause; empty where it is of none.
        share: Of the tokens missed.
        size: Lookups it rests on, and whether that is enough.
        change: Against the stretch before; empty where that is not known.
        when: Its time; empty where it was always.
        section: Section of its evidence; empty where there is none.
        sql: Statement that lists its misses; empty where it is of no cause.
    """

    finding: Finding
    cause: str
    share: str
    size: str
    change: str
    when: str
    section: str
    sql: str


def slices(book: Book) -> tuple[Slice, ...]:
    """Return the pieces of the bar, hits first."""
    pieces = [("hit", "hits", book.hit_tokens)]
    pieces += [(cause, cause_name(cause), book.misses.get(cause, 0)) for cause in CAUSES]
    return tuple(
        Slice(series, name, percent(rate(tokens, book.prompt_tokens)))
        for series, name, tokens in pieces
        if tokens
    )


def actions(view: ReportView) -> tuple[Action, ...]:
    """Return the first things to do: what was replayed and pays, else by findings.

    Findings are in order of money where all are in one currency, else of tokens.
    """
    if view.advice.recommendations:
        return tuple(
            Action(
                link=f"advice-{number}",
                cause="",
                text=one.action.removesuffix("."),
                where="",
                prize=prize(one.effect),
                size=share(one.effect) or points(one.effect.tokens / max(one.effect.prompt_tokens, 1)),
            )
            for number, one in enumerate(view.advice.recommendations[:ACTIONS], start=1)
        )
    asked = view.result.headline.prompt_tokens
    found = [(n, f) for n, f in enumerate(view.findings, start=1) if f.action]
    if len({f.currency for _, f in found}) == 1 and all(f.cost is not None for _, f in found):
        found.sort(key=lambda pair: (-(pair[1].cost or 0), pair[0]))
    return tuple(
        Action(
            link=f"finding-{number}",
            cause=f.kind if f.kind in CAUSES else "",
            text=f.action[:1].upper() + f.action[1:],
            where=f.where,
            prize=f"{amount(f.tokens)} tokens" if f.cost is None else money(f.cost, f.currency),
            size=points(f.tokens / asked) if asked else "",
        )
        for number, f in found[:ACTIONS]
    )


def finding_rows(view: ReportView, sections: tuple[tuple[str, str], ...]) -> tuple[FindingRow, ...]:
    """Return every finding with its share, size, change, time, evidence and SQL."""
    shown = {name for name, _ in sections}
    return tuple(_row(view, finding, shown) for finding in view.findings)


def records(view: ReportView) -> str:
    """Account for every record of the inputs in one sentence; empty where nothing was read."""
    if not view.sources:
        return ""
    sums = {
        name: sum(getattr(s, name) for s in view.sources)
        for name in ("records", "kept", "rejected", "duplicates", "joined", "skipped")
    }
    parts = [f"{whole(sums[name])} {name}" for name in ("kept", "rejected")]
    parts += [f"{whole(sums[name])} {name}" for name in ("duplicates", "joined", "skipped") if sums[name]]
    reasons: dict[str, int] = {}
    for source in view.sources:
        for reason, number in source.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + number
    most = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    why = f" ({', '.join(f'{reason} {whole(number)}' for reason, number in most)})" if most else ""
    return f"{count(sums['records'], 'record')} read: {', '.join(parts)}{why}."


def _row(view: ReportView, finding: Finding, shown: set[str]) -> FindingRow:
    book, cause = view.result.headline, finding.kind if finding.kind in CAUSES else ""
    was = comparable(view)
    moved = None
    if cause and was is not None:
        before = rate(was.book.misses.get(cause, 0), was.book.prompt_tokens)
        moved = rate_change(
            view, rate(book.misses.get(cause, 0), book.prompt_tokens), before, more_is_better=False
        )
    when = ""
    if finding.from_us is not None and finding.to_us is not None:
        when = span(finding.from_us, finding.to_us, view.window)
    section = _EVIDENCE.get(cause, "")
    return FindingRow(
        finding=finding,
        cause=cause,
        share=f"{percent(rate(finding.tokens, book.missed_tokens))} of all missed tokens",
        size=_size(view, cause),
        change="" if moved is None else moved.text,
        when=when[:1].upper() + when[1:],
        section=section if section in shown else "",
        sql=_sql(view, cause) if cause else "",
    )


def _size(view: ReportView, cause: str) -> str:
    """Say how many lookups a finding rests on."""
    affected = view.result.affected.get(cause)
    if not affected:  # the replay has none of what only the log tells
        return ""
    text = f"{whole(affected)} of {count(view.result.total.requests, 'lookup')}"
    return f"{text}: too few to conclude anything from" if affected < FEW_LOOKUPS else text


def _sql(view: ReportView, cause: str) -> str:
    """Return a statement that lists the misses of a cause."""
    name = view.result.name
    scenario = f"\n  and scenario = '{name}'" if _PLAIN_NAME.fullmatch(name) else ""
    return (
        "select replica, prefix_key, count(*) as misses, sum(tokens) as tokens\nfrom misses\n"
        f"where cause = '{cause}'{scenario}\ngroup by all order by tokens desc limit 20"
    )
