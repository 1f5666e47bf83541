"""Curves of a week that was made up, for pages."""

from __future__ import annotations

import datetime as dt
import itertools
import math

from prefixledger.report.curve_parts import (
    AgeRange,
    CapacityMark,
    CapacityPoint,
    Curves,
    Model,
    PartPoint,
    TtlPoint,
)
from prefixledger.report.held_parts import HeldSlice
from prefixledger.report.rate_lines import RateLine

HOUR_US = 3_600_000_000
START_US = int(dt.datetime(2026, 11, 23, tzinfo=dt.UTC).timestamp()) * 1_000_000
REPLICAS = 4
ALL = tuple(f"vllm-{i}" for i in range(REPLICAS))


def ages(ideal: int) -> tuple[AgeRange, ...]:
    """Hits soon after the last use, evictions late, some between."""
    edges = (0, 1, 10, 60, 600, 3600, 86_400, 604_800, None)
    hits, evicted = (0.1, 0.3, 0.3, 0.2, 0.08, 0.02, 0, 0), (0, 0, 0, 0.02, 0.1, 0.3, 0.1, 0.01)
    return tuple(
        AgeRange(start or 0, end, round(ideal * hit), round(ideal * gone), round(ideal * gone / 3))
        for (start, end), hit, gone in zip(itertools.pairwise(edges), hits, evicted, strict=True)
    )


def formulas(ideal: int) -> tuple[Model, ...]:
    """One that is good enough, one that misleads."""
    points = ((300.0, ideal / 3), (3600.0, ideal / 2))
    return (
        Model("poisson", "ttl", 4.1, -8.2, 300.0, points),
        Model("hyperexponential", "ttl", 0.4, 1.1, 3600.0, points, (("share", 0.6),), 0.02, 0.7),
    )


def curves(total: int, ideal: int) -> Curves:
    """Curves that rise and flatten."""

    def reached(blocks: float) -> float:
        return 1 - math.exp(-((blocks / 45_000) ** 0.8))

    capacity = tuple(
        CapacityPoint(at, round(ideal * reached(at)), round(ideal * reached(1.6 * at)))
        for at in sorted({60_000, *(round(500 * 1.06**i) for i in range(110))})
    )
    marks = tuple(
        CapacityMark(share, at, round(ideal * reached(at))) for share, at in ((0.9, 127_600), (0.95, 177_200))
    )
    ttl = tuple(
        TtlPoint(
            round(10 * 1.12**i, 3),
            round(ideal * (1 - math.exp(-10 * 1.12**i / 900))),
            1.25 - 0.9 * min(1, i / 80),
        )
        for i in range(95)
    )
    return Curves(
        "engine",
        total,
        capacity,
        60_000,
        16,
        2_097_152,
        ttl,
        None,
        "Without running requests.",
        marks,
        REPLICAS,
        ages(ideal),
        formulas(ideal),
        (PartPoint("replica", ALL[0], total // 4, "capacity", 60_000.0, ideal // 5),),
        tuple(
            HeldSlice(
                f"vllm-{i}", START_US + hour * HOUR_US, HOUR_US, 9_000 + 500 * i + 90 * hour, HOUR_US * 800
            )
            for i in range(REPLICAS)
            for hour in range(3)
        ),
        (
            RateLine("claude-sonnet-4-5", True, 1.25, 2.0, 300.0, 0.1),
            RateLine("gpt-4o", False, 1.0, 1.0, 300.0, 0.5),
        ),
        total * 9 // 10,
    )
