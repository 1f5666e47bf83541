"""Calls that are said to keep prefixes alive, beside those that the log shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from prefixledger.report.numbers import amount, clean, count, duration, iso
from prefixledger.report.parts import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prefixledger.report import document


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Calls of one model and tenant between the requests of its conversations.

    Attributes:
        pool: Pool that has such calls; None for lookups without keys.
        model: Name of the model; None where the log names none.
        tenant: The tenant; None where the log names none.
        interval_us: A call is due after each, start to start.
        gaps: Gaps in which one was due.
        expected_calls: Calls that were due in all.
        seen_calls: Calls of these that the log shows.
        lost_gaps: Gaps in which some were missing.
        missed_tokens: What the requests behind those did not find although it was there before.
        first_us: When the first of those requests came; None where no call was missing.
    """

    pool: int | None
    model: str | None
    tenant: str | None
    interval_us: int
    gaps: int
    expected_calls: int
    seen_calls: int
    lost_gaps: int
    missed_tokens: int
    first_us: int | None


def keep_alives(mart: pa.Table) -> tuple[KeepAlive, ...]:
    """Return the rows of the mart ``keep_alive``."""
    first = mart["first_at"].cast(pa.int64()).to_pylist()
    rows = mart.drop_columns(["first_at"]).to_pylist()
    return tuple(KeepAlive(**row, first_us=at_us) for row, at_us in zip(rows, first, strict=True))


def missing_calls(found: Iterable[KeepAlive]) -> tuple[Finding, ...]:
    """Return a finding for each model and tenant of whom calls are missing that were due."""
    return tuple(_missing(one) for one in found if one.lost_gaps)


def keep_alive_value(row: KeepAlive) -> document.KeepAlive:
    """Return one row for the twin."""
    return {
        "pool": row.pool,
        "model": row.model,
        "tenant": row.tenant,
        "interval_s": row.interval_us / 1e6,
        "gaps": row.gaps,
        "expected_calls": row.expected_calls,
        "seen_calls": row.seen_calls,
        "lost_gaps": row.lost_gaps,
        "missed_tokens": row.missed_tokens,
        "first_at": iso(row.first_us),
    }


def _missing(one: KeepAlive) -> Finding:
    whose = clean(one.model or "a model without a name", 60)
    if one.tenant is not None:
        whose += f" for {clean(one.tenant, 40)}"
    return Finding(
        kind="keep_alive_missing",
        title=(
            f"calls that keep prefixes of {whose} alive every {duration(one.interval_us / 1e6)}: {amount(one.expected_calls)} "
            f"expected, {amount(one.seen_calls)} seen; after {count(one.lost_gaps, 'gap')} without them "
            f"{amount(one.missed_tokens)} tokens were not found any more"
        ),
        tokens=one.missed_tokens,
        from_us=one.first_us,
        where=f"model {clean(one.model, 60)}" if one.model else "",
        action="find out whether the client makes these calls, with the same prefix and cache marks, and whether the log holds them",
    )
