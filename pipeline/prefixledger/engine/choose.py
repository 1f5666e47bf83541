"""Which engine runs the tasks, by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from prefixledger.engine.local import LocalEngine
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from prefixledger.engine.base import Engine

LOCAL: Final = "local"
RAY: Final = "ray"
ENGINES: Final = (LOCAL, RAY)
LEAST_MEMORY: Final = 16 << 20
"""Below this no task of any stage ends."""


def open_engine(
    name: str = LOCAL,
    *,
    jobs: int | None = None,
    ray_address: str | None = None,
    task_memory: str | None = None,
) -> Engine:
    """Return an engine; use it in a ``with``.

    Args:
        name: One of ``ENGINES``.
        jobs: Tasks at a time on this machine; None is one a core.
        ray_address: Cluster to connect to; None is that of the environment, ``RAY_ADDRESS``, and without it one is started
            on this machine.
        task_memory: What a task may take, as ``512MiB``; None is no limit.

    Raises:
        UsageError: There is no such engine, it is not installed, or its options mean nothing.
    """
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}", hint=f"those that exist: {', '.join(ENGINES)}")
    memory_bytes = None if task_memory is None else _memory(task_memory)
    workers = jobs or len(os.sched_getaffinity(0))
    if name == LOCAL:
        if ray_address is not None:
            raise UsageError("--ray-address needs --engine ray", hint="give both, or neither")
        return LocalEngine(workers, memory_bytes)
    from prefixledger.engine.on_ray import RayEngine  # noqa: PLC0415  # Ray is an extra, and takes a second to import

    return RayEngine(workers, memory_bytes, address=ray_address or os.environ.get("RAY_ADDRESS") or None)


def _memory(text: str) -> int:
    from prefixledger.config.units import parse_bytes  # noqa: PLC0415  # most calls set no limit

    found = parse_bytes(text)
    if found < LEAST_MEMORY:
        raise UsageError(
            f"--task-memory {text}: no task works with less than {LEAST_MEMORY >> 20} MiB",
            hint='give more, as "512MiB"',
        )
    return found
