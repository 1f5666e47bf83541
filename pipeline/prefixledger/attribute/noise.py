"""How far a difference between two replays of one log goes beyond what another draw of sessions or days would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Log

DRAWS = 1000
MOST_CLUSTERS = 1000
"""More are bundled at random: a thousand clusters know their spread to 2 %."""
FEWEST_CLUSTERS = 7
"""A week of days; of fewer nothing can be drawn that says anything."""
LEVEL = 0.95
_SEED = 0
_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
_FINE = 2.0**40
"""Steps of an amount, which make it whole."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a difference lies.

    Attributes:
        low: Lower end.
        high: Upper end.
        clusters: What was drawn: session, day or hour.
        n_clusters: How many there are.
    """

    low: float
    high: float
    clusters: str
    n_clusters: int

    @property
    def holds_zero(self) -> bool:
        """Whether another draw could have turned the difference around: it is noise, as far as this log can tell."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class _Draw:
    """Clusters of lookups, and how often each is drawn."""

    clusters: str
    n_clusters: int
    bundle: NDArray[np.int64]
    times: NDArray[np.float64]

    def sums(self, amount: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[draws]: the sum of an amount over the lookups of each draw.

        Whole floats below 2^53, which no sum here reaches, add up to the same in any order.
        """
        parts = np.bincount(self.bundle, amount, self.times.shape[1])
        # Not by BLAS: its threads and those that try scenarios wait for each other, 30 ms in place of 1.
        found: NDArray[np.float64] = np.einsum("ij,j->i", self.times, parts)
        return found


@dataclass(frozen=True, slots=True)
class Noise:
    """Draws of the sessions and of the days of a log, the same for every comparison.

    No session is replayed twice, where it would hit itself: the sums of one replay are drawn.
    """

    _draws: tuple[_Draw, ...]
    _wholes: list[tuple[NDArray[np.int64], list[NDArray[np.float64]]]] = field(default_factory=list)

    def _whole(self, amount: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Return the sums of what many shares are of, by draw."""
        for known, sums in self._wholes:
            if known is amount:
                return sums
        sums = [draw.sums(amount) for draw in self._draws]
        self._wholes[:] = [(amount, sums)]
        return sums

    @property
    def clusters(self) -> tuple[tuple[str, int], ...]:
        """What is drawn, and how many there are of each."""
        return tuple((draw.clusters, draw.n_clusters) for draw in self._draws)

    def of_share(
        self,
        after: NDArray[np.int64],
        before: NDArray[np.int64],
        whole: NDArray[np.int64],
        whole_after: NDArray[np.int64] | None = None,
    ) -> Interval | None:
        """Return the interval of the difference of two shares, in percentage points: the wider of all kinds of clusters.

        Args:
            after: int64[m], by lookup.
            before: int64[m].
            whole: int64[m], what both are shares of.
            whole_after: int64[m], what ``after`` is a share of, where that is something else.

        Returns:
            None where the log has too few clusters of any kind.
        """
        found = []
        for draw, of in zip(self._draws, self._whole(whole), strict=True):
            if whole_after is None:
                found.append(100 * _over(draw.sums(after - before), of))
            else:
                found.append(
                    100 * (_over(draw.sums(after), draw.sums(whole_after)) - _over(draw.sums(before), of))
                )
        return self._widest(found)

    def of_change(self, after: NDArray[np.float64], before: NDArray[np.float64]) -> Interval | None:
        """Return the interval of a relative change of an amount, in percent; see ``of_share``."""
        largest = max(np.abs(before).sum(), np.abs(after).sum())
        if largest == 0:
            return None
        fine_after, fine_before = (
            np.rint(part * (_FINE / largest)).astype(np.int64) for part in (after, before)
        )
        change = fine_after - fine_before
        return self._widest([100 * _over(draw.sums(change), draw.sums(fine_before)) for draw in self._draws])

    def of_sum(self, amount: NDArray[np.float64] | NDArray[np.int64]) -> Interval | None:
        """Return the interval of the sum of an amount over a log of as many sessions or days; see ``of_share``."""
        largest = float(np.abs(amount).sum())
        if largest == 0:
            return None
        fine = np.rint(amount * (_FINE / largest)).astype(np.int64)
        return self._widest([draw.sums(fine) * (largest / _FINE) for draw in self._draws])

    def _widest(self, found: list[NDArray[np.float64]]) -> Interval | None:
        tail = (1 - LEVEL) / 2
        intervals = []
        for draw, values in zip(self._draws, found, strict=True):
            low, high = np.quantile(values, [tail, 1 - tail]).tolist()
            intervals.append(Interval(low, high, draw.clusters, draw.n_clusters))
        return max(intervals, key=lambda interval: interval.high - interval.low, default=None)


def draw_noise(log: Log) -> Noise:
    """Draw the clusters of a log: its sessions and its days; its hours where it has neither.

    Args:
        log: Its lookups; rows without a session id are one session each.
    """
    lookups = log.lookups
    day = lookups.started_us // _DAY_US
    kinds = [("session", _sessions(log)), ("day", day)]
    draws = [_draw(name, code) for name, code in kinds if code is not None]
    kept = [draw for draw in draws if draw is not None]
    if not kept:
        hours = _draw("hour", lookups.started_us // _HOUR_US)
        kept = [] if hours is None else [hours]
    return Noise(tuple(kept))


def _sessions(log: Log) -> NDArray[np.int64] | None:
    rows = log.rows.table["session_id"].take(pa.array(log.lookups.request_row))
    column = rows.combine_chunks().dictionary_encode()
    known = np.asarray(column.is_valid())
    if not known.any():
        return None
    code: NDArray[np.int64] = column.indices.fill_null(0).to_numpy().astype(np.int64)
    alone = np.flatnonzero(~known)
    code[alone] = len(column.dictionary) + np.arange(alone.size)
    return code


def _draw(name: str, code: NDArray[np.int64]) -> _Draw | None:
    found, cluster = np.unique(code, return_inverse=True)
    if found.size < FEWEST_CLUSTERS:
        return None
    random = np.random.default_rng(_SEED)
    bundles = min(found.size, MOST_CLUSTERS)
    bundle = random.permutation(found.size)[cluster] % bundles
    times = random.multinomial(bundles, np.full(bundles, 1 / bundles), size=DRAWS)
    return _Draw(name, int(found.size), bundle, times.astype(np.float64))


def _over(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return part / np.maximum(whole, 1)
