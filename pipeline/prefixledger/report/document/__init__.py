"""The types of ``report.json``: what its builders are checked against, and what its published schema is made of.

Builders import them for types only: they need pydantic, which takes time to load and which writing a report does not use.
"""

from __future__ import annotations

from prefixledger.report.document.advice import Advice, Decision, Effect, Finding, Recommendation
from prefixledger.report.document.books import (
    Before,
    Breakdown,
    Compared,
    Failure,
    Input,
    Observed,
    ObservedHour,
    Replayed,
    Seeds,
    Timeline,
    Totals,
    Window,
)
from prefixledger.report.document.curves import Bound, Curves, Held, Mark
from prefixledger.report.document.fleet import (
    Balance,
    Branch,
    Engines,
    Event,
    Prefix,
    Replica,
    ReplicaSlice,
    Routing,
)
from prefixledger.report.document.money import (
    Cost,
    GapRange,
    InvoiceDay,
    KeepAlive,
    LengthRange,
    LongerLife,
    Policy,
    Reconciliation,
    SilentWrite,
    Spend,
    TtlChange,
)
from prefixledger.report.document.report import Report
from prefixledger.report.document.scalars import Book, MoneyByCause, SomeTokensByCause, TokensByCause

__all__ = [
    "Advice", "Balance", "Before", "Book", "Bound", "Branch", "Breakdown", "Compared", "Cost", "Curves", "Decision",
    "Effect", "Engines", "Event", "Failure", "Finding", "GapRange", "Held", "Input", "InvoiceDay", "KeepAlive", "LengthRange", "LongerLife", "Mark", "MoneyByCause", "Observed",
    "ObservedHour", "Policy", "Prefix", "Recommendation", "Reconciliation", "Replayed", "Replica", "ReplicaSlice", "Report",
    "Routing", "Seeds", "SilentWrite", "SomeTokensByCause", "Spend", "Timeline", "TokensByCause", "Totals", "TtlChange", "Window",
]  # fmt: skip
