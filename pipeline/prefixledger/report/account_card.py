"""An account as the bar that a notebook shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.cards import Bar, Part
from prefixledger.report.glossary import cause_name
from prefixledger.report.numbers import percent
from prefixledger.report.palette import SERIES
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Mapping


def account_bar(name: str, hit_tokens: int, misses: Mapping[str, int]) -> Bar | None:
    """Return hits and then the causes that took any, with the colours of the report; None without tokens.

    Args:
        name: Whose account it is; empty where there is only one.
        hit_tokens: Tokens that hit.
        misses: Missed tokens by cause.
    """
    tokens = {"hit": hit_tokens, **{cause: misses.get(cause, 0) for cause in CAUSES}}
    asked = sum(tokens.values())
    if not asked:
        return None
    return Bar(
        name,
        tuple(
            Part(
                "hits" if key == "hit" else cause_name(key),
                count / asked,
                percent(count / asked),
                SERIES[key].light,
                SERIES[key].dark,
            )
            for key, count in tokens.items()
            if count or key == "hit"
        ),
    )


def bars(*accounts: tuple[str, int, Mapping[str, int]]) -> tuple[Bar, ...]:
    """Return the bars of those accounts that have tokens."""
    return tuple(bar for account in accounts if (bar := account_bar(*account)) is not None)
