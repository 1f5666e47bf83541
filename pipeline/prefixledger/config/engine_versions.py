"""What an engine's version says about the rules of its cache."""

from __future__ import annotations

import re

from prefixledger.errors import UsageError

READ_FROM = (0, 11)
LAST_IN_LINE = (0, 22)
FIRST_UNHASHED_FIRST = (0, 24)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(\.\d+)*")


def frees_in_line(version: str) -> bool:
    """Say whether this vLLM puts freed blocks without a hash behind all other free blocks, instead of before them.

    0.11.0, 0.16.0, 0.20.0 and 0.22.1 do; 0.24.0 and what came after put them at the head of the free queue, to be
    used next (``BlockPool.free_blocks``). 0.23 was not read.

    Args:
        version: Such as ``0.22.1`` or ``v0.24``.

    Raises:
        UsageError: It is no version, or one whose rules are not known.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise UsageError(f"{version!r} is no version of vLLM", hint='write it like "0.22.1"')
    release = (int(found[1]), int(found[2]))
    if release < READ_FROM or LAST_IN_LINE < release < FIRST_UNHASHED_FIRST:
        raise UsageError(
            f"the cache rules of vLLM {version} are not known",
            hint="known are 0.11 to 0.22, and from 0.24 on, which are two different rules",
        )
    return release <= LAST_IN_LINE
