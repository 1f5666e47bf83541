"""What the terminal shows at the end: the account, the files, and the verdict last, where the eye falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.advice_parts import advice_lines
from prefixledger.report.books import rate
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import clean, percent, whole
from prefixledger.report.verdict import verdict
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from prefixledger.report.books import Book
    from prefixledger.report.view import ReportView
    from prefixledger.report.write import Written


@dataclass(frozen=True, slots=True)
class Summary:
    """A report in a few lines.

    Attributes:
        verdict: The sentence.
        caveats: What it rests on.
        account: (line, tokens, share), formatted.
        files: What was written.
        advice: What to do.
    """

    verdict: str
    caveats: tuple[str, ...]
    account: tuple[tuple[str, str, str], ...]
    files: tuple[str, ...]
    advice: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return plain text, no wider than its longest sentence."""
        found = [*set_out(self.account), ""] if self.account else []
        found += [f"wrote {name}" for name in self.files]
        found += ["", *self.advice, ""] if self.advice else [""]
        found += [*self.caveats, self.verdict]
        return tuple(found)


def accounts_of(*named: tuple[str, Book]) -> tuple[tuple[str, ...], ...]:
    """Return accounts beside each other: a line of names, then of each line what it is, and tokens and share of each account.

    A cause that none of them has is left out, as in ``account_of``; nothing where one has no lookups.
    """
    books = [book for _, book in named]
    if not all(book.requests for book in books):
        return ()
    causes = [cause for cause in CAUSES if any(book.misses.get(cause) for book in books)]
    lines = [("asked", [book.prompt_tokens for book in books]), ("hits", [book.hit_tokens for book in books])]
    lines += [(cause_name(cause), [book.misses.get(cause, 0) for book in books]) for cause in causes]
    lines += [("not accounted for", [book.residual_tokens for book in books])]
    head = ("", *(cell for name, _ in named for cell in (name, "")))
    return (
        head,
        *(
            (
                what,
                *(
                    cell
                    for count, book in zip(tokens, books, strict=True)
                    for cell in (whole(count), percent(rate(count, book.prompt_tokens)))
                ),
            )
            for what, tokens in lines
        ),
    )


def account_of(book: Book) -> tuple[tuple[str, str, str], ...]:
    """Return an account as lines of what, tokens and share; nothing without lookups."""
    return tuple((what, tokens, share) for what, tokens, share in accounts_of(("", book))[1:])


def set_out(account: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return the lines of an account, or of several beside each other, below each other."""
    widths = [max(map(len, column)) for column in zip(*account, strict=True)]
    return tuple(
        "  ".join(
            f"{cell:>{width}}" if number else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in account
    )


def summary(view: ReportView, written: Written | None = None) -> Summary:
    """Sum a report up for the terminal.

    Args:
        view: The data.
        written: Where the files are; None where nothing was written.
    """
    found = verdict(view)
    account = account_of(view.result.total)
    files = () if written is None else (str(written.html), str(written.json), f"{written.csv}/")
    return Summary(
        clean(found.sentence, 1000),
        tuple(clean(c, 1000) for c in found.caveats),
        account,
        files,
        tuple(clean(line, 1000) for line in advice_lines(view)),
    )
