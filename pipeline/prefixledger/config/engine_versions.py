"""What an engine's version says about the rules of its cache."""

from __future__ import annotations

import re
from typing import Literal

from prefixledger.errors import UsageError

READ_FROM = (0, 11)
LAST_IN_LINE = (0, 22)
FIRST_UNHASHED_FIRST = (0, 24)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(\.\d+)*")


def _release(version: str) -> tuple[int, int]:
    found = _VERSION.fullmatch(version)
    if found is None:
        raise UsageError(f"{version!r} is no version of vLLM", hint='write it like "0.22.1"')
    return int(found[1]), int(found[2])


def frees_in_line(version: str) -> bool:
    """Say whether this vLLM puts freed blocks without a hash behind all other free blocks, instead of before them.

    0.11.0, 0.16.0, 0.20.0 and 0.22.1 do; 0.24.0 and what came after put them at the head of the free queue, to be
    used next (``BlockPool.free_blocks``). 0.23 was not read.

    Args:
        version: Such as ``0.22.1`` or ``v0.24``.

    Raises:
        UsageError: It is no version, or one whose rules are not known.
    """
    release = _release(version)
    if release < READ_FROM or LAST_IN_LINE < release < FIRST_UNHASHED_FIRST:
        raise UsageError(
            f"the cache rules of vLLM {version} are not known",
            hint="known are 0.11 to 0.22, and from 0.24 on, which are two different rules",
        )
    return release <= LAST_IN_LINE


AdapterKey = Literal["id", "name", "name and path"]

_ADAPTER_KEYS: tuple[tuple[tuple[int, int], tuple[int, int] | None, AdapterKey], ...] = (
    ((0, 11), (0, 11), "id"),
    ((0, 16), (0, 30), "name"),
    ((0, 32), None, "name and path"),
)


def adapter_key(version: str | None) -> AdapterKey | None:
    """Return what of a LoRA adapter this vLLM puts into the key of every block; None where that is not known.

    0.11.0 takes the number that it gave the adapter when it was loaded, 0.16.0 to 0.30.0 its name, 0.32.0 and what came
    after name and path (``generate_block_hash_extra_keys``). What lies between was not read.

    Args:
        version: Such as ``0.22.1``; None: the newest.

    Raises:
        UsageError: It is no version.
    """
    if version is None:
        return _ADAPTER_KEYS[-1][2]
    release = _release(version)
    for first, last, key in _ADAPTER_KEYS:
        if first <= release and (last is None or release <= last):
            return key
    return None
