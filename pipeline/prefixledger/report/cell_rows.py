"""The cells of a grid as the rows of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.attribute.cell import Cell
    from prefixledger.attribute.noise import Interval


def csv_rows(cells: tuple[Cell, ...]) -> Iterator[list[Any]]:
    """Yield a header, and a row for each cell, the baseline first; what could not be replayed says why and has no numbers.

    Args:
        cells: The baseline and every combination.
    """
    first = cells[0]
    causes = list(first.misses["by_cause"])
    currencies = currencies_of(cells)
    yield [
        "cell",
        *first.axes,
        *first.totals,
        *(f"miss_{cause}_tokens" for cause in causes),
        *(f"{name}_{currency}" for currency in currencies for name in ("uncached", "actual")),
        "change_pp_low",
        "change_pp_high",
        "cost_change_percent_low",
        "cost_change_percent_high",
        "drawn",
        "within_noise",
        "problem",
    ]
    for number, cell in enumerate(cells):
        costs = {cost["currency"]: cost for cost in cell.costs}
        yield [
            number,
            *cell.axes.values(),
            *(cell.totals.get(name) for name in first.totals),
            *(cell.misses["by_cause"].get(cause) for cause in causes),
            *(
                costs.get(currency, {}).get(name)
                for currency in currencies
                for name in ("uncached", "actual")
            ),
            *(end for part in (cell.interval, cell.cost_interval) for end in _ends(part)),
            None if cell.interval is None else cell.interval.clusters,
            None if cell.interval is None else str(cell.within_noise).lower(),
            cell.problem,
        ]


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def currencies_of(cells: tuple[Cell, ...]) -> list[str]:
    """Return every currency that some cell is paid in, those of the baseline first."""
    return list(dict.fromkeys(str(cost["currency"]) for cell in cells for cost in cell.costs))
