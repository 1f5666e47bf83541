"""Whether a replay reproduces what the service billed, which is what makes a what-if on it worth anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


MOST_ERROR = 0.02
"""Share of the prompt tokens by which reads and writes may differ, request by request, for a policy to count as reproduced."""

_WRITES = tuple(f"cache_write_{ttl}_tokens_observed" for ttl in ("5m", "1h", "other"))


@dataclass(frozen=True, slots=True)
class PolicyError:
    """How far a replay is from what was billed, over the lookups that have both.

    Attributes:
        prompt_tokens: Their prompts, at least one token.
        read_tokens: Sum of the differences in reads, request by request.
        write_prompt_tokens: Prompts of those whose service counts writes.
        write_tokens: Sum of their differences in writes.
    """

    prompt_tokens: int
    read_tokens: int
    write_prompt_tokens: int = 0
    write_tokens: int = 0

    @property
    def read(self) -> float:
        """Differences in reads over the prompts."""
        return self.read_tokens / self.prompt_tokens

    @property
    def write(self) -> float | None:
        """Differences in writes over the prompts; None where nothing counts writes."""
        return self.write_tokens / self.write_prompt_tokens if self.write_prompt_tokens else None

    @property
    def reproduced(self) -> bool:
        """Whether both are within what is allowed."""
        return max(self.read, self.write or 0.0) <= MOST_ERROR

    @property
    def sentence(self) -> str:
        """The error in words."""
        wrote = "" if self.write is None else f" and writes by {100 * self.write:.1f} %"
        begin = f"request by request, reads differ from what the service billed by {100 * self.read:.1f} %{wrote} of the prompt tokens"
        if self.reproduced:
            return f"{begin}: the policy in force is reproduced (within {100 * MOST_ERROR:g} %)"
        return (
            f"{begin}: the policy in force is not reproduced (within {100 * MOST_ERROR:g} %), so what other policies would "
            "bring is not to be relied on"
        )


def policy_error(days: Iterable[Mapping[str, Any]]) -> PolicyError | None:
    """Add up the rows of the mart ``policy_days``; None where there are none."""
    rows = list(days)
    names = ("prompt_tokens", "read_error_tokens", "write_prompt_tokens", "write_error_tokens")
    sums = [sum(row[name] or 0 for row in rows) for name in names]
    return PolicyError(*sums) if sums[0] else None


def doubts(
    requests: pa.Table,
    hit_tokens: NDArray[np.int64],
    written_tokens: NDArray[np.int64],
) -> tuple[str, ...]:
    """Return what a what-if must say on top where its baseline does not reproduce what the service billed.

    Args:
        requests: The request of each lookup, with what the service says of it.
        hit_tokens: int64[k], its hits in the baseline.
        written_tokens: int64[k], its writes there.

    Returns:
        One sentence, or nothing where nobody billed or the replay is near enough.
    """
    known = np.asarray(pc.equal(requests["usage_state"], "present"), bool)
    if not known.any():
        return ()
    counts = known & np.logical_or.reduce([np.asarray(pc.is_valid(requests[name]), bool) for name in _WRITES])
    prompt, read = _numbers(requests["prompt_tokens"]), _numbers(requests["cached_tokens_observed"])
    written = sum(_numbers(requests[name]) for name in _WRITES)
    error = PolicyError(
        prompt_tokens=int(prompt[known].sum()),
        read_tokens=int(np.abs(hit_tokens - read)[known].sum()),
        write_prompt_tokens=int(prompt[counts].sum()),
        write_tokens=int(np.abs(written_tokens - written)[counts].sum()),
    )
    return () if not error.prompt_tokens or error.reproduced else (error.sentence,)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, 0), np.int64)
