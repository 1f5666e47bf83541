"""The keys that left a cache, as evidence reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class KeysGone:
    """Keys that left a cache with their last copy: blocks ``[first, end)`` of a chain.

    Attributes:
        lookup: int64[k], the lookup whose blocks took the room, -1 where they expired.
        at_us: int64[k]; of expired blocks the last moment at which they were valid.
        replica: int64[k], position in the pool's fleet.
        chain: int64[k].
        first: int64[k], 0-based position in the chain.
        end: int64[k].
        expired: bool[k], false: evicted.
        after: int64[k], the lookup that was admitted last before it on this replica, -1 for none; None: not known.
        admits: bool[k], whether an admission took the room, be it again after a preemption; None: not known.
    """

    lookup: NDArray[np.int64]
    at_us: NDArray[np.int64]
    replica: NDArray[np.int64]
    chain: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    expired: NDArray[np.bool_]
    after: NDArray[np.int64] | None = None
    admits: NDArray[np.bool_] | None = None
