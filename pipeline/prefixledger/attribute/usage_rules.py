"""What usage alone can be held to: the shortest stored prefix and the lifetimes of each row's provider and model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.config.provider_rules import rules_of
from prefixledger.config.units import parse_duration_us

if TYPE_CHECKING:
    from prefixledger.config.provider_rules import ProviderRules
    from prefixledger.config.scenario import Scenario

_PROMISED = ("fixed", "minimum")
"""A lifetime that is typical only, or best effort, proves nothing: entries come and go within it."""


@dataclass(frozen=True, slots=True)
class UsageRules:
    """Rules that usage of one model at one time is judged by.

    Attributes:
        minimum_tokens: Shortest prefix that is stored; None: not known.
        other_ttl_us: Lifetime of writes that the log gives no 5 minutes or 1 hour; None: not known.
        longest_ttl_us: The longest that can be had; None: not known.
    """

    minimum_tokens: int | None
    other_ttl_us: int | None
    longest_ttl_us: int | None


def usage_rules(
    scenario: Scenario, pool: int | None, provider: str | None, model: str | None, at_us: int
) -> UsageRules:
    """Return what a row is judged by; a pool of the scenario that says more is stronger than the rules.

    Args:
        scenario: Its pools may give ``ttl`` and ``minimum_tokens``.
        pool: Index of the row's pool; None outside all.
        provider: As logged.
        model: As logged.
        at_us: When it arrived.
    """
    rules = rules_of(provider or "", model or "", at_us)
    hosted = scenario.pool[pool] if pool is not None and scenario.pool[pool].hosted else None
    promised = rules.ttl_basis is not None and rules.ttl_basis.value in _PROMISED
    sold = _lifetimes(rules) if promised else []
    told = None if hosted is None else hosted.cache.ttl_us
    minimum = None if rules.minimum_tokens is None else int(rules.minimum_tokens.value)
    if hosted is not None and hosted.cache.minimum_tokens is not None:
        minimum = hosted.cache.minimum_tokens
    return UsageRules(
        minimum_tokens=minimum,
        other_ttl_us=told if told is not None and promised else (sold[0] if sold else None),
        longest_ttl_us=max(sold, default=None),
    )


def _lifetimes(rules: ProviderRules) -> list[int]:
    """Return the lifetimes that can be had in microseconds, the default first."""
    given = [parse_duration_us(ttl) for ttl in rules.ttls.value] if rules.ttls else []
    return [ttl_us for ttl_us in given if ttl_us is not None]
