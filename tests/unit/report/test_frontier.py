"""What of many cells nothing beats."""

from __future__ import annotations

from prefixledger.attribute.cell import Cell
from prefixledger.report.frontier import finding, frontier, measures


def test_the_frontier_is_what_nothing_beats() -> None:
    """As much for as little, and better in something; memory without a limit is the most; what failed is on no frontier."""

    def cell(rate: float, capacity: str, load: float, problem: str | None = None) -> Cell:
        totals = {"token_hit_rate": rate, "imbalance_prefill": load}
        axes = {"capacity": capacity, "ttl": "none", "routing": "random", "replicas": 2}
        return Cell(axes, totals, {"by_cause": {}}, None, (), (), problem=problem)

    cells = [
        cell(0.8, "unlimited", 1.2),
        cell(0.8, "100 blocks", 1.2),
        cell(0.7, "100 blocks", 1.1),
        cell(0.7, "50 blocks", 1.3),
        cell(0.6, "60 blocks", 1.3),
        cell(0.0, "50 blocks", 1.0, "no"),
    ]
    asked = measures(cells)
    assert [measure.values[1] for measure in asked] == [200, 1.2]
    best = frontier(cells, asked)
    assert best == (False, True, True, True, False, False)
    assert finding(cells, asked[0], best).startswith("Combination 1 hits most, 80.0 %, at 200 for")
    assert finding(cells, asked[0], best).endswith("combination 3 has least, 100, and hits 70.0 %")
