"""Where the tasks of a stage run: in this process and others beside it, or on a cluster; results are the same."""

from __future__ import annotations

from prefixledger.engine.base import Engine, Work
from prefixledger.engine.choose import ENGINES, LOCAL, RAY, open_engine
from prefixledger.engine.local import LocalEngine

__all__ = ["ENGINES", "LOCAL", "RAY", "Engine", "LocalEngine", "Work", "open_engine"]
