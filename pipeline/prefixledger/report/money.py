"""Money as plain data: who pays how much, and what it would be without the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.config.pricing import PREFILL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from decimal import Decimal

    import pyarrow as pa

FIELD_TITLES = {
    "model": "By model",
    "tenant": "By tenant",
    "provider": "By provider",
    "service_tier": "By service tier",
    "day": "By day",
}
"""Cuts of the money in the order of the page."""
LABELS = "labels."
"""Before the name of a label in the field of a cut."""
_SHOWN = 20
_DAYS_SHOWN = 62


@dataclass(frozen=True, slots=True)
class Spend:
    """What some lookups cost.

    Attributes:
        field: ``all``, or what they have in common: model, tenant, provider, service_tier or day.
        value: Its value; None where the log does not say.
        currency: What the amounts are in.
        requests: How many there are.
        prompt_tokens: Their tokens: read, written and the rest.
        output_tokens: What they generated.
        read_tokens: Read from the cache.
        written_tokens: Written to it.
        uncached_tokens: Neither.
        unread_tokens: Written, and read by nobody to the end of the log.
        uncached: What input and output would cost without a cache.
        actual: What they cost.
        output: The part of both that is output.
        wasted: What writing the unread cost above uncached input.
    """

    field: str
    value: str | None
    currency: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    read_tokens: int
    written_tokens: int
    uncached_tokens: int
    unread_tokens: int
    uncached: Decimal
    actual: Decimal
    output: Decimal
    wasted: Decimal

    @property
    def saved(self) -> Decimal:
        """What the cache saves; below 0 it costs more than it saves."""
        return self.uncached - self.actual

    @property
    def saved_share(self) -> float | None:
        """The saving over the whole bill without a cache, output included; None where that is nothing."""
        return float(self.saved / self.uncached) if self.uncached else None


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one field as the page shows them.

    Attributes:
        title: Heading of the table.
        head: Heading of its first column.
        rows: Days in order of time, else the dearest first.
        left_out: Rows that are not shown.
    """

    title: str
    head: str
    rows: tuple[Spend, ...]
    left_out: int


def spends(mart: pa.Table) -> tuple[Spend, ...]:
    """Read the mart ``spend``."""
    return tuple(
        Spend(
            row["field"],
            row["value"],
            row["currency"],
            row["requests"],
            row["prompt_tokens"],
            row["output_tokens"],
            row["read_tokens"],
            row["written_tokens"],
            row["uncached_tokens"],
            row["unread_tokens"],
            row["uncached_cost"],
            row["actual_cost"],
            row["output_cost"],
            row["wasted_cost"],
        )
        for row in mart.to_pylist()
    )


def paid(rows: Iterable[Spend]) -> tuple[Spend, ...]:
    """Return the rows in money: prefill tokens of an engine are on no invoice."""
    return tuple(row for row in rows if row.currency != PREFILL_TOKENS)


def cuts(rows: Iterable[Spend]) -> tuple[Cut, ...]:
    """Return the tables of the page: a field with one value says no more than the whole."""
    money = paid(rows)
    found = []
    for field, title in FIELD_TITLES.items():
        mine = [row for row in money if row.field == field]
        if len(mine) > 1:
            shown = mine[-_DAYS_SHOWN:] if field == "day" else mine[:_SHOWN]
            found.append(Cut(title, field.replace("_", " "), tuple(shown), len(mine) - len(shown)))
    return (*found, *_label_cuts(money))


def _label_cuts(money: Iterable[Spend]) -> Iterator[Cut]:
    """Yield the cut by each label under which some pay for writes that nobody reads, and others do not."""
    by_label: dict[str, list[Spend]] = {}
    for row in money:
        if row.field.startswith(LABELS):
            by_label.setdefault(row.field.removeprefix(LABELS), []).append(row)
    for name, mine in sorted(by_label.items()):
        if any(row.wasted > 0 for row in mine) and any(row.wasted <= 0 for row in mine):
            shown, head = tuple(mine[:_SHOWN]), name.replace("_", " ")
            yield Cut(f"By {head}", head, shown, len(mine) - len(shown))


def losing(rows: Iterable[Spend]) -> tuple[Spend, ...]:
    """Return the models and tenants whose cache costs more than it saves, the largest loss first."""
    found = [row for row in paid(rows) if row.field in {"model", "tenant"} and row.saved < 0]
    return tuple(sorted(found, key=lambda row: (row.saved, row.field, row.value or "")))
