"""Events that name replicas of a log, for the fleet that stands in their place where another routing places requests."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.events import Event


def renamed(
    event: Event, pool: str | None, logged: Sequence[str], replicas: int | None = None
) -> tuple[Event, ...]:
    """Return an event for made replicas: the first logged one is ``r0``.

    Args:
        event: As logged.
        pool: Name of the pool whose replicas are made.
        logged: Names of its replicas in the log, in order.
        replicas: How many are made; what struck others struck nobody. None: as many.
    """
    mine = event.pool is None or fnmatchcase(pool or "", event.pool)
    if event.replica is None or not mine:
        return (event,)
    struck = [number for number, name in enumerate(logged) if fnmatchcase(name, event.replica)]
    if not struck:
        return (event,)
    there = [number for number in struck if replicas is None or number < replicas]
    return tuple(event.model_copy(update={"replica": f"r{number}", "pool": pool}) for number in there)
