"""Reports in odd states, and one with a hostile name in every place that a log can reach."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import report_data
from prefixledger.report.parts import Breakdown, Event, Finding, Group

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView

STATES = {
    "week": report_data.week,
    "nothing": report_data.nothing,
    "failed": lambda: report_data.nothing(failed=3),
    "one": report_data.one_request,
    "cold": report_data.all_cold,
}

HOSTILE = (
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "$x^2$",
    '"><img src=x onerror=alert(1)>',
    "'; DROP",
    "\u202eevil\x00\x1b[31m",
    "שלום",
)


def hostile_week(name: str) -> ReportView:
    """Put one name into every place that a log can reach."""
    view = report_data.week()
    lost = report_data.misses(evicted=9 * 10**6)
    groups = (Group(name, 5, 10**7, 10**6, lost), Group("b", 5, 10**8, 10**8, report_data.misses()))
    prefixes = replace(
        view.prefixes,
        shown=tuple(replace(p, name=name) for p in view.prefixes.shown),
        tree=tuple(replace(p, name=name) for p in view.prefixes.tree),
    )
    setup = report_data.setup(
        toml=name, capacity=name, notes=(name,), routing=name, ttl=name, residence=name, pricing=name
    )
    result = replace(view.result, name=name, setup=setup)
    details = (
        replace(result.details[0], detail=name),
        replace(result.details[0], cause="misrouted", detail=name),
    )
    return report_data.week(
        results=(replace(result, details=details), result),
        sources=(
            report_data.source(
                path=name,
                format=name,
                why=name,
                reasons={name: 3},
                notes=(name,),
                block_ids=name,
                id_scope=name,
            ),
        ),
        breakdowns=(Breakdown(name, groups),),
        prefixes=prefixes,
        replicas=tuple(replace(r, name=name) for r in view.replicas),
        replica_slices=tuple(
            replace(s, replica=name if s.replica == "vllm-1" else "b") for s in view.replica_slices
        ),
        events=(Event(name, view.events[0].at_us, name, (name,), name, 5),),
        curves=tuple(replace(c, pool=name, note=name) for c in (*view.curves, *view.curves)),
        findings=(Finding("evicted", name, 5, where=name, evidence=(name,), action=name),),
    )
