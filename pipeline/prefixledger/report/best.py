"""The best combination of a grid, and what is said of it in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.glossary import settings
from prefixledger.report.numbers import percent, points

if TYPE_CHECKING:
    from prefixledger.attribute.cell import Cell


def best_of(cells: tuple[Cell, ...]) -> Cell | None:
    """Return the combination that hits most, the baseline left out; None where none could be replayed."""
    tried = [cell for cell in cells[1:] if cell.problem is None]
    return max(tried, key=lambda cell: cell.totals["token_hit_rate"] or 0, default=None)


def sentence(cells: tuple[Cell, ...]) -> str:
    """Say what the best hit rate is, against the baseline, and whether that is more than chance."""
    first = cells[0]
    tried = [cell for cell in cells[1:] if cell.problem is None]
    top, before = best_of(cells), first.totals["token_hit_rate"]
    if top is None or before is None:
        return "Nothing could be compared with the baseline."
    changed = {name: value for name, value in top.axes.items() if value != first.axes[name]}
    rate, change = top.totals["token_hit_rate"] or 0.0, (top.totals["change_pp"] or 0.0) / 100
    combinations = f"{len(tried)} combination{'s' if len(tried) > 1 else ''}"
    how = f"the best of {combinations} hits {percent(rate)}"
    if change == 0:
        return f"The baseline hits {percent(before)}, and no other of {combinations} hits more or less than its best."
    direction = "more" if change > 0 else "less"
    noise = ", which is within the noise of this log" if top.within_noise else ""
    with_what = f" with {settings(changed)}" if changed else ""
    return f"The baseline hits {percent(before)}; {how}{with_what}, {points(abs(change))} {direction}{noise}."
