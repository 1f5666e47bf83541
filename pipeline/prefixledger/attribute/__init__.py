"""Names the cause of every missed token, through the statements of sql/."""

from __future__ import annotations

from prefixledger.attribute.comparison import Comparison, CounterComparison, compare
from prefixledger.attribute.marts import Marts, marts
from prefixledger.attribute.run import run
from prefixledger.attribute.window import Window, choose_window, default_window

__all__ = [
    "Comparison",
    "CounterComparison",
    "Marts",
    "Window",
    "choose_window",
    "compare",
    "default_window",
    "marts",
    "run",
]
