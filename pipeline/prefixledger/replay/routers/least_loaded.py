"""The replica with the least in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.replay.routers.base import LEAST_LOADED, TIE, drawn, least
from prefixledger.replay.routers.load import Load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.routers import LeastLoaded
    from prefixledger.replay.routers.base import RouterView


class LeastLoadedRouter:
    """Fewest requests, or prompt tokens, in flight; equals are drawn."""

    def __init__(self, view: RouterView, options: LeastLoaded) -> None:
        """Start with nothing in flight.

        Args:
            view: What the router sees.
            options: What is counted.
        """
        replicas = len(view.names)
        self.load = Load(view, replicas)
        self._counted = self.load.requests if options.load == "requests" else self.load.tokens
        self._draws = view.draws()
        self._members: Sequence[int] = ()

    def join(self, members: Sequence[int]) -> None:
        """Take note of who may be chosen."""
        self._members = members

    def choose(self, row: int, _now_us: int, /) -> tuple[int, int]:
        """Send a lookup to a replica."""
        best = least(self._members, self._counted)
        return drawn(best, self._draws, row), LEAST_LOADED if len(best) == 1 else TIE
