"""Capacity and time to live together, as a table whose title says which of both binds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.numbers import duration, multiplier, percent, points, whole

if TYPE_CHECKING:
    from prefixledger.report.curve_parts import Curves, SurfacePoint


@dataclass(frozen=True, slots=True)
class SurfaceRow:
    """One capacity.

    Attributes:
        capacity_blocks: Usable blocks per replica.
        lives: Times to live of the columns, seconds; None: no limit.
        hit_tokens: What each of them hits with that capacity.
        multiplier: Price of the input without a limit on lives; None where the pool pays several prices.
    """

    capacity_blocks: int
    lives: tuple[float | None, ...]
    hit_tokens: tuple[int, ...]
    multiplier: float | None


def surface_rows(curves: Curves) -> tuple[SurfaceRow, ...]:
    """Return the surface of a pool, a capacity after the other."""
    of: dict[int, list[SurfacePoint]] = {}
    for point in curves.surface:
        of.setdefault(point.capacity_blocks, []).append(point)
    return tuple(
        SurfaceRow(
            blocks,
            tuple(point.ttl_s for point in row),
            tuple(point.hit_tokens for point in row),
            row[-1].multiplier,
        )
        for blocks, row in of.items()
    )


def surface_sentence(curves: Curves) -> str:
    """Say what the shortest time to live takes at the size of today or the largest, and where the price is lowest."""
    blocks = {point.capacity_blocks for point in curves.surface}
    size = curves.capacity_today if curves.capacity_today in blocks else max(blocks)
    row = [point for point in curves.surface if point.capacity_blocks == size]
    without, short = row[-1], row[0]
    text = f"Capacity and time to live together: {whole(size)} blocks hit {percent(without.hit_tokens / curves.prompt_tokens)}"
    if short.ttl_s is not None:
        lost = (without.hit_tokens - short.hit_tokens) / curves.prompt_tokens
        text += f", and {points(lost)} less with a life of {duration(short.ttl_s)}"
    best = curves.cheapest
    if best is None or best.multiplier is None:
        return text
    life = "no limit on lives" if best.ttl_s is None else f"a life of {duration(best.ttl_s)}"
    return f"{text}; the price is lowest, {multiplier(best.multiplier)}, with {whole(best.capacity_blocks)} blocks and {life}"
