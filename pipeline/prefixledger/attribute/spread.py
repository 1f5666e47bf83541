"""How far the hit rate moves with the seed of routers that draw."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Spread:
    """Token hit rates under several seeds, that of the replay among them.

    Attributes:
        seeds: How many.
        low: The least.
        high: The greatest.
    """

    seeds: int
    low: float
    high: float

    @property
    def told(self) -> str:
        """The range in per cent, as it stands behind a rate."""
        low, high = f"{100 * self.low:.1f}", f"{100 * self.high:.1f}"
        return f"{low}\N{EN DASH}{high} % over {self.seeds} seeds"


def spread_of(
    by_draw: pa.Table, hit_tokens: int, prompt_tokens: int, pool: int | None = None
) -> Spread | None:
    """Return the spread of a rate; None where nothing in it is drawn.

    Args:
        by_draw: See ``sql/60_marts/by_draw``.
        hit_tokens: Hits of the replay, lookups that nothing draws for included.
        prompt_tokens: What was asked.
        pool: Index of the pool that the hits are of; None: of all.
    """
    hits: defaultdict[int, int] = defaultdict(int)
    for row in by_draw.to_pylist():
        if pool is None or row["pool"] == pool:
            hits[row["draw"]] += row["hit_tokens"]
    return _spread([hit_tokens + drawn - hits[0] for drawn in hits.values()], prompt_tokens)


def spread_of_rates(rates: tuple[float, ...]) -> Spread | None:
    """Return the spread of some hit rates; None for none."""
    return Spread(len(rates), min(rates), max(rates)) if rates else None


def _spread(hits: list[int], prompt_tokens: int) -> Spread | None:
    return spread_of_rates(tuple(tokens / prompt_tokens for tokens in hits)) if prompt_tokens else None
