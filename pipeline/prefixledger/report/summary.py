"""What the terminal shows at the end: the account, the files, and the verdict last, where the eye falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.advice_parts import advice_lines
from prefixledger.report.books import rate
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import NO_VALUE, clean, percent, whole
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


def account_of(book: Book) -> tuple[tuple[str, str, str], ...]:
    """Return an account as lines of what, tokens and share; nothing without lookups."""
    if not book.requests:
        return ()
    asked = book.prompt_tokens
    return (
        ("asked", whole(asked), percent(rate(asked, asked))),
        ("hits", whole(book.hit_tokens), percent(book.token_hit_rate)),
        *(
            (cause_name(cause), whole(book.misses[cause]), percent(rate(book.misses[cause], asked)))
            for cause in CAUSES
            if book.misses.get(cause)
        ),
        (
            "not accounted for",
            whole(book.residual_tokens),
            percent(rate(book.residual_tokens, asked)) if asked else NO_VALUE,
        ),
    )


def set_out(account: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
    """Return the lines of an account below each other."""
    widths = [max((len(row[column]) for row in account), default=0) for column in range(3)]
    return tuple(
        f"{name:<{widths[0]}}  {tokens:>{widths[1]}}  {share:>{widths[2]}}" for name, tokens, share in account
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
