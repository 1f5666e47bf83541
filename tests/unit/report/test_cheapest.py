"""The cheapest combination in words."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from prefixledger.attribute.cell import Cell
from prefixledger.attribute.noise import Interval
from prefixledger.report.cheapest import cheapest


def cell(ttl: str, amount: str | None, capacity: str = "unlimited", currency: str = "USD") -> Cell:
    """Return a cell that was priced, or not."""
    cost = None if amount is None else {"currency": currency, "actual": Decimal(amount)}
    return Cell({"capacity": capacity, "ttl": ttl}, {}, {"by_cause": {}}, cost, (), ())


def test_the_cheapest_is_named_by_what_differs() -> None:
    """An axis that no cell changes says nothing; what cannot be priced or replayed is passed over."""
    cells = [cell("none", "10"), cell("5m", "8"), cell("1h", "9"), cell("2h", None)]
    assert (
        cheapest(cells) == "cheapest: time to live 5m, $8.00, 20.0 % below the baseline; memory not counted"
    )
    assert " (1 more cost the same)" in cheapest([*cells, cell("3h", "8")])


def test_noise_and_a_baseline_that_is_cheapest_are_said() -> None:
    """An interval around no change makes the saving noise; a dearer grid names the baseline."""
    interval = Interval(low=-30.0, high=1.0, clusters="session", n_clusters=9)
    cells = [cell("none", "10"), replace(cell("5m", "8"), cost_interval=interval)]
    assert "a difference within the noise" in cheapest(cells)
    assert cheapest([cell("none", "7"), cell("5m", "8")]).startswith(
        "cheapest is the baseline; of the others time to live 5m"
    )


def test_nothing_is_said_of_what_cannot_be_compared() -> None:
    """Two currencies, no price, no cell."""
    assert cheapest([cell("none", "7")]) == ""
    assert cheapest([cell("none", None), cell("5m", "8")]) == ""
    assert cheapest([cell("none", "7"), cell("5m", "8", currency="EUR")]) == ""
    assert cheapest([cell("none", "7"), cell("5m", "8"), cell("1h", "8", currency="EUR")]) == ""
