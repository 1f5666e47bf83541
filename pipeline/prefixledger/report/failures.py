"""Prompts that failed again and again: they are in no rate, and somebody sends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from prefixledger.report.numbers import amount, clean, count, iso, span

if TYPE_CHECKING:
    from prefixledger.report import document
    from prefixledger.report.view import Window


@dataclass(frozen=True, slots=True)
class Failure:
    """One prompt that failed at least 3 times.

    Attributes:
        model: As asked for.
        tenant: Who asked.
        prompt_tokens: Its length; 0 where nobody counted it.
        requests: How often it failed.
        answered: How often the same prompt did not.
        first_us: When it first failed.
        last_us: When it last failed.
    """

    model: str | None
    tenant: str | None
    prompt_tokens: int
    requests: int
    answered: int
    first_us: int
    last_us: int

    def sentence(self, window: Window) -> str:
        """Say what failed, how often and when."""
        whose = f" of {clean(self.tenant, 40)}" if self.tenant is not None else ""
        model = clean(self.model or "a model without a name", 60)
        length = f" ({amount(self.prompt_tokens)} tokens)" if self.prompt_tokens else ""
        spared = (
            f", and was answered {count(self.answered, 'time')}"
            if self.answered
            else ", and never was answered"
        )
        return (
            f"The same prompt{whose} to {model}{length} failed {count(self.requests, 'time')} "
            f"{span(self.first_us, self.last_us, window)}{spared}"
        )


def failures(mart: pa.Table) -> tuple[Failure, ...]:
    """Return the rows of the mart ``failures``."""
    first, last = (mart[name].cast(pa.int64()).to_pylist() for name in ("first_at", "last_at"))
    rows = mart.drop_columns(["first_at", "last_at"]).to_pylist()
    return tuple(
        Failure(**row, first_us=begin, last_us=end) for row, begin, end in zip(rows, first, last, strict=True)
    )


def failure_value(row: Failure) -> document.Failure:
    """Return one row for the twin."""
    return {
        "model": row.model,
        "tenant": row.tenant,
        "prompt_tokens": row.prompt_tokens,
        "requests": row.requests,
        "answered": row.answered,
        "first_at": iso(row.first_us),
        "last_at": iso(row.last_us),
    }
