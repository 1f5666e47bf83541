"""A log read once, so that many scenarios can be tried on it in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.chains import build_chains
from prefixledger.replay.engine_events import tell_events
from prefixledger.replay.engine_facts import read_engine_facts
from prefixledger.replay.logged_capacity import settle_capacity
from prefixledger.replay.named_events import name_events
from prefixledger.replay.notes import log_notes
from prefixledger.replay.pages import in_pages
from prefixledger.replay.plan import make_plan, placed_anew
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.routing import needs_capacity
from prefixledger.replay.seeds import other_draws
from prefixledger.replay.stage import read_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.replay.chains import Chains
    from prefixledger.replay.engine_facts import EngineFact
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import Plan, PoolPlan
    from prefixledger.replay.sampled import Sample
    from prefixledger.replay.tally import OwnPieces
    from prefixledger.replay.touches import Touches
    from prefixledger.workspace import Workspace


@dataclass(slots=True)
class _Once:
    """A plan that one thread makes and the others wait for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A log, its forest, and the plans that were made on it; threads may share it.

    Attributes:
        log: All rows, lookups and blocks.
        chains: The forest, cut into chains.
        facts: What engines said of themselves.
        events: From event files; they hold in every scenario.
        touches: Of pools whose order of admission does not depend on capacity and TTL, by the identity of ``PoolPlan.mine``,
            which a routed plan keeps, and the profile.
        pieces: What ``tally`` makes of these, by the same.
        changes: See ``changed_tally``, for pools of this kind alone.
        anew: Pools placed under other seeds, by the same identity and the seed.
        about: What every plan has to say of the log.
        sample: What of a larger log this is; None: all of it.
    """

    log: Log
    chains: Chains
    facts: tuple[EngineFact, ...]
    events: tuple[Event, ...]
    touches: dict[tuple[int, str], Touches]
    pieces: dict[tuple[int, str], OwnPieces]
    anew: dict[tuple[int, int], PoolPlan]
    changes: dict[tuple[tuple[int, str], ...], tuple[NDArray[np.int64], ...]]
    about: tuple[str, ...]
    _routed: dict[str, _Once]
    _lock: threading.Lock
    sample: Sample | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Leave behind what can be made again when a log goes to another process."""
        return prepared, (self.log, self.facts, self.events, self.sample)

    def settle(self, scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
        """Put the capacities that engines printed in place of ``from-log``, and say so.

        Raises:
            UsageError: No log prints a capacity of a pool.
        """
        return settle_capacity(scenario, self.log, self.facts)

    def plan(self, scenario: Scenario) -> Plan:
        """Return who asks whom and under what rules.

        Scenarios that differ in capacity, lifetime and prices alone share what was routed once, unless the router itself
        goes by the capacity.

        Args:
            scenario: Settled.

        Raises:
            UsageError: The scenario does not fit the log.
        """
        unsized = _unsized(scenario)
        with self._lock:
            once = self._routed.setdefault(unsized.model_dump_json(), _Once())
        with once.lock:
            if once.plan is None:
                once.plan = self._make(unsized)
        routed = once.plan
        pools = tuple(
            replace(
                plan,
                pool=scenario.pool[plan.index],
                capacity_blocks=self._capacity_blocks(scenario.pool[plan.index], plan.block_size),
                ttl_us=scenario.pool[plan.index].cache.ttl_us,
            )
            for plan in routed.pools
        )
        return replace(routed, pools=pools)

    def _capacity_blocks(self, pool: Pool, block_size: int) -> int | None:
        """Return what a replica may hold; of a sample its part, which must still take the largest prompt."""
        whole = pool.capacity_blocks(block_size)
        if self.sample is None:
            return whole
        if pool.tier is not None or pool.in_flight.max_running is not None:
            raise UsageError(
                "a sample has no lower tier and no limit on running requests: what they do does not shrink with the log",
                hint="leave --sample out",
            )
        if whole is None:
            return None
        blocks = self.sample.capacity_blocks(whole)
        largest = -(-int(self.log.lookups.prompt_tokens.max(initial=1)) // block_size)
        if blocks < largest:
            raise UsageError(
                f"a sample of {100 * self.sample.share:.3g} % leaves {blocks:,} of {whole:,} blocks of a cache, and the largest "
                f"prompt has {largest:,}",
                hint="sample a larger share, or leave --sample out",
            )
        return blocks

    def drawn_hits(self, plan: PoolPlan, scenario: Scenario, hit_tokens: int) -> Iterator[int]:
        """Yield the hit tokens of a pool under each seed of the scenario, that of the replay first; nothing if none is drawn.

        Args:
            plan: The pool.
            scenario: Its seed, and how many seeds it asks for.
            hit_tokens: Hits of the replay.
        """
        others = other_draws(plan, scenario)
        if others:
            yield hit_tokens
        for number in others:
            key = (id(plan.mine), scenario.seed + number)
            placed = self.anew.get(key)
            if placed is None:
                placed = self.anew[key] = placed_anew(plan, self.log, scenario.seed + number)
            again = replace(plan, replica=placed.replica, branch=placed.branch)
            same = np.array_equal(again.replica, plan.replica)
            run = None if same else run_pool(again, self.log, self.chains, evidence=False)
            yield hit_tokens if run is None else int(run.hit_blocks.sum()) * plan.block_size

    def _make(self, scenario: Scenario) -> Plan:
        told = tell_events(scenario, self.log, self.facts)
        events = name_events(scenario, (*self.events, *told.events))
        plan = make_plan(self.log, scenario, events, self.about)
        return replace(plan, notes=(*told.notes, *plan.notes))


def prepare(
    workspace: Workspace,
    scenario: Scenario,
    events: Sequence[Event] = (),
    columns: Iterable[str] = (),
    *,
    keys: bool = True,
) -> Prepared:
    """Read the requests and the forest of an indexed workspace.

    Args:
        workspace: Where they are.
        scenario: For the columns that its pools are matched by, and the pages that they ask for.
        events: From event files.
        columns: More columns of the requests.
        keys: Whether a router or a page goes by the keys of blocks; most of what is read are keys.

    Raises:
        UsageError: The log cannot be looked up at all.
        InputError: The index is older than what was ingested.
        InputError: The workspace holds nothing to replay.
    """
    log = in_pages(read_log(workspace, scenario, columns, keys=keys), scenario).log
    return prepared(log, read_engine_facts(workspace), events)


def prepared(
    log: Log,
    facts: Sequence[EngineFact] = (),
    events: Sequence[Event] = (),
    sample: Sample | None = None,
) -> Prepared:
    """Prepare a log that is in memory already."""
    return Prepared(
        log=log,
        chains=build_chains(log.forest.parent),
        facts=tuple(facts),
        events=tuple(events),
        touches={},
        pieces={},
        anew={},
        changes={},
        about=tuple(log_notes(log)),
        _routed={},
        _lock=threading.Lock(),
        sample=sample,
    )


def _unsized(scenario: Scenario) -> Scenario:
    """Return a scenario without what no router and no residence goes by."""
    return scenario.model_copy(
        update={"name": "", "pricing": None, "pool": tuple(_unsized_pool(pool) for pool in scenario.pool)}
    )


def _unsized_pool(pool: Pool) -> Pool:
    if needs_capacity(pool.fleet.options) or pool.tier is not None or pool.hosted:
        return pool.model_copy(update={"pricing": None})
    cache = pool.cache.model_copy(update={"capacity": "unlimited", "ttl": "none"})
    return pool.model_copy(update={"cache": cache, "pricing": None, "model": None})
