"""The verbs that look something up and need no workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prefixledger.config.scenario import Scenario
    from prefixledger.economics.rate_sheet import RateSheet
    from prefixledger.ingest.howto import HowTo
    from prefixledger.ingest.reader import FormatInfo


def formats(*, how: bool = False) -> tuple[FormatInfo | HowTo, ...]:
    """Return the log formats that are read, in the order in which they are recognised.

    Args:
        how: Return instead which switch of which engine or gateway makes a log that can be replayed, best first.
    """
    if how:
        from prefixledger.ingest.howto import HOW

        return HOW
    from prefixledger.ingest.formats import READERS

    return tuple(reader.info for reader in READERS)


def rates(model: str, *, provider: str | None = None, at: str | None = None) -> RateSheet:
    """Show what a model charges and by which rules it caches, and where each of that is from; nothing is fetched.

    Args:
        model: Model as a provider or a gateway writes it.
        provider: Provider; None: the model alone decides.
        at: Moment, ISO 8601: prices have dates, and some times of day; None is now.

    Raises:
        UsageError: The model has no price, or ``at`` is no time; the names nearest to the model are listed.
    """
    from prefixledger import stages

    return stages.rates(model, provider, at)


def print_scenario(
    *, scenario: Sequence[Scenario | str | Path] = (), replica_grace: str | None = None
) -> str:
    """Return scenarios as TOML with every default; see ``replay`` for the arguments."""
    from prefixledger import stages
    from prefixledger.config.scenario import dump

    return "\n".join(dump(one) for one in stages.ask(scenario, (), replica_grace).scenarios)
