"""Reads from cache by length of prompt: services may read nothing in a band of lengths that nobody documents."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from prefixledger.report.books import rate
from prefixledger.report.numbers import clean, count, percent, significant, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from prefixledger.report import document

_FEWEST = 5
"""Requests that a range needs to be called dead: with fewer, chance alone may read nothing."""
_ALIVE = 0.2
"""Share of requests that read in the ranges beside a dead one."""


@dataclass(frozen=True, slots=True)
class LengthRange:
    """The requests of one model whose prompts have a length in one range.

    Attributes:
        model: As logged; None where the log does not say.
        from_tokens: Shortest.
        to_tokens: First length beyond it; None: no end.
        requests: With usage.
        requests_with_read: Of these, those that read anything.
        prompt_tokens: Their prompts.
        read_tokens: Read from cache.
        ideal_prompt_tokens: Prompts of those that have keys.
        ideal_hit_tokens: What an unlimited cache would give these; None where none has keys.
    """

    model: str | None
    from_tokens: int
    to_tokens: int | None
    requests: int
    requests_with_read: int
    prompt_tokens: int
    read_tokens: int
    ideal_prompt_tokens: int
    ideal_hit_tokens: int | None

    @property
    def label(self) -> str:
        """The range in words."""
        return (
            f"{whole(self.from_tokens)} and more"
            if self.to_tokens is None
            else f"{whole(self.from_tokens)} to {whole(self.to_tokens)}"
        )

    @property
    def ideal(self) -> float | None:
        """Ideal hit rate of those that have keys."""
        return (
            None if self.ideal_hit_tokens is None else rate(self.ideal_hit_tokens, self.ideal_prompt_tokens)
        )


def lengths(mart: pa.Table) -> tuple[LengthRange, ...]:
    """Read the mart ``lengths``."""
    return tuple(
        LengthRange(
            row["model"],
            row["from_tokens"],
            row["to_tokens"],
            row["requests"],
            row["requests_with_read"],
            row["prompt_tokens"],
            row["observed_hit_tokens"],
            row["ideal_prompt_tokens"],
            row["ideal_hit_tokens"],
        )
        for row in mart.to_pylist()
    )


def dead_bands(rows: Iterable[LengthRange]) -> tuple[str, ...]:
    """Return a sentence for each band of lengths in which nothing was read while shorter and longer prompts were.

    The log does not say why, so it is no cause; a band shows that the prefix is not to blame.
    """
    return tuple(
        sentence for _, mine in groupby(rows, key=lambda row: row.model) for sentence in _bands(list(mine))
    )


def _bands(rows: Sequence[LengthRange]) -> list[str]:
    found = []
    for dead, group in groupby(enumerate(rows), key=lambda pair: not pair[1].requests_with_read):
        band = list(group)
        first, last = band[0][0], band[-1][0]
        requests = sum(row.requests for _, row in band)
        beside = [rows[n] for n in (first - 1, last + 1) if 0 <= n < len(rows)]
        alive = [
            row.requests_with_read / row.requests >= _ALIVE and row.requests >= _FEWEST for row in beside
        ]
        if dead and requests >= _FEWEST and len(alive) == 2 and all(alive):  # noqa: PLR2004  # both neighbours
            shares = " and ".join(percent(row.requests_with_read / row.requests) for row in beside)
            found.append(
                f"{clean(rows[first].model or 'A model that is not said', 60)} read nothing from cache for "
                f"{count(requests, 'prompt')} of {whole(rows[first].from_tokens)} to {whole(rows[last].to_tokens or 0)} tokens, "
                f"while {shares} of the shorter and longer ones read something: that is the service, not the prefix."
            )
    return found


def length_value(row: LengthRange) -> document.LengthRange:
    """Return one range for the JSON twin."""
    return {
        "model": row.model,
        "from_tokens": row.from_tokens,
        "to_tokens": row.to_tokens,
        "requests": row.requests,
        "requests_with_read": row.requests_with_read,
        "prompt_tokens": row.prompt_tokens,
        "read_tokens": row.read_tokens,
        "observed_hit_rate": significant(rate(row.read_tokens, row.prompt_tokens)),
        "ideal_hit_rate": significant(row.ideal),
    }
