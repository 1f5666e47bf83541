"""The rows of the account: every cause with its tokens in each book, its excess cost and its details."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.glossary import CAUSE_TERMS, WHERE_NAMES, detail_name
from prefixledger.report.numbers import clean
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from decimal import Decimal

    from prefixledger.report.books import Book, Detail
    from prefixledger.report.view import ReportView

_DETAILS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class DetailRow:
    """One line beneath a cause."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One cause in the account.

    Attributes:
        cause: Key of the cause.
        name: Its label.
        gloss: What it means.
        tokens: Missed tokens in each of the books, in their order.
        excess: Excess cost per currency.
        details: Lines beneath it.
    """

    cause: str
    name: str
    gloss: str
    tokens: tuple[int, ...]
    excess: tuple[Decimal | None, ...]
    details: tuple[DetailRow, ...]


def account_rows(view: ReportView, books: tuple[Book, ...]) -> tuple[AccountRow, ...]:
    """Return the causes that the account shows, in the order of the bar.

    Args:
        view: The data.
        books: The columns of the account.
    """
    result = view.result
    rows = []
    for cause in CAUSES:
        tokens = tuple(book.misses.get(cause, 0) for book in books)
        if cause == "unexplained" and not any(tokens):
            continue  # occurs in the books of rows without keys only
        rows.append(
            AccountRow(
                cause,
                CAUSE_TERMS[cause].name,
                CAUSE_TERMS[cause].gloss,
                tokens,
                tuple(bill.by_cause.get(cause) for bill in result.costs),
                _details(result.details, cause),
            )
        )
    return tuple(rows)


def _details(details: tuple[Detail, ...], cause: str) -> tuple[DetailRow, ...]:
    """Return the lines beneath a cause, the smallest of many as one."""
    named = [d for d in details if d.cause == cause and d.tokens and (d.detail or d.where)]
    rows = [DetailRow(_detail_words(d), d.tokens) for d in named[:_DETAILS_SHOWN]]
    rest = named[_DETAILS_SHOWN:]
    if rest:
        rows.append(DetailRow(f"{len(rest):,} more", sum(d.tokens for d in rest)))
    return tuple(rows)


def _detail_words(detail: Detail) -> str:
    if detail.cause == "misrouted":
        return f"held by {clean(detail.detail or 'another replica', 40)}"
    words = (detail_name(detail.detail), WHERE_NAMES.get(detail.where or ""))
    return clean(", ".join(word for word in words if word), 100)
