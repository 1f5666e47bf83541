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
        found: list[str] = []
        if self.account:
            widths = [max(len(row[column]) for row in self.account) for column in range(3)]
            found += [
                f"{name:<{widths[0]}}  {tokens:>{widths[1]}}  {share:>{widths[2]}}"
                for name, tokens, share in self.account
            ]
            found.append("")
        found += [f"wrote {name}" for name in self.files]
        found += ["", *self.advice, ""] if self.advice else [""]
        found += [*self.caveats, self.verdict]
        return tuple(found)


def summary(view: ReportView, written: Written | None = None) -> Summary:
    """Sum a report up for the terminal.

    Args:
        view: The data.
        written: Where the files are; None where nothing was written.
    """
    found = verdict(view)
    total = view.result.total
    account: list[tuple[str, str, str]] = []
    if total.requests:
        asked = total.prompt_tokens
        account = [
            ("asked", whole(asked), percent(rate(asked, asked))),
            ("hits", whole(total.hit_tokens), percent(total.token_hit_rate)),
        ]
        account += [
            (cause_name(cause), whole(total.misses[cause]), percent(rate(total.misses[cause], asked)))
            for cause in CAUSES
            if total.misses.get(cause)
        ]
        account.append(
            (
                "not accounted for",
                whole(total.residual_tokens),
                percent(rate(total.residual_tokens, asked)) if asked else NO_VALUE,
            )
        )
    files = () if written is None else (str(written.html), str(written.json), f"{written.csv}/")
    return Summary(
        clean(found.sentence, 1000),
        tuple(clean(c, 1000) for c in found.caveats),
        tuple(account),
        files,
        tuple(clean(line, 1000) for line in advice_lines(view)),
    )
