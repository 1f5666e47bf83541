"""The log that advice is judged on: as it is today, which days choose and which judge, and what a change comes to there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from prefixledger.advice.parts import Effect
from prefixledger.attribute.noise import draw_noise
from prefixledger.engine import LocalEngine, Work
from prefixledger.errors import UsageError
from prefixledger.replay.lookups import Lookups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.attribute.noise import Noise
    from prefixledger.attribute.trial import Trial, Trials
    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.engine import Engine
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.tally import PoolTally

TRIALS = Work("trials", "tries a change", threads=True)
DAY_US = 86_400_000_000
FEWEST_DAYS = 4
"""From so many days on the first ones choose and the others judge."""
FITTED_SHARE = 4 / 7
"""Of the days choose: four of a week."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario comes to, lookup by lookup of the log as it is.

    Attributes:
        hit_tokens: int64[m], by arrival.
        written_tokens: int64[m].
        amount: float64[m], price of the input, each in the currency of its pool.
        trial: The replay.
    """

    hit_tokens: NDArray[np.int64]
    written_tokens: NDArray[np.int64]
    amount: NDArray[np.float64]
    trial: Trial


@dataclass(slots=True)
class Ground:
    """A log with its baseline, on which changes are tried and judged.

    Attributes:
        trials: The log.
        scenario: As it is today.
        base: What that comes to.
        judged: bool[m], lookups that judge.
        fitted_to_us: Where the lookups that choose end; None: all choose and all judge.
        struck: bool[m], prompts with something at their head that varies; None where there are none.
        tried: Scenarios replayed so far.
        engine: What replays several.
    """

    trials: Trials
    scenario: Scenario
    base: Outcome
    judged: NDArray[np.bool_]
    fitted_to_us: int | None
    struck: NDArray[np.bool_] | None = None
    tried: int = 0
    engine: Engine = field(default_factory=lambda: LocalEngine(1))
    _noises: dict[bytes, Noise] = field(default_factory=dict)
    _shared: tuple[Trials, Trial] | None = None

    @property
    def log(self) -> Log:
        """Its rows, lookups and blocks."""
        return self.trials.prepared.log

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """bool[m]: lookups that choose: of the first days, but for prompts that a fault had struck."""
        found = np.ones_like(self.judged) if self.fitted_to_us is None else ~self.judged
        return found if self.struck is None else found & ~self.struck

    def tallies(self) -> tuple[tuple[Pool, PoolTally, NDArray[np.bool_]], ...]:
        """Return each pool that is asked, as it was replayed, and bool[m], its lookups."""
        found = []
        for tally in self.base.trial.pools:
            mine = np.zeros(self.judged.size, np.bool_)
            mine[tally.lookup] = True
            found.append((self.base.trial.scenario.pool[tally.plan.index], tally, mine))
        return tuple(found)

    def run(self, scenario: Scenario) -> Outcome:
        """Replay a scenario on the log.

        Raises:
            UsageError: It does not fit the log.
        """
        self.tried += 1
        return run(self.trials, scenario, self.base.trial)

    def run_all(self, scenarios: Sequence[Scenario]) -> list[Outcome | UsageError]:
        """Replay scenarios beside each other; of one that does not fit the log return why."""
        self.tried += len(scenarios)
        if self._shared is None or self._shared[0] is not self.trials:
            self._shared = (self.trials, self.base.trial)
        return list(self.engine.map(TRIALS, _run_one, scenarios, self._shared))

    def effect(
        self, after: Outcome, mine: NDArray[np.bool_], *, judged: NDArray[np.bool_] | None = None
    ) -> Effect:
        """Return what a change comes to.

        Args:
            after: The change.
            mine: bool[m], lookups that it concerns, all of one currency or their amounts are left out.
            judged: bool[m], those that judge; None: as the ground has it.
        """
        chosen = np.flatnonzero(mine & (self.judged if judged is None else judged))
        if not chosen.size:
            chosen = np.flatnonzero(mine)
        noise, base = self._noise(chosen), self.base
        prompt = self.log.lookups.prompt_tokens[chosen]
        hit = after.hit_tokens[chosen], base.hit_tokens[chosen]
        tokens, asked = int(hit[0].sum() - hit[1].sum()), int(prompt.sum())
        spread = noise.of_sum(hit[0] - hit[1])
        low, high = (tokens, tokens) if spread is None else (round(spread.low), round(spread.high))
        started_us = self.log.lookups.started_us[chosen]
        effect = Effect(
            from_us=int(started_us[0]),
            to_us=int(started_us[-1]),
            prompt_tokens=asked,
            tokens=tokens,
            tokens_low=low,
            tokens_high=high,
            certain=bool(noise.clusters),
            gpu_s=self._gpu_s(after, chosen),
        )
        currencies = {currency_of(base.trial, lookup) for lookup in chosen[_firsts(base.trial, chosen)]}
        if len(currencies) != 1:
            return effect
        paid = after.amount[chosen], base.amount[chosen]
        before, saved = float(paid[1].sum()), float(paid[1].sum() - paid[0].sum())
        change = noise.of_sum(paid[1] - paid[0])
        ends = (saved, saved) if change is None else (change.low, change.high)
        return replace(
            effect,
            before=_money(before),
            saved=_money(saved),
            saved_low=_money(ends[0]),
            saved_high=_money(ends[1]),
            currency=currencies.pop(),
        )

    def day_to_day(self, after: Outcome, mine: NDArray[np.bool_]) -> float:
        """Return how far the saved share of the bill of the days that judge may lie from that of the days that choose.

        Half of a prediction interval of 95 %, from how far the days that choose differ among themselves: sessions drawn again
        know nothing of weekends. 0 of fewer than three days.
        """
        day = self.log.lookups.started_us // DAY_US
        chosen = mine & self.fitted
        found, place = np.unique(day[chosen], return_inverse=True)
        judged = np.unique(day[mine & self.judged]).size
        before = np.bincount(place, self.base.amount[chosen], found.size)
        if found.size < 3 or not judged or (before <= 0).any():  # noqa: PLR2004
            return 0.0
        shares = 1 - np.bincount(place, after.amount[chosen], found.size) / before
        times = float(stdtrit(found.size - 1, 0.975)) * np.sqrt(1 / found.size + 1 / judged)
        return float(times * shares.std(ddof=1))

    def _gpu_s(self, after: Outcome, chosen: NDArray[np.int64]) -> float | None:
        """Return the seconds of prefill that are spared in the pools whose speed is given; None: it is of none."""
        inside = np.zeros(self.judged.size, np.bool_)
        inside[chosen] = True
        found = None
        for pool, _, mine in self.tallies():
            speed = self.scenario.pricing_of(pool).prefill_tokens_per_s
            if speed is not None and not pool.hosted and (inside & mine).any():
                more = (after.hit_tokens - self.base.hit_tokens)[inside & mine].sum()
                found = (found or 0.0) + float(more) / speed
        return found

    def _noise(self, chosen: NDArray[np.int64]) -> Noise:
        if chosen.size == self.judged.size:
            return self.trials.noise
        key = np.packbits(np.isin(np.arange(self.judged.size), chosen)).tobytes()
        if key not in self._noises:
            lookups = self.log.lookups
            part = Lookups(**{name: getattr(lookups, name)[chosen] for name in Lookups.__dataclass_fields__})
            self._noises[key] = draw_noise(replace(self.log, lookups=part))
        return self._noises[key]


def _run_one(shared: tuple[Trials, Trial], scenario: Scenario) -> Outcome | UsageError:
    trials, known = shared
    try:
        return run(trials, scenario, known)
    except UsageError as error:
        return error


def run(trials: Trials, scenario: Scenario, known: Trial | None = None) -> Outcome:
    """Replay a scenario.

    Args:
        trials: The log.
        scenario: What is replayed.
        known: A replay of the same log, whose pools are taken over where nothing about them is changed.

    Raises:
        UsageError: It does not fit the log.
    """
    trial = trials.run(scenario, causes=False, known=known)
    prompt_tokens = trials.prepared.log.lookups.prompt_tokens
    hit, written = (trial.by_arrival(f"{name}_tokens") for name in ("hit", "written"))
    return Outcome(hit, written, trial.amounts(prompt_tokens), trial)


def open_ground(trials: Trials, scenario: Scenario, engine: Engine | None = None) -> Ground:
    """Replay a log as it is, and settle which of its days choose and which judge.

    Args:
        trials: The log.
        scenario: As it is today, all events in it.
        engine: What replays several scenarios; None: this process, one after the other.

    Raises:
        UsageError: The scenario does not fit the log.
    """
    started_us = trials.prepared.log.lookups.started_us
    first_day, last_us = int(started_us.min() // DAY_US), int(started_us.max())
    days = (last_us - int(started_us.min())) / DAY_US
    split_us = None
    if days >= FEWEST_DAYS:
        split_us = (first_day + max(1, round(days * FITTED_SHARE))) * DAY_US
    base = run(trials, scenario)
    judged = np.ones(started_us.size, np.bool_) if split_us is None else started_us >= split_us
    return Ground(trials, base.trial.scenario, base, judged, split_us, engine=engine or LocalEngine(1))


def currency_of(trial: Trial, lookup: int) -> str:
    """Return what a lookup pays in."""
    _, card = trial.askers.groups[int(trial.askers.group[lookup])]
    return trial.askers.cards[card].card.currency


def _firsts(trial: Trial, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a place in the lookups for each group of prices among them."""
    return np.unique(trial.askers.group[chosen], return_index=True)[1]


def _money(amount: float) -> Decimal:
    # Through nine significant digits, which is what the floats behind it are good for.
    return Decimal(f"{amount:.9g}")
