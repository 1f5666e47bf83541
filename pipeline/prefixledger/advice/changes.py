"""Scenarios with one thing changed: the routing of a pool, its memory, or the marks of some of its traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefixledger.config.events import in_order
from prefixledger.config.made_fleet_events import renamed
from prefixledger.config.match import Match
from prefixledger.config.registry import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.config.models import Pool, Scenario


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to a pool.

    Attributes:
        pool: Its name.
        cache: Values of its cache that are set.
        fleet: Values of its fleet that are set.
        tier: Its lower tier; None leaves it.
        logged: Names of its replicas as logged, which another routing replaces by made ones; empty where it stays.
        field: The column that ``values`` are of; empty: the change is for all of its traffic.
        values: The traffic that it is for.
    """

    pool: str
    cache: tuple[tuple[str, Any], ...] = ()
    fleet: tuple[tuple[str, Any], ...] = ()
    tier: Any = None
    logged: tuple[str, ...] = ()
    field: str = ""
    values: tuple[str, ...] = ()

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this change; a part of a pool's traffic becomes a pool in front of it."""
        pools: list[Pool] = []
        events = scenario.event
        for pool in scenario.pool:
            if pool.name != self.pool:
                pools.append(pool)
                continue
            changed = self._changed(pool)
            if self.logged:
                events = tuple(one for event in events for one in renamed(event, pool.name, self.logged))
            if not self.field:
                pools.append(changed)
                continue
            values = tuple(_literal(value) for value in self.values)
            match = (pool.match or Match()).model_copy(update={self.field: values})
            apart = f"{pool.name}, {dict(self.cache).get('mark_ttls')} {dict(self.cache).get('ttl')}"
            pools += [changed.model_copy(update={"name": apart, "match": match}), pool]
        return scenario.model_copy(update={"pool": tuple(pools), "event": in_order(events)})

    def _changed(self, pool: Pool) -> Pool:
        update: dict[str, Any] = {"cache": pool.cache.model_copy(update=dict(self.cache))}
        if self.fleet:
            fleet = pool.fleet.model_copy(update=dict(self.fleet))
            # Options are those of one router; another gets its own, with its defaults.
            update["fleet"] = fleet.model_copy(update={"router": fleet.options})
        if self.tier is not None:
            update["tier"] = self.tier
        return pool.model_copy(update=update)


def applied(scenario: Scenario, changes: Sequence[Change]) -> Scenario:
    """Return the scenario with all changes, those of a part of the traffic last."""
    for change in sorted(changes, key=lambda change: bool(change.field)):
        scenario = change.apply(scenario)
    return scenario


def marks(profile: str, kind: str) -> Mapping[str, Any]:
    """Return the values of a cache in which all marks live for ``kind``: a lifetime, ``split`` or ``none``."""
    default = PROFILES[profile].ttls[0]
    if kind == "none":
        return {"mark_ttls": "off", "ttl": default}
    if kind == "split":
        return {"mark_ttls": "long-heads", "ttl": default}
    return {"mark_ttls": "all", "ttl": kind}


def _literal(value: str) -> str:
    """Return a glob that matches this value alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in value)
