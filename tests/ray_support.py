"""A Ray cluster of two workers on this machine, and their processes, for tests."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger.engine import RAY, open_engine
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def cluster() -> Iterator[Any]:
    """Start a cluster of two workers, which have the environment of now; commands of this process then use it."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "pipeline"), str(ROOT / "tests")]))
        with open_engine(RAY, jobs=2):
            import ray

            assert ray.cluster_resources()["CPU"] == 2
            assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.1"}
            yield ray


def workers() -> set[int]:
    """Return the worker processes of the cluster, which are below this process."""
    below: dict[int, int] = {}
    titles: dict[int, bytes] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            titles[int(path.name)] = (path / "cmdline").read_bytes()
            below[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    mine = {os.getpid()}
    while more := {pid for pid, parent in below.items() if parent in mine} - mine:
        mine |= more
    return {pid for pid in mine if titles.get(pid, b"").startswith(b"ray::")}


@contextmanager
def killing(begun: Callable[[], bool]) -> Iterator[list[int]]:
    """Kill one worker that is at a task, once some work has begun; yield where its process is noted."""
    stop, killed = threading.Event(), list[int]()

    def kill_one() -> None:
        while not stop.is_set() and not killed:
            if begun():
                busy = [
                    pid for pid in workers() if b"_on_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ]
                if busy:
                    os.kill(busy[0], signal.SIGKILL)
                    killed.extend(busy[:1])
            time.sleep(0.005)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        yield killed
    finally:
        stop.set()
        killer.join()
