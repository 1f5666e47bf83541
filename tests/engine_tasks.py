"""Functions that tests hand to engines; they have a module so that other processes find them."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

import numpy as np

from prefixledger.errors import InputError, Place


def times(shared: int, item: int) -> int:
    """Multiply; the first items take longest, so that later ones are ready before them."""
    time.sleep(0.02 if item < 2 else 0.0)
    return shared * item


def where(shared: object, item: object) -> tuple[int, int]:  # noqa: ARG001
    """Return the process, and where what is shared lies in it."""
    time.sleep(0.02)
    return os.getpid(), id(shared)


def numbered(shared: object, item: int) -> tuple[int, int]:  # noqa: ARG001
    """Return the item and the process, after a moment."""
    time.sleep(0.002)
    return item, os.getpid()


def refuse(shared: object, item: int) -> int:  # noqa: ARG001
    """Fail on the third item."""
    if item == 2:
        raise InputError("it is bad", place=Place("a.jsonl", 3), hint="mend it")
    return item


def die_once(shared: str, item: int) -> int:
    """Kill the own process the first time that the third item is done."""
    mark = Path(shared)
    if item == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die(shared: object, item: int) -> int:  # noqa: ARG001
    """Kill the own process whenever the third item is done."""
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def fill(shared: object, n_bytes: int) -> int:  # noqa: ARG001
    """Take memory and write to all of it."""
    return len(np.ones(n_bytes, np.uint8))


def write(shared: str, n_bytes: int) -> int:
    """Write a file under a limit of 1,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with (Path(shared) / str(n_bytes)).open("wb", buffering=0) as out:
            return out.write(bytes(n_bytes)) + out.write(b"\0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def padded(shared: str, item: int) -> bytes:
    """Return what is shared as bytes, too large to travel without the object store."""
    return shared.encode() if item >= 0 else b""


def slow(shared: object, item: int) -> tuple[int, int]:  # noqa: ARG001
    """Return the item and the process, after a while."""
    time.sleep(0.4)
    return item, os.getpid()


def read_rows(shared: str, n_bytes: int) -> int:
    """Read a table by a kernel and by Arrow, which begin with more than they need, and find room for so much beside it."""
    import pyarrow.parquet as pq

    from prefixledger.index.key_map import KeyMap

    numbered = KeyMap().number(np.ones((3, 2), np.uint64), np.ones(3, np.bool_))
    read = pq.ParquetFile(shared).read()
    return int(numbered.max()) + len(read) + 0 * np.empty(n_bytes, np.uint8).size
