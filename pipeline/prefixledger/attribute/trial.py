"""Tries scenarios on a log in memory: what each comes to in tokens, before causes are named."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.attribute.askers import COLUMNS, find_askers
from prefixledger.attribute.loads import find_loads
from prefixledger.attribute.noise import draw_noise
from prefixledger.config.registry import PROFILES
from prefixledger.errors import UsageError
from prefixledger.replay.changed_tally import tell_changes
from prefixledger.replay.curves import capacity_curve
from prefixledger.replay.growth import grown
from prefixledger.replay.numbering import number_all
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.prepared import prepare, prepared
from prefixledger.replay.sampled import sampled
from prefixledger.replay.tally import tally_pool
from prefixledger.replay.touches import find_touches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.attribute.askers import Askers
    from prefixledger.attribute.loads import Loads
    from prefixledger.attribute.noise import Interval, Noise
    from prefixledger.attribute.prices import CardUse
    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.prepared import Prepared
    from prefixledger.replay.tally import PoolTally
    from prefixledger.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Trial:
    """What a scenario comes to, without a file being written.

    Attributes:
        scenario: Settled.
        askers: Who asked, and at what price.
        pools: Each pool with lookups.
        notes: What the reader must know.
    """

    scenario: Scenario
    askers: Askers
    pools: tuple[PoolTally, ...]
    notes: tuple[str, ...]

    @property
    def drawn(self) -> tuple[int, ...]:
        """For every seed, that of the replay first, hits beyond those of the replay; empty where no router draws."""
        parts = [pool.drawn_hit_tokens for pool in self.pools if pool.drawn_hit_tokens]
        return tuple(sum(hits) - sum(part[0] for part in parts) for hits in zip(*parts, strict=True))

    @property
    def currency(self) -> str | None:
        """The one currency of all prices; None where there are several."""
        found = {use.card.currency for use in self.askers.cards}
        return found.pop() if len(found) == 1 else None

    def by_arrival(self, name: str) -> NDArray[np.int64]:
        """Return a column of the tallies, ``hit_tokens``, ``written_tokens`` …, for every lookup of the log by arrival."""
        found = np.zeros(self.askers.group.size, np.int64)
        for pool in self.pools:
            found[pool.lookup] = getattr(pool, name)
        return found

    def paid(self, prompt_tokens: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return what the input of every lookup costs, to the precision of floats; None where currencies differ."""
        return None if self.currency is None else self.amounts(prompt_tokens)

    def amounts(self, prompt_tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the input of every lookup costs, each in the currency of its card."""
        cards = [self.askers.cards[card] for _, card in self.askers.groups]
        # A last row for lookups that pay nothing: those that only keep in use what a sample shares.
        prices = np.asarray([*(_prices(use) for use in cards), (0.0,) * _PRICES], np.float64)
        paid = prices[0] if len(prices) == 1 else prices[self.askers.group].T
        read, base, write, write_1h, rent = paid
        hit, written = (self.by_arrival(f"{name}_tokens") for name in ("hit", "written"))
        kept = written * write
        if any(
            pool.plan.pool.hosted for pool in self.pools
        ):  # nobody else asks to be kept for longer, or rents
            long = self.by_arrival("written_1h_tokens")
            kept = (written - long) * write + long * write_1h + self.by_arrival("storage_token_s") * rent
        amount: NDArray[np.float64] = hit * read + kept + (prompt_tokens - hit - written) * base
        return amount


@dataclass(frozen=True, slots=True)
class Trials:
    """A log on which scenarios are tried; threads may share it.

    Attributes:
        prepared: The log.
        noise: Draws of its sessions and days.
        origin: int64[m], for each lookup that of the log from which this one was made by copying sessions; None: itself.
    """

    prepared: Prepared
    noise: Noise
    origin: NDArray[np.int64] | None = None
    _before: list[tuple[Trial, NDArray[np.int64], NDArray[np.float64] | None]] = field(default_factory=list)
    _askers: dict[str, Askers] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave behind what can be made again when a log goes to another process."""
        return Trials, (self.prepared, self.noise, self.origin)

    @property
    def requests(self) -> pa.Table:
        """The request of every lookup, by arrival."""
        log = self.prepared.log
        return log.rows.table.take(pa.array(log.lookups.request_row))

    def keyed_anew(self, log: Log) -> Trials:
        """Return the same rows and lookups under other keys: who pays what price stays as it is."""
        old = self.prepared
        return replace(self, prepared=prepared(log, old.facts, old.events))

    def run(self, scenario: Scenario, *, causes: bool = True, known: Trial | None = None) -> Trial:
        """Replay a scenario; every hit and cause is that of a full replay.

        Args:
            scenario: What is tried.
            causes: Whether causes and draws of routers are asked for; hits and amounts are the same without.
            known: A trial of this log, whose pools are taken over where nothing about them is changed.

        Raises:
            UsageError: The scenario does not fit the log, or a model has no rate.
        """
        settled, told = self.prepared.settle(scenario)
        askers = self._asking(settled)
        plan = self.prepared.plan(settled)
        pools = tuple(
            _taken_over(known, pool) or tally_pool(self.prepared, pool, askers.group, settled, causes=causes)
            for pool in plan.pools
        )
        pools = tell_changes(self.prepared, pools, askers.group) if causes else pools
        sample = self.prepared.sample
        if sample is not None:
            pools = tuple(pool.of_lookups(sample.drawn, len(askers.groups)) for pool in pools)
        notes = (*told, *plan.notes, *(note for pool in pools for note in pool.notes))
        return Trial(settled, askers, pools, notes)

    def compare(
        self, trial: Trial, baseline: Trial, on: Trials | None = None
    ) -> tuple[Interval | None, Interval | None]:
        """Return the intervals of the change of the hit rate, in points, and of the cost of input, in percent.

        Args:
            trial: What is judged.
            baseline: A trial of this log.
            on: The log of ``trial``: this one, under other keys or with copies of its sessions, which are drawn with what
                they are copies of. Of another log there is no interval.
        """
        prompt_tokens, on = self.prompt_tokens, on or self
        theirs = on.prompt_tokens
        asked = on.of_origin(theirs)
        before, was = self._of_baseline(baseline)
        if on.origin is None and not np.array_equal(asked, prompt_tokens):
            return None, None
        after = on.of_origin(trial.by_arrival("hit_tokens"))
        rate = self.noise.of_share(after, before, prompt_tokens, None if on.origin is None else asked)
        paid = trial.paid(theirs)
        if paid is None or was is None or trial.currency != baseline.currency:
            return rate, None
        return rate, self.noise.of_change(on.of_origin(paid), was)

    def _of_baseline(self, baseline: Trial) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        """Return hits and amounts of a trial that many are compared with."""
        for known, hits, paid in self._before:
            if known is baseline:
                return hits, paid
        hits = baseline.by_arrival("hit_tokens")
        paid = baseline.paid(self.prompt_tokens)
        self._before.append((baseline, hits, paid))
        return hits, paid

    def of_origin(self, amount: NDArray[Any]) -> NDArray[Any]:
        """Add up what was copied on what it is a copy of."""
        if self.origin is None:
            return amount
        size = int(self.origin.max(initial=-1)) + 1
        return np.bincount(self.origin, amount, size).astype(amount.dtype)

    def smallest_capacity(self, scenario: Scenario, share: float) -> tuple[PoolPlan, int]:
        """Return the pool, and the blocks per replica from which on so large a share of the prompt tokens hits.

        Exact for one request at a time without output; what runs beside each other hits more or less.

        Args:
            scenario: What is replayed; of its capacity nothing is left.
            share: Above 0, below 1.

        Raises:
            UsageError: There are several pools, their cache is no stack, or no capacity hits so much.
        """
        settled, _ = self.prepared.settle(scenario)
        pools = self.prepared.plan(settled).pools
        plan = pools[0]
        stack = PROFILES[plan.pool.cache.profile].stack and not plan.pool.hosted and plan.pool.tier is None
        whole = self.prepared.sample is None and not self.prepared.log.lookups.bypassed.any()
        if len(pools) > 1 or not stack or not whole:
            raise UsageError(
                f"the capacity for a hit rate of {100 * share:g} % cannot be found: it takes one pool of profile vllm, without a "
                "lower tier, in which every request is looked up, and the whole log",
                hint="give capacities in numbers",
            )
        log = self.prepared.log
        run = run_pool(replace(plan, capacity_blocks=None), log, self.prepared.chains, evidence=False)
        curve = capacity_curve(find_touches(run.log, number_all([run]).resets[0]), ttl_us=plan.ttl_us)
        prompt_tokens = int(log.lookups.prompt_tokens.sum())
        found = curve.smallest_for(math.ceil(share * prompt_tokens / plan.block_size))
        if found is None:
            most = int(curve.hit_blocks[-1]) * plan.block_size / prompt_tokens
            raise UsageError(
                f"no capacity hits {100 * share:g} %: without a limit {100 * most:.1f} % hit",
                hint="ask for less, or choose another routing or lifetime",
            )
        return plan, found

    @property
    def prompt_tokens(self) -> NDArray[np.int64]:
        """int64[m], prompt tokens of every lookup by arrival; 0 where it only keeps in use what a sample shares."""
        found, sample = self.prepared.log.lookups.prompt_tokens, self.prepared.sample
        return found if sample is None else np.where(sample.drawn, found, 0)

    def sample_error_pp(self, trial: Trial) -> float | None:
        """Return how far the hit rate of a sample may be from that of all, in percentage points; None where this is all."""
        sample = self.prepared.sample
        if sample is None:
            return None
        return sample.error_pp(trial.by_arrival("hit_tokens"), self.prompt_tokens)

    def loads(self, trial: Trial) -> Loads:
        """Return the load of each replica."""
        return find_loads(trial, self.prompt_tokens)

    def _asking(self, scenario: Scenario) -> Askers:
        """Resolve prices once for all scenarios that have the same."""
        # What prices follow from, not the prices themselves: to work those out for 22 pools takes 4 ms a cell.
        pools = [(pool.cache.ttl, pool.cache.profile, pool.pricing) for pool in scenario.pool]
        key = repr((scenario.pricing, pools))
        with self._lock:
            if key not in self._askers:
                self._askers[key] = self._drawn(find_askers(self.prepared.log, scenario))
            return self._askers[key]

    def _drawn(self, askers: Askers) -> Askers:
        """Put lookups that a sample did not draw into a group of their own, behind all that pay."""
        sample = self.prepared.sample
        if sample is None:
            return askers
        group = np.where(sample.drawn, askers.group, len(askers.groups))
        output = np.maximum(self.prepared.log.lookups.output_tokens, 0)[sample.drawn]
        sums = np.bincount(group[sample.drawn], output, len(askers.groups)).astype(np.int64)
        return replace(askers, group=group, output_tokens=sums)


_PRICES = 5


def _taken_over(known: Trial | None, plan: PoolPlan) -> PoolTally | None:
    """Return a pool as it was tallied before, where the same lookups ask the same replicas under the same rules."""
    for tally in () if known is None else known.pools:
        was = tally.plan
        same = (was.pool, was.fleet.replicas, was.fleet.resets) == (
            plan.pool,
            plan.fleet.replicas,
            plan.fleet.resets,
        )
        if same and np.array_equal(was.mine, plan.mine) and np.array_equal(was.replica, plan.replica):
            return replace(tally, plan=plan)
    return None


def _prices(use: CardUse) -> tuple[float, ...]:
    card = use.card
    prices = (card.read, card.base, card.write_for(use.ttl_us), card.write_1h, card.storage_second)
    return tuple(float(price) for price in prices)


def grown_trials(trials: Trials, factor: float, seed: int) -> Trials:
    """Return the same with so many times the sessions; rows that report usage and have no keys are not copied.

    Args:
        trials: The log.
        factor: At least 1.
        seed: See ``grown``.
    """
    old, more = trials.prepared, grown(trials.prepared.log, factor, seed)
    return Trials(prepared(more.log, old.facts, old.events), trials.noise, more.origin)


def sampled_trials(trials: Trials, share: float, seed: int) -> Trials:
    """Return the same on a part of the log; see ``sampled``.

    Raises:
        UsageError: The log has rows that report usage and have no keys, which cannot be drawn by keys; or see there.
    """
    old = trials.prepared
    rows = old.log.rows.table
    alone = pc.and_(pc.invert(rows["keyed"]), pc.equal(rows["usage_state"], "present"))
    if pc.any(alone).as_py():
        raise UsageError(
            "the log has rows with usage and no keys, which no sample by keys can draw",
            hint="leave --sample out",
        )
    log, sample = sampled(old.log, share, seed)
    return Trials(prepared(log, old.facts, old.events, sample), draw_noise(log))


def open_trials(
    workspace: Workspace, scenario: Scenario, events: Sequence[Event] = (), *, keys: bool = True
) -> Trials:
    """Read an indexed workspace once, for all scenarios that are to be tried on it.

    Args:
        workspace: Where requests and index are.
        scenario: The baseline: all others match rows to pools as it does.
        events: From event files.
        keys: See ``prepare``.

    Raises:
        UsageError: The log cannot be looked up at all.
        InputError: The workspace holds nothing to replay.
    """
    scenario.check_events(tuple(events))
    log = prepare(workspace, scenario, events, COLUMNS, keys=keys)
    if not len(log.log.lookups):
        raise UsageError(
            "no request can be looked up, so nothing would change",
            hint="whatif needs logs with token ids, block ids or text; see prefixledger formats --how",
        )
    return Trials(log, draw_noise(log.log))
