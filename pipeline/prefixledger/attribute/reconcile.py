"""Holds a log against an invoice: how much of it the log has, and where the two differ."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from prefixledger.config.units import datetime_us
from prefixledger.ingest.invoice import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prefixledger.attribute.window import Window
    from prefixledger.ingest.invoice import InvoiceLine

NEAR = 0.01
"""Share by which log and invoice may differ on a day and still be called the same: clocks and midnights."""

DIFFERENCES = (
    "not_in_log", "not_on_invoice", "less_in_log", "more_in_log", "kinds_differ", "price_differs",
)  # fmt: skip
"""What a model and day may be; the first that holds is its difference."""

_COLUMNS = {
    "uncached_input": "uncached_tokens", "cache_read": "read_tokens", "cache_write": "written_tokens",
    "cache_write_long": "written_long_tokens", "output": "output_tokens",
}  # fmt: skip
_DATED = re.compile(r"-20\d\d-?[01]\d-?[0-3]\d$")


@dataclass(frozen=True, slots=True)
class Held:
    """One model on one day, on the invoice and in the log.

    Attributes:
        model: As the log has it, else as the invoice.
        day: ISO date, UTC.
        requests: In the log.
        log_tokens: By kind.
        invoice_tokens: By kind; kinds of which the invoice tells money alone are absent.
        log_cost: At the rates of the replay; None where the log pays in another currency.
        invoice_cost: As charged; None where the invoice tells tokens alone, or has other currencies.
    """

    model: str | None
    day: str
    requests: int
    log_tokens: Mapping[str, int]
    invoice_tokens: Mapping[str, int]
    log_cost: Decimal | None
    invoice_cost: Decimal | None

    @property
    def difference(self) -> str | None:
        """One of ``DIFFERENCES``; None where they are the same."""
        log, bill = sum(self.log_tokens.values()), sum(self.invoice_tokens.values())
        if not self.requests:
            return "not_in_log"
        if not bill and self.invoice_cost is None:
            return "not_on_invoice"
        if bill and not _near(log, bill):
            return "less_in_log" if log < bill else "more_in_log"
        if any(not _near(self.log_tokens.get(kind, 0), n, bill) for kind, n in self.invoice_tokens.items()):
            return "kinds_differ"
        priced = self.log_cost is not None and self.invoice_cost is not None
        if priced and not _near(float(self.log_cost or 0), float(self.invoice_cost or 0)):
            return "price_differs"
        return None


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A log beside an invoice.

    Attributes:
        currency: What the costs are in.
        days: Each model and day of either, in order of time.
        outside: Lines of the invoice on days outside the window.
        other_currency: Lines of the invoice in other currencies, whose money is not compared.
        by_kind: (kind, tokens in the log, tokens on the invoice), of the kinds that the invoice tells.
    """

    currency: str
    days: tuple[Held, ...]
    outside: int = 0
    other_currency: int = 0
    by_kind: tuple[tuple[str, int, int], ...] = field(default=())

    @property
    def log_tokens(self) -> int:
        """Tokens of the log on models and days that the invoice has."""
        return sum(sum(day.log_tokens.values()) for day in self.days if day.difference != "not_on_invoice")

    @property
    def invoice_tokens(self) -> int:
        """Tokens of the invoice."""
        return sum(sum(day.invoice_tokens.values()) for day in self.days)

    @property
    def log_cost(self) -> Decimal:
        """Money of the log on models and days of which the invoice tells money."""
        return sum((d.log_cost or Decimal(0) for d in self.days if d.invoice_cost is not None), Decimal(0))

    @property
    def invoice_cost(self) -> Decimal:
        """Money of the invoice."""
        return sum((day.invoice_cost or Decimal(0) for day in self.days), Decimal(0))

    @property
    def coverage(self) -> float | None:
        """What the log holds of the invoice: of its money where it tells any, else of its tokens."""
        if self.invoice_cost:
            return float(self.log_cost / self.invoice_cost)
        return self.log_tokens / self.invoice_tokens if self.invoice_tokens else None

    @property
    def differences(self) -> tuple[tuple[str, int, int, Decimal], ...]:
        """(difference, models and days, tokens of the log less those of the invoice, the same in money)."""
        found = []
        for name in DIFFERENCES:
            mine = [day for day in self.days if day.difference == name]
            if mine:
                tokens = sum(sum(d.log_tokens.values()) - sum(d.invoice_tokens.values()) for d in mine)
                money = sum((_apart(day) for day in mine), Decimal(0))
                found.append((name, len(mine), tokens, money))
        return tuple(found)


def reconcile(
    lines: Sequence[InvoiceLine], billed: Iterable[Mapping[str, Any]], window: Window
) -> Reconciliation:
    """Hold the lines of an invoice against the mart ``billed_days``.

    Args:
        lines: The invoice.
        billed: Rows of the mart: the log by model, day and currency.
        window: Only days (UTC) that begin in it are compared.
    """
    inside = [line for line in lines if _in(line.day, window)]
    rows = [dict(row) for row in billed]
    currency = _most_used(rows, inside)
    log: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        log.setdefault((row["day"], _plain(row["model"])), []).append(row)
    bill: dict[tuple[str, str], list[InvoiceLine]] = {}
    for line in inside:
        bill.setdefault((line.day, _plain(line.model)), []).append(line)
    days = tuple(
        _held(key[0], log.get(key, []), bill.get(key, []), currency) for key in sorted({*log, *bill})
    )
    told = [kind for kind in KINDS if any(kind in day.invoice_tokens for day in days)]
    return Reconciliation(
        currency=currency,
        days=days,
        outside=len(lines) - len(inside),
        other_currency=sum(1 for line in inside if line.amount is not None and line.currency != currency),
        by_kind=tuple(
            (kind, sum(d.log_tokens.get(kind, 0) for d in days), sum(d.invoice_tokens.get(kind, 0) for d in days))
            for kind in told
        ),
    )  # fmt: skip


def _held(day: str, log: Sequence[Mapping[str, Any]], bill: Sequence[InvoiceLine], currency: str) -> Held:
    tokens: dict[str, int] = {}
    for line in bill:
        if line.tokens is not None:
            tokens[line.kind] = tokens.get(line.kind, 0) + line.tokens
    paid = [line.amount for line in bill if line.amount is not None and line.currency == currency]
    mine = [row["billed_cost"] for row in log if row["currency"] == currency]
    return Held(
        model=log[0]["model"] if log else bill[0].model,
        day=day,
        requests=sum(row["requests"] for row in log),
        log_tokens={kind: sum(row[name] for row in log) for kind, name in _COLUMNS.items()},
        invoice_tokens=tokens,
        log_cost=sum(mine, Decimal(0)) if mine or not log else None,
        invoice_cost=sum(paid, Decimal(0)) if paid else None,
    )


def _apart(day: Held) -> Decimal:
    if day.log_cost is None or day.invoice_cost is None:
        return Decimal(0)
    return day.log_cost - day.invoice_cost


def _most_used(rows: Sequence[Mapping[str, Any]], lines: Sequence[InvoiceLine]) -> str:
    """Return the currency that most of the invoice is in, else that of the log."""
    told = [line.currency for line in lines if line.amount is not None] or [row["currency"] for row in rows]
    return max(sorted(set(told)), key=told.count) if told else "USD"


def _in(day: str, window: Window) -> bool:
    begin_us = datetime_us(datetime.fromisoformat(day).replace(tzinfo=UTC))
    return window.from_us <= begin_us + 86_400_000_000 - 1 and begin_us < window.to_us


def _plain(model: str | None) -> str:
    """Return a model as both may call it: in lower case, dashes for dots, without the day of a snapshot."""
    return _DATED.sub("", (model or "").lower().replace(".", "-"))


def _near(one: float, other: float, of: float | None = None) -> bool:
    return abs(one - other) <= NEAR * max(abs(of if of is not None else other), 1e-9)
