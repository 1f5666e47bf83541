"""Replays the requests of a workspace through simulated caches and keeps the evidence of every hit and miss."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefixledger.replay.stage import run
    from prefixledger.replay.summary import ReplaySummary

__all__ = ["ReplaySummary", "run"]

_HOMES = {"run": "prefixledger.replay.stage", "ReplaySummary": "prefixledger.replay.summary"}


def __getattr__(name: str) -> Any:
    """Import the stage when it is first asked for: kernels below it are used on their own too."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
