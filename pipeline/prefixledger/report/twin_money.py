"""Money in the JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefixledger.report.numbers import significant

if TYPE_CHECKING:
    from prefixledger.report.money import Spend


def spend_value(row: Spend) -> dict[str, Any]:
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
        "uncached": significant(row.uncached),
        "actual": significant(row.actual),
        "output": significant(row.output),
        "saved": significant(row.saved),
        "saved_share": significant(row.saved_share),
        "wasted": significant(row.wasted),
    }
