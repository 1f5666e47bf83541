"""Advice as plain data: what to change, what a replay of this log says of it, and how to see that it is so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change comes to in the stretch that it is judged on, against the log as it is.

    Attributes:
        from_us: First moment of that stretch, UTC microseconds.
        to_us: Last arrival in it.
        prompt_tokens: Tokens asked in it.
        tokens: Prompt tokens read from the cache that are not today; below 0: fewer.
        tokens_low: Lower end of the interval of ``tokens`` that 95 of 100 such logs would give.
        tokens_high: Its upper end.
        certain: Whether the log has enough sessions or days for intervals; else both ends are the figure itself.
        before: What its input costs today; None where amounts are in several currencies.
        saved: Less money for input; below 0: more. None as ``before``.
        saved_low: Lower end of the interval of ``saved``.
        saved_high: Its upper end.
        currency: What the amounts are in: ``USD``, or ``prefill tokens`` where nobody said what a token costs.
        gpu_s: Seconds of prefill that one GPU is spared; None where no speed is given.
    """

    from_us: int
    to_us: int
    prompt_tokens: int
    tokens: int
    tokens_low: int
    tokens_high: int
    certain: bool
    before: Decimal | None = None
    saved: Decimal | None = None
    saved_low: Decimal | None = None
    saved_high: Decimal | None = None
    currency: str = ""
    gpu_s: float | None = None

    @property
    def pays(self) -> bool:
        """Whether it saves more than another draw of the log could take away."""
        low = self.tokens_low if self.saved_low is None else self.saved_low
        return low > 0

    @property
    def saved_share(self) -> float | None:
        """The saving over what the input costs today; None where that is nothing or unknown."""
        return float(self.saved / self.before) if self.before and self.saved is not None else None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change that was replayed on this log and pays.

    Attributes:
        kind: ``routing``, ``capacity``, ``tier``, ``ttl``, ``caching_off``, ``split``, ``pre_warm``, ``keep_alive``,
            ``merge``, ``layout`` or ``salt``.
        action: What to do, one sentence.
        where: Whom it is for: a pool, prefixes, tenants; empty for all.
        effect: What it comes to, alone.
        in_full: The same over the whole log, also the days that it was chosen on.
        shown_by: The replay that shows it: the scenario that was tried, in words, or a command that repeats it.
        side_effects: What else changes, one sentence each: load, wasted writes, isolation.
        confidence: One of ``CONFIDENCES``.
        because: Why this confidence, one sentence.
        verify: What to look at next week, one sentence.
        scenario: The same as a scenario file for the pool, TOML; empty where no scenario says it.
        predicted: What the days that chose it promised for the stretch that judges: their share of the bill, of that
            stretch's bill. None where nothing was chosen, or all days judge.
        predicted_within: Half the length of the interval of that promise: of sessions drawn again, or of how far the days that
            chose it differ among themselves, whichever is wider.
    """

    kind: str
    action: str
    where: str
    effect: Effect
    in_full: Effect
    shown_by: str
    side_effects: tuple[str, ...]
    confidence: str
    because: str
    verify: str
    scenario: str = ""
    predicted: Decimal | None = None
    predicted_within: Decimal | None = None

    @property
    def as_predicted(self) -> bool | None:
        """Whether promise and replay differ by no more than both intervals allow; None where there is no promise."""
        effect = self.effect
        if self.predicted is None or self.predicted_within is None or effect.saved is None:
            return None
        assert effect.saved_low is not None
        assert effect.saved_high is not None
        own = float(effect.saved_high - effect.saved_low) / 2
        return (
            abs(float(self.predicted - effect.saved)) <= math.hypot(own, float(self.predicted_within)) + 1e-9
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one shared prefix of a hosted cache.

    Attributes:
        key: Hex key of the node's last block.
        name: Who uses it.
        pool: Name of the pool.
        tokens: Tokens of the prefix, from the start of the prompt.
        requests: Lookups that pass through it.
        today: Lifetime today: ``none``, ``5m``, ``1h`` …
        decision: ``none``, a lifetime, ``split``, ``pre-warm``, ``keep-alive`` or ``merge``.
        because: One sentence with the numbers that decide.
        hit_share: Share of its uses that come within the lifetime of the decision.
        break_even: Hit rate from which that lifetime pays; None without a write premium.
        reads_per_write: Reads that a write of that lifetime gets.
        saved: What the decision costs less than today, in the whole log; None without rates.
        loss: What doing nothing costs against the best decision that was tried; never below 0.
        currency: What the two are in.
    """

    key: str
    name: str
    pool: str
    tokens: int
    requests: int
    today: str
    decision: str
    because: str
    hit_share: float
    break_even: float | None
    reads_per_write: float | None
    saved: Decimal | None
    loss: Decimal | None
    currency: str


@dataclass(frozen=True, slots=True)
class Advice:
    """All that is advised on a log.

    Attributes:
        recommendations: Those that pay, the largest saving first; what was tried and does not pay is not here.
        together: All of them at once, by one replay: their effects do not add up. None below two of them.
        decisions: For the shared prefixes of hosted caches, the largest loss first.
        tried: Scenarios that were replayed.
        fitted_to_us: Choices were made on what came before this moment, and judged on the rest; None: on all of the log.
        notes: What the reader must know, one sentence each: what was tried and does not pay, and what could not be tried.
    """

    recommendations: tuple[Recommendation, ...] = ()
    together: Effect | None = None
    decisions: tuple[Decision, ...] = ()
    tried: int = 0
    fitted_to_us: int | None = None
    notes: tuple[str, ...] = ()
