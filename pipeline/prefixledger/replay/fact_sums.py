"""Tokens summed by what proves their outcome: the facts of a sum are bits of one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.replay.evidence import RULES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FLAGS = ("hit", "own", "resident", "elsewhere", "reset", "outlived", "capped", "changed")
"""What a sum says of its blocks, one bit each; the rule, a position in ``RULES`` plus 1, stands above them.

``own``: used before on this replica; else ``resident``: another replica holds it, or ``elsewhere``: another one did.
``reset``: one came between, on the replica that is judged; ``outlived``: the gap is longer than the TTL; ``capped``: behind
the last position that may hit; ``changed``: the same content was served before under another key.
"""
HIT, OWN, RESIDENT, ELSEWHERE, RESET, OUTLIVED, CAPPED, CHANGED = (1 << bit for bit in range(len(FLAGS)))
RULE_STEP = 1 << len(FLAGS)
CODES = RULE_STEP * (len(RULES) + 1)


@dataclass(frozen=True, slots=True)
class FactSums:
    """Tokens of one pool, summed over all pieces whose facts are the same.

    Attributes:
        group: int64[s], group of the lookups, as the caller numbers them.
        code: int64[s], the facts: bits in the order of ``FLAGS``, then the rule.
        tokens: int64[s].
        written_tokens: int64[s], those that the cache stores.
        written_1h_tokens: int64[s], of these those that marks ask to be kept for longer than the rest.
    """

    group: NDArray[np.int64]
    code: NDArray[np.int64]
    tokens: NDArray[np.int64]
    written_tokens: NDArray[np.int64]
    written_1h_tokens: NDArray[np.int64]

    def flag(self, name: str) -> NDArray[np.bool_]:
        """Return one of ``FLAGS`` of every sum."""
        found: NDArray[np.bool_] = (self.code >> FLAGS.index(name)) & 1 == 1
        return found

    @property
    def rule(self) -> NDArray[np.int64]:
        """int64[s], position in ``RULES``, -1 for none."""
        return self.code // RULE_STEP - 1
