"""Ids that tell a reader of a trace which blocks are equal, and nothing about their content."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.kernels.blake2b_kernel import key_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

_FILE: Final = ".export-salt"
_KEY_BYTES: Final = 16
_MASK: Final = (1 << 63) - 1
"""Readers in other languages hold ids in signed 64 bits."""


def salt_of(workspace: Workspace, given: str | None) -> bytes:
    """Return 32 bytes that key the ids of an export.

    A secret of the workspace, drawn once and kept in it, makes every export of it alike and tells a receiver who knows
    some text nothing; a salt that is given makes the ids of several workspaces comparable.

    Args:
        workspace: Where the secret is kept.
        given: Salt of the caller.
    """
    if given is not None:
        return blake2b(given.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    path = workspace.root / _FILE
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32), encoding="ascii")
    return bytes.fromhex(path.read_text(encoding="ascii"))


def salted_ids(keys: NDArray[np.uint64], salt: bytes) -> NDArray[np.int64]:
    """Return one id for each chained key: 63 bits of its keyed BLAKE2b, all different.

    Args:
        keys: uint64[n, 2].
        salt: 32 bytes.

    Returns:
        int64[n].
    """
    data = key_bytes(keys)
    for attempt in range(1 << 16):
        start = blake2b(key=salt, digest_size=8, salt=attempt.to_bytes(2, "little"))
        ids = np.empty(keys.shape[0], np.int64)
        for row in range(keys.shape[0]):
            one = start.copy()
            one.update(data[row * _KEY_BYTES : (row + 1) * _KEY_BYTES])
            ids[row] = int.from_bytes(one.digest(), "little") & _MASK
        if np.unique(ids).size == ids.size:  # 10 million blocks collide once in 180,000 exports
            return ids
    raise AssertionError
