"""Money in the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.numbers import finite, significant

if TYPE_CHECKING:
    from prefixledger.report import document
    from prefixledger.report.money import Spend


def spend_value(row: Spend) -> document.Spend:
    """Return what some lookups cost; a saving below 0 is a loss."""
    return {
        "field": row.field,
        "value": row.value,
        "currency": row.currency,
        "requests": row.requests,
        "prompt_tokens": row.prompt_tokens,
        "output_tokens": row.output_tokens,
        "read_tokens": row.read_tokens,
        "written_tokens": row.written_tokens,
        "uncached_tokens": row.uncached_tokens,
        "unread_tokens": row.unread_tokens,
        "uncached": finite(row.uncached),
        "actual": finite(row.actual),
        "output": finite(row.output),
        "saved": finite(row.saved),
        "saved_share": significant(row.saved_share),
        "wasted": finite(row.wasted),
    }
