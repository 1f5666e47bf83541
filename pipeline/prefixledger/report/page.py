"""The page as its template sees it: the view, its derived rows and its charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report import captions
from prefixledger.report.account_rows import AccountRow, account_rows
from prefixledger.report.advice_parts import advice_rows, saves, share
from prefixledger.report.age_chart import age_chart, age_sentence
from prefixledger.report.canvas import thin
from prefixledger.report.caveats import ceiling_caveat, counter_caveat, reject_caveat
from prefixledger.report.charts import account_bar, ladder_waterfall, replica_load
from prefixledger.report.curve_charts import capacity_curve, ttl_curve
from prefixledger.report.definitions import Definition, cause_lines, definitions
from prefixledger.report.earlier import unmoved
from prefixledger.report.front import actions, finding_rows, records, slices
from prefixledger.report.gap_chart import gap_chart, gaps
from prefixledger.report.heat_map import heat_map, heat_table, rows_of
from prefixledger.report.icicle import icicle
from prefixledger.report.invoice_parts import coverage_sentence
from prefixledger.report.kpis import Kpi, kpis
from prefixledger.report.length_parts import dead_bands
from prefixledger.report.load import load_notes, peers
from prefixledger.report.models import bursts, judged
from prefixledger.report.money import cuts, losing, paid
from prefixledger.report.observed_chart import observed_chart, observed_sentence, pairs
from prefixledger.report.part_curves import PartChart, part_charts
from prefixledger.report.ranking import melting, ranking
from prefixledger.report.routing_chart import drawable, routing_chart
from prefixledger.report.surface import SurfaceRow, surface_rows, surface_sentence
from prefixledger.report.time_chart import over_time
from prefixledger.report.verdict import Verdict, verdict
from prefixledger.resources import read_text
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.report.advice_parts import AdviceRow
    from prefixledger.report.books import Book, EngineHour, Observed, ObservedHour
    from prefixledger.report.curve_parts import CapacityPoint, Curves, Model, TtlPoint
    from prefixledger.report.front import Action, FindingRow, Slice
    from prefixledger.report.gap_chart import Gaps
    from prefixledger.report.heat_map import HeatTable
    from prefixledger.report.icicle import Icicle
    from prefixledger.report.money import Cut, Spend
    from prefixledger.report.view import ReportView

GROUPS = (
    ("Findings", (("findings", "Findings"), ("advice", "What to change"))),
    (
        "Evidence",
        (
            ("time", "Over time"),
            ("account", "The account"),
            ("money", "The bill"),
            ("invoice", "Against the invoice"),
            ("prefixes", "Shared prefixes"),
            ("who", "Who asked"),
            ("replicas", "Replicas"),
            ("ladder", "Limit by limit"),
            ("capacity", "Capacity"),
            ("ttl", "Time to live"),
            ("events", "Events"),
            ("observed", "Observed, simulated"),
        ),
    ),
    (
        "How it was made",
        (("inputs", "Inputs"), ("definitions", "Definitions"), ("made", "How this was made")),
    ),
)
"""Sections in order, by what they are for; the ids are stable and may be linked to."""

SECTIONS = tuple(section for _, sections in GROUPS for section in sections)

_WITHOUT_LOOKUPS = frozenset({"inputs", "made"})
"""Where there are no figures, nothing is there to be defined."""
_CURVE_ROWS = 50
_HOURS_SHOWN = 48
FEWEST_DRAWN = 10
"""Fewer lookups have no course of time: each would stand alone."""

_FEWEST_HOURS = 2
"""One hour of one replica says no more than the table above it."""


@dataclass(frozen=True, slots=True)
class CurveRow:
    """The curves of one pool.

    Attributes:
        curves: The data.
        capacity_chart: SVG element, empty without points.
        ttl_chart: SVG element, empty without points.
        gap_chart: SVG element, empty where nothing is used again.
        models: Formulas, each with what the replay says of it.
        bursts: What the Poisson formula's error tells of the log.
        age_chart: SVG element, empty where nothing is evicted.
        captions: What each of them shows, by ``capacity``, ``ttl``, ``gaps`` and ``ages``.
        capacity: Points of the table on the page; the CSV has all.
        ttl: The same.
        gaps: The histogram.
        parts: Its replicas, and the prompts that begin alike, where they tell something.
        surface: Capacity and time to live together.
    """

    curves: Curves
    capacity_chart: str
    ttl_chart: str
    gap_chart: str
    age_chart: str
    models: tuple[tuple[Model, str], ...]
    bursts: str
    captions: dict[str, str]
    capacity: tuple[CapacityPoint, ...]
    ttl: tuple[TtlPoint, ...]
    gaps: tuple[Gaps, ...]
    parts: tuple[PartChart, ...]
    surface: tuple[SurfaceRow, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What the template draws.

    Attributes:
        view: The data.
        verdict: The sentence and what it rests on.
        kpis: Four figures.
        sections: (id, title) of the sections that are drawn.
        groups: The same by what they are for.
        bar: The book of the verdict, drawn as one bar.
        slices: Its pieces.
        actions: The first things to do.
        records: What became of the records of the inputs.
        caveats: What the verdict rests on, but for the rejects, which the records hold.
        unmoved: Why the figures have no change; empty where they have.
        findings: With all that stands beneath them.
        advice: Changes that were replayed and pay.
        together: What all of them save at once; empty where that was not replayed.
        together_share: Of the bill.
        causes_sql: The statement that counts the tokens of every cause.
        ceiling: That the service reports more than the log allows; empty where it does not.
        hours: What the service reports beside the replay, by hour and replica.
        engine_hours: What engines said of their caches, by hour and replica.
        counter_ceiling: That their counters show more hits than the log allows; empty where they do not.
        books: The columns of the account.
        account: Its rows.
        present: Causes that occur, in the order of the account.
        curves: The curves of every pool.
        charts: SVG elements by section; empty where a section has no data.
        captions: What each shows.
        icicle: The tree of shared prefixes.
        heat: Hit rates by replica and time.
        ranking: The routings compared in words; empty where there is nothing to compare.
        routing_causes: Causes that occur under any of them, in the order of the account.
        melting: For each routing whether it loads one replica far more than it would have to.
        load_notes: When the load is uneven, and when the best hit rate comes with the worst load.
        bills: Money in all, by currency.
        cuts: The same by model, tenant, day and so on.
        losing: Models and tenants whose cache costs more than it saves.
        dead_bands: Bands of lengths in which nothing is read.
        coverage: How much of an invoice the log holds; empty where none was given.
        definitions: The figures, explained.
        causes: (cause, label, gloss).
    """

    view: ReportView
    verdict: Verdict
    kpis: tuple[Kpi, ...]
    sections: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    bar: Book
    slices: tuple[Slice, ...]
    actions: tuple[Action, ...]
    records: str
    caveats: tuple[str, ...]
    unmoved: str
    findings: tuple[FindingRow, ...]
    advice: tuple[AdviceRow, ...]
    together: str
    together_share: str
    causes_sql: str
    ceiling: str
    hours: tuple[ObservedHour, ...]
    engine_hours: tuple[EngineHour, ...]
    counter_ceiling: str
    books: tuple[Book, ...]
    account: tuple[AccountRow, ...]
    present: tuple[str, ...]
    curves: tuple[CurveRow, ...]
    charts: dict[str, str]
    captions: dict[str, str]
    icicle: Icicle
    heat: HeatTable
    ranking: tuple[str, ...]
    routing_causes: tuple[str, ...]
    melting: tuple[bool, ...]
    load_notes: tuple[str, ...]
    bills: tuple[Spend, ...]
    cuts: tuple[Cut, ...]
    losing: tuple[Spend, ...]
    coverage: str
    dead_bands: tuple[str, ...]
    definitions: tuple[Definition, ...]
    causes: tuple[tuple[str, str, str], ...]


def page(view: ReportView) -> Page:
    """Derive everything that the template needs, charts included."""
    result = view.result
    books = (*result.by_basis, result.total) if len(result.by_basis) > 1 else (result.total,)
    sections, judged = _sections(view), verdict(view)
    drawn, told = _charts(view)
    return Page(
        view=view,
        verdict=judged,
        kpis=kpis(view),
        sections=sections,
        groups=_groups(sections),
        bar=_bar(view),
        slices=slices(_bar(view)),
        actions=actions(view),
        records=records(view),
        caveats=tuple(text for text in judged.caveats if text != reject_caveat(view)),
        unmoved=unmoved(view),
        findings=finding_rows(view, sections),
        advice=advice_rows(view),
        together="" if view.advice.together is None else saves(view.advice.together),
        together_share="" if view.advice.together is None else share(view.advice.together),
        causes_sql=read_text("sql", "60_marts/causes.sql"),
        ceiling=ceiling_caveat(result),
        hours=_hours(result.observed),
        engine_hours=_engine_hours(view),
        counter_ceiling=counter_caveat(view),
        books=books,
        account=account_rows(view, books),
        present=tuple(c for c in CAUSES if result.total.misses.get(c)),
        curves=_curves(view),
        charts=drawn,
        captions=told,
        icicle=icicle(view),
        heat=heat_table(view),
        ranking=ranking(view.routing),
        routing_causes=tuple(c for c in CAUSES if any(o.misses.get(c) for o in view.routing)),
        melting=melting(view.routing),
        load_notes=load_notes(view),
        bills=tuple(row for row in paid(view.spend) if row.field == "all"),
        cuts=cuts(view.spend),
        losing=losing(view.spend),
        dead_bands=dead_bands(view.lengths),
        coverage="" if view.reconciliation is None else coverage_sentence(view.reconciliation),
        definitions=definitions(view),
        causes=cause_lines(view),
    )


def _bar(view: ReportView) -> Book:
    """Return the book that the first screen shows: what was logged where the verdict rests on that, else all lookups."""
    book = view.result.headline
    return book if book.basis == "observed" else view.result.total


def _sections(view: ReportView) -> tuple[tuple[str, str], ...]:
    """Return the sections; what the service reports stands on top where the replay can be held against it."""
    observed, has_lookups = view.result.observed, view.result.total.requests > 0
    shown = [s for s in SECTIONS if has_lookups or s[0] in _WITHOUT_LOOKUPS]
    shown = [s for s in shown if s[0] != "money" or paid(view.spend)]
    shown = [s for s in shown if s[0] != "invoice" or view.reconciliation is not None]
    shown = [s for s in shown if s[0] != "advice" or view.advice.notes or view.advice.recommendations]
    if (observed is not None and observed.compared is not None) or view.engines is not None:
        shown.sort(key=lambda section: {"findings": 0, "advice": 0, "observed": 1}.get(section[0], 2))
    return tuple(shown)


def _groups(
    sections: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Put the sections that are drawn under what they are for, in the order in which they are drawn."""
    found = ((title, tuple(s for s in sections if s in members)) for title, members in GROUPS)
    return tuple((title, members) for title, members in found if members)


def _hours(observed: Observed | None) -> tuple[ObservedHour, ...]:
    """Return the hours that the page shows: all of few, else those that differ most, in order of time."""
    if observed is None or len(observed.hours) < _FEWEST_HOURS:
        return ()
    most = sorted(
        observed.hours, key=lambda h: (-abs(h.both_simulated_tokens - h.both_cached_tokens), -h.prompt_tokens)
    )
    kept = {id(hour) for hour in most[:_HOURS_SHOWN]}
    return tuple(hour for hour in observed.hours if id(hour) in kept)


def _engine_hours(view: ReportView) -> tuple[EngineHour, ...]:
    """Return the hours that the page shows: all of few, else the last ones; the CSV has all."""
    return () if view.engines is None else view.engines.hours[-_HOURS_SHOWN:]


def _charts(view: ReportView) -> tuple[dict[str, str], dict[str, str]]:
    """Draw the charts that have data, and say what each shows; fewer than two points make no line."""
    result = view.result
    drawn: dict[str, str] = dict.fromkeys(
        ("account", "time", "replicas", "heat", "routing", "ladder", "observed"), ""
    )
    told: dict[str, str] = {}
    buckets = [b for b in view.timeline.buckets if b.prompt_tokens]
    if result.total.prompt_tokens:
        drawn["account"] = account_bar(_bar(view), "fig-account")
    if len(buckets) > 1 and result.total.requests >= FEWEST_DRAWN:
        drawn["time"], told["time"] = over_time(view, "fig-time"), captions.over_time(view)
    if peers(view):
        drawn["replicas"], told["replicas"] = replica_load(view, "fig-replicas"), captions.replicas(view)
    if drawn["time"] and len(rows_of(view)) > 1:
        drawn["heat"], told["heat"] = heat_map(view, "fig-heat"), captions.heat(view)
    options = drawable(view.routing)
    if options:
        drawn["routing"], told["routing"] = routing_chart(options, "fig-routing"), captions.routing(options)
    if len(result.ladder) > 1 and result.ladder[0].hit_tokens:
        drawn["ladder"], told["ladder"] = ladder_waterfall(view, "fig-ladder"), captions.ladder(view)
    if pairs(view):
        drawn["observed"], told["observed"] = (
            observed_chart(view, "fig-observed"),
            observed_sentence(view),
        )
    if view.prefixes.tree and result.total.prompt_tokens:
        told["prefixes"] = captions.prefixes(view)
    return drawn, told


def _curves(view: ReportView) -> tuple[CurveRow, ...]:
    """Draw the curves of every pool that has any hits; one point makes no curve."""
    names = {p.key: p.name for p in view.prefixes.tree if p.key is not None}
    return tuple(
        _curve_row(curves, number, names)
        for number, curves in enumerate(view.curves, start=1)
        if curves.prompt_tokens
    )


def _curve_row(curves: Curves, number: int, names: Mapping[str, str]) -> CurveRow:
    sizes = len(curves.capacity) > 1 and curves.capacity[-1].hit_tokens > 0
    lives = len(curves.ttl) > 1 and curves.ttl[-1].hit_tokens > 0
    found = gaps(curves) if lives else ()
    histogram = len(found) > 1
    told = {"capacity": captions.capacity(curves)} if sizes else {}
    told |= {"ttl": captions.ttl(curves)} if lives else {}
    told |= {"surface": surface_sentence(curves)} if curves.surface else {}
    ages = age_chart(curves, f"fig-ages-{number}")
    told |= {"ages": age_sentence(curves)} if ages else {}
    told |= {"gaps": captions.used_again(curves)} if histogram else {}
    return CurveRow(
        curves=curves,
        capacity_chart=capacity_curve(curves, f"fig-capacity-{number}") if sizes else "",
        ttl_chart=ttl_curve(curves, f"fig-ttl-{number}") if lives else "",
        gap_chart=gap_chart(curves, f"fig-gaps-{number}") if histogram else "",
        age_chart=ages,
        models=tuple((model, judged(model)) for model in curves.models),
        bursts=bursts(curves),
        captions=told,
        capacity=tuple(curves.capacity[i] for i in thin(len(curves.capacity), _CURVE_ROWS)),
        ttl=tuple(curves.ttl[i] for i in thin(len(curves.ttl), _CURVE_ROWS)),
        gaps=found,
        parts=part_charts(curves, names, f"fig-parts-{number}") if sizes else (),
        surface=surface_rows(curves) if sizes else (),
    )
