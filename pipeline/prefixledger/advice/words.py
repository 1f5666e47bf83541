"""The sentences around an advice: how sure it is, and what to look at a week later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prefixledger.advice.parts import CONFIDENCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.advice.parts import Effect

MOST_NAMED = 4


def named(values: Sequence[str]) -> str:
    """Name some values, and count those that are too many to name."""
    shown = list(values[:MOST_NAMED])
    more = len(values) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def moment(at_us: int) -> str:
    """Name a moment, UTC."""
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%d %b %H:%M}"


def money(amount: float, currency: str) -> str:
    """Name an amount."""
    if currency == "USD":
        return f"${abs(amount):,.2f}"
    return f"{abs(amount):,.0f} {currency}" if abs(amount) >= 100 else f"{abs(amount):.3g} {currency}"  # noqa: PLR2004


def confidence(
    effect: Effect, *, chosen: bool, apart: bool, billed: bool, doubts: Sequence[str] = ()
) -> tuple[str, str]:
    """Return how sure an advice is, and why.

    Args:
        effect: What it comes to.
        chosen: Whether it was the best of several.
        apart: Whether other days judged it than those it was chosen on.
        billed: Whether usage in the log confirms the replay.
        doubts: What speaks against the replay.
    """
    reasons, level = [], 0
    if doubts:
        reasons.append("the replay does not reproduce what was billed")
        level = 2
    if not effect.certain:
        reasons.append("the log has too few sessions and days to tell it from noise")
        level = 2
    if chosen and not apart:
        reasons.append("it was judged on the days that it was chosen on")
        level = max(level, 1)
    if not billed and not doubts:
        reasons.append("no usage in the log confirms the replay")
        level = max(level, 1)
    good = []
    if chosen and apart:
        good.append("it was judged on other days than those it was chosen on")
    if effect.certain:
        good.append("its interval is above nothing")
    because = "; but ".join(part for part in (" and ".join(good), " and ".join(reasons)) if part)
    return CONFIDENCES[level], f"{because[:1].upper()}{because[1:]}."


def verify(effect: Effect, where: str) -> str:
    """Say what to look at a week after it was done."""
    direction = "rise" if effect.tokens >= 0 else "fall"
    rate = 100 * abs(effect.tokens) / max(effect.prompt_tokens, 1)
    low, high = sorted(
        100 * abs(end) / max(effect.prompt_tokens, 1) for end in (effect.tokens_low, effect.tokens_high)
    )
    between = f" (between {low:.1f} and {high:.1f})" if effect.certain else ""
    money = ""
    if effect.saved_share is not None and effect.currency != "prefill tokens":
        verb = "fall" if effect.saved_share >= 0 else "rise"
        money = f", and the bill for its input {verb} by {100 * abs(effect.saved_share):.0f} %"
    return (
        f"Report on the week after: the token hit rate of {where} should {direction} by {rate:.1f} points{between}{money}, "
        "with the same traffic."
    )
