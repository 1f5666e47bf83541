"""The curves of the parts of a pool: drawn where they tell something, with a title that says what."""

from __future__ import annotations

import re

from prefixledger.report.curve_parts import CapacityMark, Curves, PartPoint
from prefixledger.report.part_curves import part_charts

SIZES = (100, 200, 400)


def curves(**hits: tuple[int, int, int]) -> Curves:
    """Return a pool of two replicas of 200 blocks: hits of each part at three sizes, of 1,000 prompt tokens each."""
    points = []
    for name, tokens in hits.items():
        kind = "pooled" if name == "all" else "prefix" if name.startswith("k") else "replica"
        many = 2 if kind == "pooled" else 1
        points += [
            PartPoint(kind, "" if many == 2 else name, 1000 * many, "capacity", float(size * many), found)
            for size, found in zip(SIZES, tokens, strict=True)
        ]
    return Curves(
        "own", 2000, capacity_today=200, block_size=16, replicas=2, parts=tuple(points), marks=(CapacityMark(0.95, 200, 1),)
    )  # fmt: skip


def test_replicas_stand_beside_the_pool_as_one_cache() -> None:
    """One cache has the memory of all, so its sizes are halved; the table has half of today, today and twice."""
    found = curves(a=(100, 900, 950), b=(100, 300, 900), all=(400, 1600, 1900))
    (chart,) = part_charts(found, {}, "fig")
    assert chart.caption == (
        "With today's memory a hits 90.0 % and b 30.0 %; one cache with the memory of all would hit 80.0 %, 20.0 points more "
        "than they do together"
    )
    assert chart.sizes_blocks == (100, 200, 400)
    assert [(row.name, row.rates) for row in chart.rows] == [
        ("a", (0.1, 0.9, 0.95)),
        ("b", (0.1, 0.3, 0.9)),
        ("all as one cache", (0.2, 0.8, 0.95)),
    ]
    assert re.search(r"<desc[^>]*>a: 90.0 %; b: 30.0 %; all as one cache: 80.0 %\.", chart.svg)


def test_what_tells_nothing_is_not_drawn() -> None:
    """Replicas that hit alike, a single prefix, no capacity and no knee."""
    assert part_charts(curves(a=(100, 500, 900), b=(100, 505, 900), k1=(0, 1, 2)), {}, "fig") == ()
    assert part_charts(Curves("own", 2000), {}, "fig") == ()


def test_prefixes_are_named_as_elsewhere() -> None:
    """By the name of the prefix where the report has one, else by the beginning of its key."""
    found = curves(k00000000000000=(0, 100, 800), k1=(0, 700, 800))
    (chart,) = part_charts(found, {"k1": "tenant-01"}, "fig")
    assert chart.kind == "prefix"
    assert [row.name for row in chart.rows] == ["k00000000000", "tenant-01"]
    assert "those of tenant-01 hit 70.0 % with today's memory, those of k00000000000 10.0 %" in chart.caption
    assert "unlimited memory would give the latter 80.0 %" in chart.caption
