"""The cheapest point of a grid under its rates, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.glossary import settings
from prefixledger.report.numbers import money, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.attribute.cell import Cell


def cheapest(cells: Sequence[Cell]) -> str:
    """Say which combination costs least, and whether that is more than chance; empty where costs cannot be compared.

    Of several that cost the same the first is named, and how many they are. What memory and replicas cost is not in it.

    Args:
        cells: The baseline and every combination.
    """
    baseline = cells[0]
    priced = [cell for cell in cells[1:] if cell.cost is not None]
    if (
        baseline.cost is None
        or not priced
        or len({cell.cost["currency"] for cell in priced if cell.cost}) > 1
    ):
        return ""
    costs = [cell.cost["actual"] for cell in priced if cell.cost is not None]
    best, least, before = priced[costs.index(min(costs))], min(costs), baseline.cost["actual"]
    if best.cost is None or best.cost["currency"] != baseline.cost["currency"]:
        return ""
    changed = {
        name: value for name, value in best.axes.items() if len({cell.axes[name] for cell in cells}) > 1
    }
    name = settings(changed) or "every combination"
    same = costs.count(least) - 1
    others = f" ({same} more cost the same)" if same else ""
    amount = money(least, best.cost["currency"])
    if least >= before:
        return f"cheapest is the baseline; of the others {name} costs {amount}{others}"
    interval = best.cost_interval
    chance = ", a difference within the noise" if interval is not None and interval.holds_zero else ""
    return f"cheapest: {name}, {amount}{others}, {percent(float((before - least) / before))} below the baseline{chance}; memory not counted"
