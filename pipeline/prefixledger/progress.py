"""How a stage tells how far it is; the command line draws it, everybody else ignores it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how far a stage is."""

    def phase(self, name: str, total: int | None = None, unit: str = "bytes") -> None:
        """Begin a phase.

        Args:
            name: What is being done, e.g. ``ingest``.
            total: How many units there are; None where nobody knows.
            unit: ``bytes``, or the plural noun of what is counted.
        """

    def advance(self, amount: int, rejects: int = 0) -> None:
        """Add units done since the last call, and records rejected among them."""

    def say(self, text: str) -> None:
        """Tell the reader one sentence."""


class Silent:
    """A progress that nobody watches."""

    def phase(self, name: str, total: int | None = None, unit: str = "bytes") -> None:
        """Do nothing."""

    def advance(self, amount: int, rejects: int = 0) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""


SILENT = Silent()
